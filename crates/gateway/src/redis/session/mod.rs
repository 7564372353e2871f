//! The state of one Redis connection, and the commands that need nothing else: HELLO, AUTH, CLIENT,
//! INFO and others.

mod client_line;
mod glob;
mod identity;
mod server_info;
mod settings;

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use seqsvr_net::LocalSequence;
use tokio::time::Instant;

use super::command::{
    COMMAND_SUMMARIES, ClientCommand, ClientFilter, CommandSummary, HelloCommand, LibraryField,
    RedisCommand, find_summary,
};
use super::reply::{ReplyBuffer, RespVersion};
use super::shared::RedisShared;
use super::transaction::Transaction;
use identity::AuthError;
pub(super) use identity::{NOAUTH, SessionIdentity};
use server_info::server_info;
use settings::write_settings;

/// The version of Redis that these answers resemble. Clients request it, and choose their commands
/// by it.
const REDIS_VERSION: &str = "7.2.0";

/// Maximum bytes of a connection's name and of what its library says of itself. The session rejects
/// longer ones.
const CLIENT_NAME_MAX: usize = 256;
/// Maximum wrong tokens of one connection; then it is closed.
const WRONG_TOKENS_MAX: u32 = 3;

/// The state of one connection.
pub(super) struct RedisSession<'a> {
    shared: &'a RedisShared,
    id: u64,
    /// Address of this end.
    local: SocketAddr,
    opened_at: Instant,
    name: Vec<u8>,
    /// What the client library says of itself.
    lib_name: Vec<u8>,
    lib_ver: Vec<u8>,
    /// Who sends the next command.
    pub(super) identity: SessionIdentity<'a>,
    /// The commands since MULTI; they wait for EXEC.
    pub(super) transaction: Option<Box<Transaction>>,
    /// The connection gets no more answers: it sent QUIT, or uses another protocol.
    pub(super) ended: bool,
    wrong_tokens: u32,
    /// The last command had a wrong token, and its answer is not written yet.
    owes_rejection: bool,
}

impl Drop for RedisSession<'_> {
    fn drop(&mut self) {
        self.shared.close_connection();
    }
}

