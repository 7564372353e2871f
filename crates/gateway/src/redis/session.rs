//! The state of one Redis connection, and the commands that need nothing else: HELLO, AUTH, CLIENT,
//! INFO and others.

use std::net::SocketAddr;

use tokio::time::Instant;

use super::command::{ClientCommand, HelloCommand, RedisCommand};
use super::reply::{ReplyBuffer, RespVersion};
use super::shared::RedisShared;
use super::transaction::Transaction;
use crate::constant_time::constant_time_eq;

/// The version of Redis that these answers resemble. Clients request it, and choose their commands
/// by it.
const REDIS_VERSION: &str = "7.2.0";

/// Maximum bytes of a connection's name. The session rejects a longer one.
const CLIENT_NAME_MAX: usize = 256;
/// Maximum wrong passwords of one connection; then it is closed.
const WRONG_PASSWORDS_MAX: u32 = 3;

const NOAUTH: &str = "NOAUTH Authentication required.";
const WRONGPASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// The state of one connection.
pub(super) struct RedisSession<'a> {
    shared: &'a RedisShared,
    id: u64,
    remote: SocketAddr,
    opened_at: Instant,
    name: Vec<u8>,
    pub(super) authenticated: bool,
    /// The commands since MULTI; they wait for EXEC.
    pub(super) transaction: Option<Box<Transaction>>,
    /// The connection gets no more answers: it sent QUIT, or uses another protocol.
    pub(super) ended: bool,
    wrong_passwords: u32,
    /// The last command had a wrong password, and its answer is not written yet.
    owes_rejection: bool,
}

