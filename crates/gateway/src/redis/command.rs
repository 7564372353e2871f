//! The Redis command of a request, parsed from its words.

use seqsvr_core::geometry::COUNT_MAX;

use super::reply::RespVersion;

/// A command; its arguments are words of the request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RedisCommand<'a> {
    /// INCR and INCRBY: takes `count` numbers; the answer is the last of them.
    Take {
        key: &'a [u8],
        count: u32,
    },
    /// GET.
    Get {
        key: &'a [u8],
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
    /// EXISTS: the number of keys that have a number.
    Exists {
        keys: Vec<&'a [u8]>,
    },
    /// TYPE.
    Type {
        key: &'a [u8],
    },
    Ping(Option<&'a [u8]>),
    Echo(&'a [u8]),
    Hello(HelloCommand<'a>),
    Auth {
        user: Option<&'a [u8]>,
        password: &'a [u8],
    },
    Select,
    Client(ClientCommand<'a>),
    /// COMMAND COUNT. The other subcommands of COMMAND return an empty list or map.
    CountCommands,
    DescribeCommands,
    ListCommands,
    ConfigGet(Vec<&'a [u8]>),
    Info,
    Quit,
    Reset,
    /// Request of HTTP: a web page may have made a browser send it.
    HttpRequest,
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
    /// SETINFO, NO-EVICT, NO-TOUCH and REPLY ON: nothing that changes an answer.
    NoEffect,
    Info,
    List,
}

impl<'a> RedisCommand<'a> {
    /// Parses the words of a request, of which there is at least one.
    ///
    /// # Errors
    /// The request is no valid command; the error is the text of the reply, with its code.
    pub(super) fn parse(words: &[&'a [u8]]) -> Result<RedisCommand<'a>, String> {
        let (name, args) = words.split_first().ok_or("ERR an empty request")?;
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
            (b"INCR", [key]) => RedisCommand::Take { key, count: 1 },
            (b"INCRBY", [key, count]) => RedisCommand::Take {
                key,
                count: parse_count(count)?,
            },
            (b"GET", [key]) => RedisCommand::Get { key },
            (b"MGET", keys @ [_, ..]) => RedisCommand::GetMany {
                keys: keys.to_vec(),
            },
            (b"SET", [key, value]) => RedisCommand::Set {
                key,
                value: parse_value(value)?,
            },
            (b"SET", [_, _, option, ..]) => {
                return Err(format!(
                    "ERR SET takes a key and a number here: {} is not supported, because a number only rises and never expires",
                    escape_for_error(option).to_uppercase()
                ));
            }
            (b"EXISTS", keys @ [_, ..]) => RedisCommand::Exists {
                keys: keys.to_vec(),
            },
            (b"TYPE", [key]) => RedisCommand::Type { key },
            (b"PING", []) => RedisCommand::Ping(None),
            (b"PING", [text]) => RedisCommand::Ping(Some(text)),
            (b"ECHO", [text]) => RedisCommand::Echo(text),
            (b"HELLO", args) => RedisCommand::Hello(parse_hello(args)?),
            (b"AUTH", [password]) => RedisCommand::Auth {
                user: None,
                password,
            },
            (b"AUTH", [user, password]) => RedisCommand::Auth {
                user: Some(user),
                password,
            },
            (b"SELECT", [index]) => match *index {
                b"0" => RedisCommand::Select,
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
            (b"COMMAND", [subcommand]) if subcommand.eq_ignore_ascii_case(b"count") => {
                RedisCommand::CountCommands
            }
            (b"COMMAND", [subcommand, ..]) if subcommand.eq_ignore_ascii_case(b"docs") => {
                RedisCommand::DescribeCommands
            }
            (b"COMMAND", _) => RedisCommand::ListCommands,
            (b"CONFIG", [subcommand, names @ ..]) if subcommand.eq_ignore_ascii_case(b"get") => {
                RedisCommand::ConfigGet(names.to_vec())
            }
            (b"INFO", _) => RedisCommand::Info,
            (b"QUIT", _) => RedisCommand::Quit,
            (b"RESET", []) => RedisCommand::Reset,
            (b"POST" | b"HOST:", _) => RedisCommand::HttpRequest,
            _ => return Err(rejection_text(name, upper, args)),
        })
    }
}

/// Maximum bytes of a command's name. A longer name is an unknown command.
const COMMAND_NAME_MAX: usize = 16;

/// Known commands: they get the error of a wrong number of arguments.
const KNOWN_COMMANDS: [&str; 18] = [
    "INCR", "INCRBY", "GET", "MGET", "SET", "EXISTS", "TYPE", "PING", "ECHO", "HELLO", "AUTH",
    "SELECT", "CLIENT", "COMMAND", "CONFIG", "INFO", "QUIT", "RESET",
];

/// Returns the reply to a command that is unknown, unsupported or has the wrong arguments.
fn rejection_text(name: &[u8], upper: &[u8], args: &[&[u8]]) -> String {
    let name = escape_for_error(name);
    match upper {
        b"DECR" | b"DECRBY" | b"DEL" | b"UNLINK" | b"GETDEL" | b"FLUSHDB" | b"FLUSHALL"
        | b"EXPIRE" | b"PEXPIRE" | b"EXPIREAT" | b"PEXPIREAT" | b"SETEX" | b"PSETEX" | b"GETEX"
        | b"RENAME" | b"RENAMENX" | b"MOVE" | b"SWAPDB" | b"RESTORE" => {
            format!("ERR {name} would lower or delete a number: numbers only rise")
        }
        b"MULTI" | b"EXEC" | b"DISCARD" | b"WATCH" | b"UNWATCH" => format!(
            "ERR {name}: transactions are not supported, each command runs alone; a pipeline without a transaction is as fast (redis-py: transaction=False), and INCRBY takes a range"
        ),
        b"SETNX" | b"GETSET" | b"MSET" | b"MSETNX" | b"APPEND" | b"SETRANGE" | b"INCRBYFLOAT" => {
            format!(
                "ERR {name} is not supported: a key holds a number, which INCR, INCRBY and SET raise"
            )
        }
        b"CONFIG" if !args.is_empty() => {
            "ERR CONFIG has only GET: settings are flags of the server".into()
        }
        _ if KNOWN_COMMANDS.iter().any(|known| known.as_bytes() == upper) => format!(
            "ERR wrong number of arguments for '{}' command",
            name.to_lowercase()
        ),
        _ => {
            let args: String = args
                .iter()
                .take(3)
                .map(|arg| format!("'{}' ", escape_for_error(arg)))
                .collect();
            format!("ERR unknown command '{name}', with args beginning with: {args}")
        }
    }
}

/// Escapes and shortens a text of the caller for an error.
fn escape_for_error(word: &[u8]) -> String {
    word[..word.len().min(64)].escape_ascii().to_string()
}

fn parse_count(word: &[u8]) -> Result<u32, String> {
    let count = parse_integer(word)?;
    let in_range = u32::try_from(count).ok();
    let in_range = in_range.filter(|n| (1..=COUNT_MAX).contains(n));
    in_range.ok_or_else(|| {
        format!("ERR INCRBY takes 1 to {COUNT_MAX} numbers here, not {count}: numbers only rise")
    })
}

fn parse_value(word: &[u8]) -> Result<u64, String> {
    let value = parse_integer(word)?;
    let in_range = u64::try_from(value).ok().filter(|n| *n > 0);
    in_range.ok_or_else(|| format!("ERR SET takes a number from 1 to 2^63-1 here, not {value}"))
}

/// Parses an integer as Redis does: no plus sign, no leading zeros, no spaces.
fn parse_integer(word: &[u8]) -> Result<i64, String> {
    let text = str::from_utf8(word).ok();
    let value = text.and_then(|text| text.parse::<i64>().ok().filter(|n| n.to_string() == text));
    value.ok_or_else(|| "ERR value is not an integer or out of range".into())
}

fn parse_hello<'a>(args: &[&'a [u8]]) -> Result<HelloCommand<'a>, String> {
    let mut hello = HelloCommand::default();
    let Some((version, mut args)) = args.split_first() else {
        return Ok(hello);
    };
    hello.version = Some(match *version {
        b"2" => RespVersion::Resp2,
        b"3" => RespVersion::Resp3,
        _ => return Err("NOPROTO unsupported protocol version".into()),
    });
    while let Some((option, rest)) = args.split_first() {
        args = match (option.to_ascii_uppercase().as_slice(), rest) {
            (b"AUTH", [user, password, rest @ ..]) => {
                hello.auth = Some((user, password));
                rest
            }
            (b"SETNAME", [name, rest @ ..]) => {
                hello.name = Some(name);
                rest
            }
            _ => {
                return Err(format!(
                    "ERR Syntax error in HELLO option '{}'",
                    escape_for_error(option)
                ));
            }
        };
    }
    Ok(hello)
}

fn parse_client<'a>(subcommand: &[u8], args: &[&'a [u8]]) -> Result<ClientCommand<'a>, String> {
    Ok(match (subcommand.to_ascii_uppercase().as_slice(), args) {
        (b"ID", []) => ClientCommand::Id,
        (b"GETNAME", []) => ClientCommand::GetName,
        (b"SETNAME", [name]) => ClientCommand::SetName(name),
        (b"INFO", []) => ClientCommand::Info,
        (b"LIST", _) => ClientCommand::List,
        (b"SETINFO", [_, _]) | (b"NO-EVICT" | b"NO-TOUCH", [_]) => ClientCommand::NoEffect,
        (b"REPLY", [on]) if on.eq_ignore_ascii_case(b"on") => ClientCommand::NoEffect,
        _ => {
            return Err(format!(
                "ERR CLIENT has ID, GETNAME, SETNAME, SETINFO, INFO, LIST, NO-EVICT, NO-TOUCH and REPLY ON, not {}",
                escape_for_error(subcommand)
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<String, String> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        RedisCommand::parse(&words).map(|command| format!("{command:?}"))
    }

    #[test]
    fn redis_command_is_parsed_from_words() {
        let key = b"k".as_slice();
        for (words, command) in [
            (vec!["incr", "k"], RedisCommand::Take { key, count: 1 }),
            (
                vec!["INCRBY", "k", "100000"],
                RedisCommand::Take {
                    key,
                    count: 100_000,
                },
            ),
            (vec!["Get", "k"], RedisCommand::Get { key }),
            (
                vec!["mget", "k", "k"],
                RedisCommand::GetMany {
                    keys: vec![key, key],
                },
            ),
            (
                vec!["set", "k", "9223372036854775807"],
                RedisCommand::Set {
                    key,
                    value: i64::MAX as u64,
                },
            ),
            (vec!["select", "0"], RedisCommand::Select),
            (vec!["command", "docs"], RedisCommand::DescribeCommands),
            (vec!["command"], RedisCommand::ListCommands),
            (
                vec!["client", "setinfo", "lib-name", "x"],
                RedisCommand::Client(ClientCommand::NoEffect),
            ),
        ] {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(RedisCommand::parse(&words), Ok(command));
        }
        let hello = parse_line("hello 3 auth default secret setname me").unwrap();
        assert!(hello.contains("version: Some(Resp3)"), "{hello}");
    }

    #[test]
    fn redis_command_rejection_states_its_reason() {
        for (line, expected) in [
            ("incrby k 0", "not 0: numbers only rise"),
            ("incrby k -5", "not -5"),
            ("incrby k 100001", "1 to 100000"),
            ("incrby k 01", "not an integer"),
            ("incrby k 99999999999999999999", "out of range"),
            ("set k 0", "from 1 to 2^63-1"),
            ("set k x", "not an integer"),
            ("set k 5 nx", "NX is not supported"),
            ("incr", "wrong number of arguments for 'incr' command"),
            ("decr k", "numbers only rise"),
            ("DEL k", "would lower or delete"),
            ("multi", "INCRBY takes a range"),
            ("select 1", "the only index is 0"),
            ("hello 4", "NOPROTO"),
            ("config set save x", "flags of the server"),
            (
                "lpush a b c d",
                "unknown command 'lpush', with args beginning with: 'a' 'b' 'c' ",
            ),
            (
                "averyveryverylongname\n x",
                "unknown command 'averyveryverylongname\\n'",
            ),
        ] {
            let error = parse_line(line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
