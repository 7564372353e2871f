//! The state that one connection has set, and the commands that need nothing else.

use std::net::SocketAddr;

use tokio::time::Instant;

use super::about::About;
use super::command::{Client, Command, Hello};
use super::reply::{Replies, Version};
use crate::secret::same;

/// The version of Redis that these answers resemble: clients request it, and choose their commands
/// by it.
pub(super) const REDIS_VERSION: &str = "7.2.0";

/// Longest name of a connection.
const NAME_MAX: usize = 256;

const NOAUTH: &str = "NOAUTH Authentication required.";
const WRONGPASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// The state of one connection.
pub(super) struct Session<'a> {
    about: &'a About,
    id: u64,
    remote: SocketAddr,
    since: Instant,
    name: Vec<u8>,
    pub(super) authenticated: bool,
    /// It is not answered any more: it sent QUIT, or uses another protocol.
    pub(super) ended: bool,
}

impl<'a> Session<'a> {
    pub(super) fn new(about: &'a About, remote: SocketAddr) -> Session<'a> {
        Session {
            about,
            id: about.next_id(),
            remote,
            since: Instant::now(),
            name: Vec::new(),
            authenticated: about.password.is_none(),
            ended: false,
        }
    }

    /// Returns why a command is rejected before it is read in detail.
    pub(super) fn refuses(&self, command: &Command<'_>) -> Option<&'static str> {
        let free = matches!(
            command,
            Command::Auth { .. }
                | Command::Hello(_)
                | Command::Quit
                | Command::Reset
                | Command::Http
        );
        (!self.authenticated && !free).then_some(NOAUTH)
    }

    /// Answers a command that needs no number.
    pub(super) fn answer(&mut self, command: &Command<'_>, replies: &mut Replies) {
        match command {
            Command::Ping(None) => replies.simple("PONG"),
            Command::Ping(Some(text)) | Command::Echo(text) => replies.bulk(text),
            Command::Hello(hello) => self.hello(hello, replies),
            Command::Auth { user, password } => match self.auth(*user, password) {
                Ok(()) => replies.simple("OK"),
                Err(text) => replies.error(text),
            },
            Command::Select => replies.simple("OK"),
            Command::Client(client) => self.client(client, replies),
            Command::CountCommands => replies.integer(0),
            Command::DescribeCommands => replies.map(0),
            Command::ListCommands => replies.array(0),
            Command::ConfigGet(names) => {
                let known = CONFIG.iter().filter(|(name, _)| {
                    let asked = |asked: &&[u8]| {
                        *asked == b"*" || asked.eq_ignore_ascii_case(name.as_bytes())
                    };
                    names.iter().any(asked)
                });
                let known: Vec<_> = known.collect();
                replies.map(known.len());
                for (name, value) in known {
                    replies.bulk(name.as_bytes());
                    replies.bulk(value.as_bytes());
                }
            }
            Command::Info => replies.bulk(self.about.info().as_bytes()),
            Command::Quit => {
                self.ended = true;
                replies.simple("OK");
            }
            Command::Reset => {
                self.name.clear();
                self.authenticated = self.about.password.is_none();
                replies.version = Version::Two;
                replies.simple("RESET");
            }
            // The bytes that follow may be another page's commands.
            Command::Http => {
                self.ended = true;
                replies.error("ERR this is not HTTP");
            }
            // All other commands need a number.
            other => replies.error(&format!("ERR {other:?} was not answered")),
        }
    }

    fn auth(&mut self, user: Option<&[u8]>, password: &[u8]) -> Result<(), &'static str> {
        let Some(expected) = &self.about.password else {
            // Redis has a user `default` that any password admits, if the command names it.
            return match user {
                Some(b"default") => Ok(()),
                Some(_) => Err(WRONGPASS),
                None => Err(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                ),
            };
        };
        let known = user.is_none_or(|user| user == b"default");
        if !(same(expected.as_bytes(), password) && known) {
            return Err(WRONGPASS);
        }
        self.authenticated = true;
        Ok(())
    }

    fn hello(&mut self, hello: &Hello<'_>, replies: &mut Replies) {
        if let Some((user, password)) = hello.auth
            && let Err(text) = self.auth(Some(user), password)
        {
            return replies.error(text);
        }
        if !self.authenticated {
            return replies.error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
            );
        }
        if let Some(name) = hello.name
            && let Err(text) = self.set_name(name)
        {
            return replies.error(text);
        }
        match hello.version {
            Some(2) => replies.version = Version::Two,
            Some(3) => replies.version = Version::Three,
            _ => {}
        }
        let proto = match replies.version {
            Version::Two => 2,
            Version::Three => 3,
        };
        replies.map(7);
        for (name, value) in [
            ("server", "seqsvr"),
            ("version", REDIS_VERSION),
            ("mode", "standalone"),
            ("role", "master"),
        ] {
            replies.bulk(name.as_bytes());
            replies.bulk(value.as_bytes());
        }
        replies.bulk(b"proto");
        replies.integer(proto);
        replies.bulk(b"id");
        replies.integer(self.id);
        replies.bulk(b"modules");
        replies.array(0);
    }

    fn client(&mut self, client: &Client<'_>, replies: &mut Replies) {
        match client {
            Client::Id => replies.integer(self.id),
            Client::GetName if self.name.is_empty() => replies.nil(),
            Client::GetName => replies.bulk(&self.name),
            Client::SetName(name) => match self.set_name(name) {
                Ok(()) => replies.simple("OK"),
                Err(text) => replies.error(text),
            },
            Client::Noted => replies.simple("OK"),
            Client::Info | Client::List => {
                let proto = match replies.version {
                    Version::Two => 2,
                    Version::Three => 3,
                };
                let line = format!(
                    "id={} addr={} name={} age={} db=0 resp={proto}\n",
                    self.id,
                    self.remote,
                    String::from_utf8_lossy(&self.name),
                    self.since.elapsed().as_secs()
                );
                replies.bulk(line.as_bytes());
            }
        }
    }

    fn set_name(&mut self, name: &[u8]) -> Result<(), &'static str> {
        if name.len() > NAME_MAX || !name.iter().all(u8::is_ascii_graphic) {
            return Err(
                "ERR Client names cannot contain spaces, newlines or special characters, nor have more than 256 bytes.",
            );
        }
        self.name = name.to_vec();
        Ok(())
    }
}

/// Settings that redis-benchmark and client libraries request.
const CONFIG: [(&str, &str); 4] = [
    ("save", ""),
    ("appendonly", "yes"),
    ("databases", "1"),
    ("maxmemory", "0"),
];
