//! The Redis command of a request, parsed from its words.

mod arguments;
mod rejection;
mod subcommands;
mod summary;

use super::reply::RespVersion;
use arguments::{
    parse_count, parse_hello, parse_integer, parse_set, parse_set_if_none, parse_wait,
};
pub(super) use rejection::RejectedCommand;
use rejection::rejection_text;
use subcommands::{parse_client, parse_command, parse_config, parse_object};
pub(super) use summary::{COMMAND_SUMMARIES, CommandSummary, find_summary};

/// A command; its arguments are words of the request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RedisCommand<'a> {
    /// INCR and INCRBY: takes `count` numbers; the answer is the last of them.
    Take {
        key: &'a [u8],
        count: u32,
    },
    /// GET, TYPE, and SET of 0: reads the number of a key, and answers by it.
    Read {
        key: &'a [u8],
        answer: ReadAnswer,
    },
    /// MGET.
    GetMany {
        keys: Vec<&'a [u8]>,
    },
    /// SET key n: RaiseTo.
    Set {
        key: &'a [u8],
        value: u64,
    },
    /// SET key n NX and SETNX: RaiseTo, if the key has no number.
    SetIfNone {
        key: &'a [u8],
        value: u64,
        answer: IfNoneAnswer,
    },
    /// EXISTS and TOUCH: the number of keys that have a number.
    Exists {
        keys: Vec<&'a [u8]>,
    },
    Time,
    /// ROLE: each server is a master without replicas.
    Role,
    /// WAIT: no replica acknowledges. A number is durable before it is answered.
    Wait,
    Ping(Option<&'a [u8]>),
    Echo(&'a [u8]),
    Hello(HelloCommand<'a>),
    Auth {
        user: Option<&'a [u8]>,
        password: &'a [u8],
    },
    /// AUTH or HELLO in a wrong form; the text is the answer.
    RejectedAuth(String),
    Select,
    Client(ClientCommand<'a>),
    /// COMMAND COUNT.
    CountCommands,
    /// COMMAND DOCS: there are none here.
    DescribeCommands,
    /// COMMAND LIST.
    ListCommands,
    /// COMMAND and COMMAND INFO; None: of all commands.
    CommandInfo(Option<Vec<&'a [u8]>>),
    ConfigGet(Vec<&'a [u8]>),
    /// INFO with the sections that it names.
    Info(Vec<&'a [u8]>),
    /// Commands after it are queued until EXEC.
    Multi,
    Exec,
    Discard,
    /// Nothing is watched, so nothing changes.
    Unwatch,
    Quit,
    Reset,
    /// Request of HTTP: a web page may have made a browser send it.
    HttpRequest,
}

/// The answer to a command that reads the number of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadAnswer {
    /// The number; nil if there is none.
    Number,
    Type,
    /// TTL and its kin: -1 if there is a number, which never expires; -2 if there is none.
    LifeTime,
    /// PERSIST: 0, since there is nothing to remove.
    Persist,
    /// STRLEN: the digits of the number.
    Length,
    /// OBJECT ENCODING: `int`, nil without a number.
    Encoding,
    /// OBJECT REFCOUNT: 1, nil without a number.
    ReferenceCount,
    /// OK if there is no number, which 0 would not change; an error that names it if there is one.
    SetZero,
    /// As for a number above 0. Nothing is raised: 0 is what a key without a number counts from.
    ZeroIfNone(IfNoneAnswer),
}

impl ReadAnswer {
    /// Returns whether it is the answer to a SET.
    pub(super) fn is_of_set(self) -> bool {
        matches!(self, ReadAnswer::SetZero | ReadAnswer::ZeroIfNone(_))
    }
}

/// The form of the answer to a SET that depends on whether the key had a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfNoneAnswer {
    /// SETNX: 1 if it had none, else 0.
    Integer,
    /// SET … NX: OK if it had none, else nil.
    Status,
}

/// Arguments of HELLO.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HelloCommand<'a> {
    pub(super) version: Option<RespVersion>,
    pub(super) auth: Option<(&'a [u8], &'a [u8])>,
    pub(super) name: Option<&'a [u8]>,
}

/// Subcommand of CLIENT.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientCommand<'a> {
    Id,
    GetName,
    SetName(&'a [u8]),
    SetInfo(LibraryField, &'a [u8]),
    /// NO-EVICT, NO-TOUCH and REPLY ON: nothing that changes an answer.
    NoEffect,
    Info,
    List(ClientFilter),
}

/// What a client library says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LibraryField {
    Name,
    Version,
}

impl LibraryField {
    /// Returns its name in the protocol.
    pub(super) fn name(self) -> &'static str {
        match self {
            LibraryField::Name => "lib-name",
            LibraryField::Version => "lib-ver",
        }
    }
}

/// The connections that CLIENT LIST shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientFilter {
    All,
    Ids(Vec<u64>),
    /// Those of a kind that this server does not have.
    Nothing,
}

impl<'a> RedisCommand<'a> {
    /// Parses the words of a request, of which there is at least one.
    ///
    /// # Errors
    /// The request is no valid command; the error is the text of the reply, with its code.
    pub(super) fn parse(words: &[&'a [u8]]) -> Result<RedisCommand<'a>, RejectedCommand> {
        let (name, args) = words.split_first().ok_or("ERR an empty request")?;
        // Most commands are this one: it is not compared with all names.
        if let [key] = args
            && name.eq_ignore_ascii_case(b"INCR")
        {
            return Ok(RedisCommand::Take { key, count: 1 });
        }
        let mut upper = [0; COMMAND_NAME_MAX];
        let upper = match upper.get_mut(..name.len()) {
            Some(upper) => {
                upper.copy_from_slice(name);
                upper.make_ascii_uppercase();
                &*upper
            }
            None => &[],
        };
        Ok(match (upper, args) {
            (b"INCRBY", [key, count]) => RedisCommand::Take {
                key,
                count: parse_count(count)?,
            },
            (b"GET", [key]) => RedisCommand::Read {
                key,
                answer: ReadAnswer::Number,
            },
            (b"MGET", keys @ [_, ..]) => RedisCommand::GetMany {
                keys: keys.to_vec(),
            },
            (b"SET", [key, value, options @ ..]) => parse_set(key, value, options)?,
            (b"SETNX", [key, value]) => parse_set_if_none(key, value, IfNoneAnswer::Integer)?,
            (b"EXISTS" | b"TOUCH", keys @ [_, ..]) => RedisCommand::Exists {
                keys: keys.to_vec(),
            },
            (b"TYPE", [key]) => RedisCommand::Read {
                key,
                answer: ReadAnswer::Type,
            },
            (b"TTL" | b"PTTL" | b"EXPIRETIME" | b"PEXPIRETIME", [key]) => RedisCommand::Read {
                key,
                answer: ReadAnswer::LifeTime,
            },
            (b"PERSIST", [key]) => RedisCommand::Read {
                key,
                answer: ReadAnswer::Persist,
            },
            (b"STRLEN", [key]) => RedisCommand::Read {
                key,
                answer: ReadAnswer::Length,
            },
            (b"OBJECT", [subcommand, args @ ..]) => parse_object(subcommand, args)?,
            (b"TIME", []) => RedisCommand::Time,
            (b"ROLE", []) => RedisCommand::Role,
            (b"WAIT", [replicas, timeout]) => parse_wait(replicas, timeout)?,
            (b"PING", []) => RedisCommand::Ping(None),
            (b"PING", [text]) => RedisCommand::Ping(Some(text)),
            (b"ECHO", [text]) => RedisCommand::Echo(text),
            (b"HELLO", args) => match parse_hello(args) {
                Ok(hello) => RedisCommand::Hello(hello),
                Err(rejected) => RedisCommand::RejectedAuth(rejected.text),
            },
            (b"AUTH", [password]) => RedisCommand::Auth {
                user: None,
                password,
            },
            (b"AUTH", [user, password]) => RedisCommand::Auth {
                user: Some(user),
                password,
            },
            (b"AUTH", _) => RedisCommand::RejectedAuth(rejection_text(name, upper, args)),
            (b"SELECT", [index]) => match parse_integer(index).map_err(|rejected| rejected.text)? {
                0 => RedisCommand::Select,
                _ => {
                    return Err(
                        "ERR DB index is out of range: the only index is 0; use @namespace/key for a key of another namespace"
                            .into(),
                    );
                }
            },
            (b"CLIENT", [subcommand, args @ ..]) => {
                RedisCommand::Client(parse_client(subcommand, args)?)
            }
            (b"COMMAND", args) => parse_command(args)?,
            (b"CONFIG", [subcommand, args @ ..]) => parse_config(subcommand, args)?,
            (b"INFO", sections) => RedisCommand::Info(sections.to_vec()),
            (b"MULTI", []) => RedisCommand::Multi,
            (b"EXEC", []) => RedisCommand::Exec,
            (b"DISCARD", []) => RedisCommand::Discard,
            (b"UNWATCH", []) => RedisCommand::Unwatch,
            (b"QUIT", _) => RedisCommand::Quit,
            (b"RESET", []) => RedisCommand::Reset,
            (b"POST" | b"HOST:", _) => RedisCommand::HttpRequest,
            _ => return Err(rejection_text(name, upper, args).into()),
        })
    }

    /// Returns whether a connection without an identity may send it.
    pub(super) fn is_open_to_unknown(&self) -> bool {
        matches!(
            self,
            RedisCommand::Auth { .. }
                | RedisCommand::Hello(_)
                | RedisCommand::RejectedAuth(_)
                | RedisCommand::Quit
                | RedisCommand::Reset
                | RedisCommand::HttpRequest
        )
    }

    /// Returns whether the answer may be longer than a few hundred bytes, from few words.
    pub(super) fn has_long_answer(&self) -> bool {
        matches!(
            self,
            RedisCommand::Info(_)
                | RedisCommand::ListCommands
                | RedisCommand::CommandInfo(_)
                | RedisCommand::Client(ClientCommand::Info | ClientCommand::List(_))
        )
    }

    /// Returns the keys whose numbers the command takes, reads or sets.
    pub(super) fn keys(&self) -> &[&'a [u8]] {
        match self {
            RedisCommand::Take { key, .. }
            | RedisCommand::Read { key, .. }
            | RedisCommand::Set { key, .. }
            | RedisCommand::SetIfNone { key, .. } => std::slice::from_ref(key),
            RedisCommand::GetMany { keys } | RedisCommand::Exists { keys } => keys,
            _ => &[],
        }
    }
}

/// Maximum bytes of a command's name. A longer name is an unknown command.
const COMMAND_NAME_MAX: usize = 16;

#[cfg(test)]
mod tests;