/// The reason why a password was rejected.
enum AuthError {
    WrongPassword,
    /// No password is compared; the text is the answer.
    NotCompared(&'static str),
}

impl<'a> RedisSession<'a> {
    pub(super) fn new(shared: &'a RedisShared, remote: SocketAddr) -> RedisSession<'a> {
        RedisSession {
            shared,
            id: shared.next_connection_id(),
            remote,
            opened_at: Instant::now(),
            name: Vec::new(),
            authenticated: shared.password.is_none(),
            transaction: None,
            ended: false,
            wrong_passwords: 0,
            owes_rejection: false,
        }
    }

    /// Returns the error of a command that needs authentication; None: the command may run.
    pub(super) fn check_authenticated(&self, command: &RedisCommand<'_>) -> Option<&'static str> {
        let needs_no_password = matches!(
            command,
            RedisCommand::Auth { .. }
                | RedisCommand::Hello(_)
                | RedisCommand::Quit
                | RedisCommand::Reset
                | RedisCommand::HttpRequest
        );
        (!self.authenticated && !needs_no_password).then_some(NOAUTH)
    }

    /// Answers a command that needs no number.
    pub(super) fn answer_command(&mut self, command: &RedisCommand<'_>, replies: &mut ReplyBuffer) {
        match command {
            RedisCommand::Ping(None) => replies.write_simple("PONG"),
            RedisCommand::Ping(Some(text)) | RedisCommand::Echo(text) => replies.write_bulk(text),
            RedisCommand::Hello(hello) => self.answer_hello(hello, replies),
            RedisCommand::Auth { user, password } => match self.authenticate(*user, password) {
                Ok(()) => replies.write_simple("OK"),
                Err(error) => self.reject_password(error, replies),
            },
            RedisCommand::Select => replies.write_simple("OK"),
            RedisCommand::Client(client) => self.answer_client(client, replies),
            RedisCommand::CountCommands => replies.write_integer(0),
            RedisCommand::DescribeCommands => replies.begin_map(0),
            RedisCommand::ListCommands => replies.begin_array(0),
            RedisCommand::ConfigGet(names) => {
                let matching = CONFIG_VALUES.iter().filter(|(name, _)| {
                    let is_requested = |pattern: &&[u8]| {
                        *pattern == b"*" || pattern.eq_ignore_ascii_case(name.as_bytes())
                    };
                    names.iter().any(is_requested)
                });
                let matching: Vec<_> = matching.collect();
                replies.begin_map(matching.len());
                for (name, value) in matching {
                    replies.write_bulk(name.as_bytes());
                    replies.write_bulk(value.as_bytes());
                }
            }
            RedisCommand::Info => replies.write_bulk(self.info_text().as_bytes()),
            RedisCommand::Multi => {
                self.transaction = Some(Box::default());
                replies.write_simple("OK");
            }
            RedisCommand::Exec => replies.write_error("ERR EXEC without MULTI"),
            RedisCommand::Discard => replies.write_error("ERR DISCARD without MULTI"),
            RedisCommand::Unwatch => replies.write_simple("OK"),
            RedisCommand::Quit => {
                self.ended = true;
                replies.write_simple("OK");
            }
            RedisCommand::Reset => {
                self.name.clear();
                self.authenticated = self.shared.password.is_none();
                replies.version = RespVersion::Resp2;
                replies.write_simple("RESET");
            }
            // A web page may have chosen the bytes that follow: they are no commands.
            RedisCommand::HttpRequest => {
                self.ended = true;
                replies.write_error("ERR this is not HTTP");
            }
            // All other commands need a number and are answered elsewhere.
            other => replies.write_error(&format!("ERR {other:?} was not answered")),
        }
    }

    /// Returns the text of the answer to INFO.
    fn info_text(&self) -> String {
        let uptime = self.shared.uptime().as_secs();
        format!(
            "# Server\r\nredis_version:{REDIS_VERSION}\r\nserver_name:seqsvr\r\nseqsvr_version:{}\r\nredis_mode:standalone\r\nprocess_id:{}\r\nuptime_in_seconds:{uptime}\r\n\r\n# Persistence\r\nloading:0\r\naof_enabled:1\r\n\r\n# Stats\r\ntotal_connections_received:{}\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
            env!("CARGO_PKG_VERSION"),
            std::process::id(),
            self.shared.connections_total()
        )
    }

    /// Returns whether the answer to a wrong password is due, which is the last of its batch. The
    /// connection delays it.
    pub(super) fn owes_rejection(&self) -> bool {
        self.owes_rejection
    }

    /// Answers a wrong password. False: it was the last one that the connection may send.
    pub(super) fn answer_wrong_password(&mut self, replies: &mut ReplyBuffer) -> bool {
        self.owes_rejection = false;
        replies.write_error(WRONGPASS);
        self.wrong_passwords < WRONG_PASSWORDS_MAX
    }

    fn reject_password(&mut self, error: AuthError, replies: &mut ReplyBuffer) {
        match error {
            AuthError::NotCompared(text) => replies.write_error(text),
            AuthError::WrongPassword => {
                self.shared.wrong_passwords.note(Some(self.remote));
                self.wrong_passwords += 1;
                self.owes_rejection = true;
            }
        }
    }

    fn authenticate(&mut self, user: Option<&[u8]>, password: &[u8]) -> Result<(), AuthError> {
        let Some(expected) = &self.shared.password else {
            // Redis has a user `default` that any password admits, if the command names it.
            return match user {
                Some(b"default") => Ok(()),
                Some(_) => Err(AuthError::NotCompared(WRONGPASS)),
                None => Err(AuthError::NotCompared(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                )),
            };
        };
        let is_known_user = user.is_none_or(|user| user == b"default");
        if !(constant_time_eq(expected.as_bytes(), password) && is_known_user) {
            return Err(AuthError::WrongPassword);
        }
        self.authenticated = true;
        Ok(())
    }

    fn answer_hello(&mut self, hello: &HelloCommand<'_>, replies: &mut ReplyBuffer) {
        if let Some((user, password)) = hello.auth
            && let Err(error) = self.authenticate(Some(user), password)
        {
            return self.reject_password(error, replies);
        }
        if !self.authenticated {
            return replies.write_error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
            );
        }
        if let Some(name) = hello.name
            && let Err(text) = self.set_name(name)
        {
            return replies.write_error(text);
        }
        if let Some(version) = hello.version {
            replies.version = version;
        }
        replies.begin_map(7);
        for (name, value) in [
            ("server", "seqsvr"),
            ("version", REDIS_VERSION),
            ("mode", "standalone"),
            ("role", "master"),
        ] {
            replies.write_bulk(name.as_bytes());
            replies.write_bulk(value.as_bytes());
        }
        replies.write_bulk(b"proto");
        replies.write_integer(replies.version as u64);
        replies.write_bulk(b"id");
        replies.write_integer(self.id);
        replies.write_bulk(b"modules");
        replies.begin_array(0);
    }

    fn answer_client(&mut self, client: &ClientCommand<'_>, replies: &mut ReplyBuffer) {
        match client {
            ClientCommand::Id => replies.write_integer(self.id),
            ClientCommand::GetName if self.name.is_empty() => replies.write_nil(),
            ClientCommand::GetName => replies.write_bulk(&self.name),
            ClientCommand::SetName(name) => match self.set_name(name) {
                Ok(()) => replies.write_simple("OK"),
                Err(text) => replies.write_error(text),
            },
            ClientCommand::NoEffect => replies.write_simple("OK"),
            ClientCommand::Info | ClientCommand::List => {
                let proto = replies.version as u64;
                let line = format!(
                    "id={} addr={} name={} age={} db=0 resp={proto}\n",
                    self.id,
                    self.remote,
                    String::from_utf8_lossy(&self.name),
                    self.opened_at.elapsed().as_secs()
                );
                replies.write_bulk(line.as_bytes());
            }
        }
    }

    fn set_name(&mut self, name: &[u8]) -> Result<(), &'static str> {
        if name.len() > CLIENT_NAME_MAX || !name.iter().all(u8::is_ascii_graphic) {
            return Err(
                "ERR Client names cannot contain spaces, newlines or special characters, nor have more than 256 bytes.",
            );
        }
        self.name = name.to_vec();
        Ok(())
    }
}

/// Settings that redis-benchmark and client libraries request with CONFIG GET.
const CONFIG_VALUES: [(&str, &str); 4] = [
    ("save", ""),
    ("appendonly", "yes"),
    ("databases", "1"),
    ("maxmemory", "0"),
];