impl<'a> RedisSession<'a> {
    pub(super) fn new(
        shared: &'a RedisShared,
        identity: SessionIdentity<'a>,
        local: SocketAddr,
    ) -> RedisSession<'a> {
        RedisSession {
            shared,
            id: shared.open_connection(),
            local,
            opened_at: Instant::now(),
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_ver: Vec::new(),
            identity,
            transaction: None,
            ended: false,
            wrong_tokens: 0,
            owes_rejection: false,
        }
    }

    /// Answers a command that needs no number.
    pub(super) fn answer_command(
        &mut self,
        command: &RedisCommand<'_>,
        sequence: &impl LocalSequence,
        replies: &mut ReplyBuffer,
    ) {
        match command {
            RedisCommand::Ping(None) => replies.write_simple("PONG"),
            RedisCommand::Ping(Some(text)) | RedisCommand::Echo(text) => replies.write_bulk(text),
            RedisCommand::Time => write_time(replies),
            RedisCommand::Role => {
                replies.begin_array(3);
                replies.write_bulk(b"master");
                replies.write_integer(0);
                replies.begin_array(0);
            }
            RedisCommand::Wait => replies.write_integer(0),
            RedisCommand::Hello(hello) => match self.try_hello(hello, replies) {
                Ok(()) => self.write_server(replies),
                Err(error) => self.reject_auth(error, replies),
            },
            RedisCommand::Auth { user, password } => {
                match self.identity.authenticate(*user, password) {
                    Ok(()) => replies.write_simple("OK"),
                    Err(error) => self.reject_auth(error, replies),
                }
            }
            RedisCommand::RejectedAuth(text) => {
                self.identity.note_failed_auth();
                replies.write_error(text);
            }
            RedisCommand::Select => replies.write_simple("OK"),
            RedisCommand::Client(client) => self.answer_client(client, replies),
            RedisCommand::CountCommands => {
                replies.write_integer(COMMAND_SUMMARIES.len() as u64);
            }
            RedisCommand::DescribeCommands => replies.begin_map(0),
            RedisCommand::ListCommands => write_command_names(replies),
            RedisCommand::CommandInfo(None) => {
                replies.begin_array(COMMAND_SUMMARIES.len());
                for summary in &COMMAND_SUMMARIES {
                    write_summary(summary, replies);
                }
            }
            RedisCommand::CommandInfo(Some(names)) => {
                replies.begin_array(names.len());
                for name in names {
                    match find_summary(name) {
                        Some(summary) => write_summary(summary, replies),
                        None => replies.write_nil(),
                    }
                }
            }
            RedisCommand::ConfigGet(patterns) => write_settings(patterns, replies),
            RedisCommand::Info(sections) => {
                let can_serve = sequence.can_serve();
                replies.write_text(&server_info(self.shared, sections, can_serve));
            }
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
                self.identity.reset();
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

    /// Returns whether the answer to a wrong token is due, which is the last of its batch. The
    /// connection delays it.
    pub(super) fn owes_rejection(&self) -> bool {
        self.owes_rejection
    }

    /// Answers a wrong token. False: it was the last one that the connection may send.
    pub(super) fn answer_wrong_token(&mut self, replies: &mut ReplyBuffer) -> bool {
        self.owes_rejection = false;
        replies.write_error(identity::WRONGPASS);
        self.wrong_tokens < WRONG_TOKENS_MAX
    }

    fn reject_auth(&mut self, error: AuthError, replies: &mut ReplyBuffer) {
        self.identity.note_failed_auth();
        match error {
            AuthError::Rejected(text) => replies.write_error(text),
            AuthError::WrongToken => {
                self.shared.wrong_tokens.note(Some(self.identity.remote()));
                self.wrong_tokens += 1;
                self.owes_rejection = true;
            }
        }
    }

    /// Does what HELLO requests, except its answer.
    fn try_hello(
        &mut self,
        hello: &HelloCommand<'_>,
        replies: &mut ReplyBuffer,
    ) -> Result<(), AuthError> {
        if let Some((user, token)) = hello.auth {
            self.identity.authenticate(Some(user), token)?;
        }
        if self.identity.caller().is_none() {
            return Err(AuthError::Rejected(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
            ));
        }
        if let Some(name) = hello.name {
            self.set_name(name).map_err(AuthError::Rejected)?;
        }
        if let Some(version) = hello.version {
            replies.version = version;
        }
        Ok(())
    }

    /// Writes the answer to HELLO.
    fn write_server(&self, replies: &mut ReplyBuffer) {
        // Some clients read the answer by position: the order is that of Redis.
        let names: [&[u8]; 7] = [
            b"server", b"version", b"proto", b"id", b"mode", b"role", b"modules",
        ];
        replies.begin_map(names.len());
        for name in names {
            replies.write_bulk(name);
            match name {
                b"server" => replies.write_bulk(b"seqsvr"),
                b"version" => replies.write_bulk(REDIS_VERSION.as_bytes()),
                b"proto" => replies.write_integer(replies.version as u64),
                b"id" => replies.write_integer(self.id),
                b"mode" => replies.write_bulk(b"standalone"),
                b"role" => replies.write_bulk(b"master"),
                _ => replies.begin_array(0),
            }
        }
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
            ClientCommand::SetInfo(library, value) => {
                let name = library.name();
                if !value.iter().all(u8::is_ascii_graphic) {
                    return replies.write_error(&format!(
                        "ERR {name} cannot contain spaces, newlines or special characters."
                    ));
                }
                if value.len() > CLIENT_NAME_MAX {
                    return replies.write_error(&format!(
                        "ERR {name} has {} bytes: the limit is {CLIENT_NAME_MAX}",
                        value.len()
                    ));
                }
                match library {
                    LibraryField::Name => self.lib_name = value.to_vec(),
                    LibraryField::Version => self.lib_ver = value.to_vec(),
                }
                replies.write_simple("OK");
            }
            ClientCommand::Info => self.write_client_line("info", replies),
            // The server lists no connection but this one.
            ClientCommand::List(ClientFilter::Ids(ids)) if !ids.contains(&self.id) => {
                replies.write_text("");
            }
            ClientCommand::List(ClientFilter::Nothing) => replies.write_text(""),
            ClientCommand::List(_) => self.write_client_line("list", replies),
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

/// Writes the seconds and the microseconds of the time of day.
fn write_time(replies: &mut ReplyBuffer) {
    #[expect(
        clippy::disallowed_methods,
        reason = "the caller asks for the time of day; nothing is counted by it"
    )]
    let now = SystemTime::now();
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    replies.begin_array(2);
    replies.write_bulk_number(since_1970.as_secs());
    replies.write_bulk_number(since_1970.subsec_micros().into());
}

/// Writes the names of all commands.
fn write_command_names(replies: &mut ReplyBuffer) {
    replies.begin_array(COMMAND_SUMMARIES.len());
    for summary in &COMMAND_SUMMARIES {
        replies.write_bulk(summary.name.as_bytes());
    }
}

/// Writes what COMMAND INFO says of a command. The lists at its end are empty.
fn write_summary(summary: &CommandSummary, replies: &mut ReplyBuffer) {
    replies.begin_array(10);
    replies.write_bulk(summary.name.as_bytes());
    replies.write_signed(summary.arity.into());
    replies.begin_array(summary.flags.len());
    for flag in summary.flags {
        replies.write_simple(flag);
    }
    for place in summary.keys {
        replies.write_signed(place.into());
    }
    for _ in 0..4 {
        replies.begin_array(0);
    }
}
