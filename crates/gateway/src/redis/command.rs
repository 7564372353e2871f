//! The command that a request names, read from its words.

use seqsvr_core::geometry::COUNT_MAX;

/// A request, with words of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    /// INCR and INCRBY: that many numbers; the answer is the last.
    Take {
        key: &'a [u8],
        count: u32,
    },
    /// GET.
    Get {
        key: &'a [u8],
    },
    /// MGET.
    GetAll {
        keys: Vec<&'a [u8]>,
    },
    /// SET key n: RaiseTo.
    Set {
        key: &'a [u8],
        value: u64,
    },
    /// EXISTS: how many of these have a number.
    Exists {
        keys: Vec<&'a [u8]>,
    },
    /// TYPE.
    Type {
        key: &'a [u8],
    },
    Ping(Option<&'a [u8]>),
    Echo(&'a [u8]),
    Hello(Hello<'a>),
    Auth {
        user: Option<&'a [u8]>,
        password: &'a [u8],
    },
    Select,
    Client(Client<'a>),
    /// COMMAND COUNT; everything else of COMMAND is answered by an empty list or map.
    CountCommands,
    DescribeCommands,
    ListCommands,
    ConfigGet(Vec<&'a [u8]>),
    Info,
    Quit,
    Reset,
    /// HTTP: some page has made a browser send a request here.
    Http,
}

/// HELLO.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hello<'a> {
    pub(super) version: Option<u8>,
    pub(super) auth: Option<(&'a [u8], &'a [u8])>,
    pub(super) name: Option<&'a [u8]>,
}

/// CLIENT.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Client<'a> {
    Id,
    GetName,
    SetName(&'a [u8]),
    /// SETINFO, NO-EVICT, NO-TOUCH and REPLY ON: nothing that changes an answer.
    Noted,
    Info,
    List,
}

impl<'a> Command<'a> {
    /// Reads the words of a request, of which there is at least one.
    ///
    /// # Errors
    /// What to answer, with its code.
    pub(super) fn parse(words: &[&'a [u8]]) -> Result<Command<'a>, String> {
        let (name, args) = words.split_first().ok_or("ERR an empty request")?;
        let mut upper = [0; NAME_MAX];
        let upper = match upper.get_mut(..name.len()) {
            Some(upper) => {
                upper.copy_from_slice(name);
                upper.make_ascii_uppercase();
                &*upper
            }
            None => &[],
        };
        Ok(match (upper, args) {
            (b"INCR", [key]) => Command::Take { key, count: 1 },
            (b"INCRBY", [key, count]) => Command::Take {
                key,
                count: self::count(count)?,
            },
            (b"GET", [key]) => Command::Get { key },
            (b"MGET", keys @ [_, ..]) => Command::GetAll {
                keys: keys.to_vec(),
            },
            (b"SET", [key, value]) => Command::Set {
                key,
                value: self::value(value)?,
            },
            (b"SET", [_, _, option, ..]) => {
                return Err(format!(
                    "ERR SET takes a key and a number here: {} is not there, because a number only rises and never ends",
                    shown(option).to_uppercase()
                ));
            }
            (b"EXISTS", keys @ [_, ..]) => Command::Exists {
                keys: keys.to_vec(),
            },
            (b"TYPE", [key]) => Command::Type { key },
            (b"PING", []) => Command::Ping(None),
            (b"PING", [text]) => Command::Ping(Some(text)),
            (b"ECHO", [text]) => Command::Echo(text),
            (b"HELLO", args) => Command::Hello(hello(args)?),
            (b"AUTH", [password]) => Command::Auth {
                user: None,
                password,
            },
            (b"AUTH", [user, password]) => Command::Auth {
                user: Some(user),
                password,
            },
            (b"SELECT", [index]) => match *index {
                b"0" => Command::Select,
                _ => {
                    return Err(
                        "ERR DB index is out of range: there is only 0; a key @namespace/key is one of another namespace"
                            .into(),
                    );
                }
            },
            (b"CLIENT", [what, args @ ..]) => Command::Client(client(what, args)?),
            (b"COMMAND", [what]) if what.eq_ignore_ascii_case(b"count") => Command::CountCommands,
            (b"COMMAND", [what, ..]) if what.eq_ignore_ascii_case(b"docs") => {
                Command::DescribeCommands
            }
            (b"COMMAND", _) => Command::ListCommands,
            (b"CONFIG", [what, names @ ..]) if what.eq_ignore_ascii_case(b"get") => {
                Command::ConfigGet(names.to_vec())
            }
            (b"INFO", _) => Command::Info,
            (b"QUIT", _) => Command::Quit,
            (b"RESET", []) => Command::Reset,
            (b"POST" | b"HOST:", _) => Command::Http,
            _ => return Err(refusal(name, upper, args)),
        })
    }
}

/// Longest name of a command that is looked at.
const NAME_MAX: usize = 16;

/// Known commands, for the number of arguments.
const KNOWN: [&str; 18] = [
    "INCR", "INCRBY", "GET", "MGET", "SET", "EXISTS", "TYPE", "PING", "ECHO", "HELLO", "AUTH",
    "SELECT", "CLIENT", "COMMAND", "CONFIG", "INFO", "QUIT", "RESET",
];

fn refusal(name: &[u8], upper: &[u8], args: &[&[u8]]) -> String {
    let name = shown(name);
    match upper {
        b"DECR" | b"DECRBY" | b"DEL" | b"UNLINK" | b"GETDEL" | b"FLUSHDB" | b"FLUSHALL"
        | b"EXPIRE" | b"PEXPIRE" | b"EXPIREAT" | b"PEXPIREAT" | b"SETEX" | b"PSETEX" | b"GETEX"
        | b"RENAME" | b"RENAMENX" | b"MOVE" | b"SWAPDB" | b"RESTORE" => format!(
            "ERR {name} would lower or delete a number, which is never done here: numbers only rise"
        ),
        b"MULTI" | b"EXEC" | b"DISCARD" | b"WATCH" | b"UNWATCH" => format!(
            "ERR {name}: a transaction is not there, each command is done by itself; a pipeline without one is as quick (redis-py: transaction=False), and INCRBY takes a range"
        ),
        b"SETNX" | b"GETSET" | b"MSET" | b"MSETNX" | b"APPEND" | b"SETRANGE" | b"INCRBYFLOAT" => {
            format!(
                "ERR {name} is not there: a key holds a number that rises, by INCR, INCRBY or SET"
            )
        }
        b"CONFIG" if !args.is_empty() => {
            "ERR of CONFIG there is GET only: settings are flags of the server".into()
        }
        _ if KNOWN.iter().any(|known| known.as_bytes() == upper) => format!(
            "ERR wrong number of arguments for '{}' command",
            name.to_lowercase()
        ),
        _ => {
            let args: String = args
                .iter()
                .take(3)
                .map(|arg| format!("'{}' ", shown(arg)))
                .collect();
            format!("ERR unknown command '{name}', with args beginning with: {args}")
        }
    }
}

/// Returns a part of the caller's text, so that it may be in an error.
fn shown(word: &[u8]) -> String {
    word[..word.len().min(64)].escape_ascii().to_string()
}

fn count(word: &[u8]) -> Result<u32, String> {
    let count = integer(word)?;
    let fits = u32::try_from(count).ok();
    let fits = fits.filter(|n| (1..=COUNT_MAX).contains(n));
    fits.ok_or_else(|| {
        format!("ERR INCRBY takes 1 to {COUNT_MAX} numbers here, not {count}: numbers only rise")
    })
}

fn value(word: &[u8]) -> Result<u64, String> {
    let value = integer(word)?;
    let fits = u64::try_from(value).ok().filter(|n| *n > 0);
    fits.ok_or_else(|| format!("ERR SET takes a number from 1 to 2^63-1 here, not {value}"))
}

/// Reads an integer as Redis does: no sign but a minus, no zeros in front, nothing else.
fn integer(word: &[u8]) -> Result<i64, String> {
    let text = str::from_utf8(word).ok();
    let value = text.and_then(|text| text.parse::<i64>().ok().filter(|n| n.to_string() == text));
    value.ok_or_else(|| "ERR value is not an integer or out of range".into())
}

fn hello<'a>(args: &[&'a [u8]]) -> Result<Hello<'a>, String> {
    let mut hello = Hello::default();
    let Some((version, mut args)) = args.split_first() else {
        return Ok(hello);
    };
    hello.version = Some(match *version {
        b"2" => 2,
        b"3" => 3,
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
                    shown(option)
                ));
            }
        };
    }
    Ok(hello)
}

fn client<'a>(what: &[u8], args: &[&'a [u8]]) -> Result<Client<'a>, String> {
    Ok(match (what.to_ascii_uppercase().as_slice(), args) {
        (b"ID", []) => Client::Id,
        (b"GETNAME", []) => Client::GetName,
        (b"SETNAME", [name]) => Client::SetName(name),
        (b"INFO", []) => Client::Info,
        (b"LIST", _) => Client::List,
        (b"SETINFO", [_, _]) | (b"NO-EVICT" | b"NO-TOUCH", [_]) => Client::Noted,
        (b"REPLY", [on]) if on.eq_ignore_ascii_case(b"on") => Client::Noted,
        _ => {
            return Err(format!(
                "ERR of CLIENT there are ID, GETNAME, SETNAME, SETINFO, INFO, LIST, NO-EVICT, NO-TOUCH and REPLY ON, not {}",
                shown(what)
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<String, String> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        Command::parse(&words).map(|command| format!("{command:?}"))
    }

    #[test]
    fn commands_are_told_from_their_words() {
        let key = b"k".as_slice();
        for (words, command) in [
            (vec!["incr", "k"], Command::Take { key, count: 1 }),
            (
                vec!["INCRBY", "k", "100000"],
                Command::Take {
                    key,
                    count: 100_000,
                },
            ),
            (vec!["Get", "k"], Command::Get { key }),
            (
                vec!["mget", "k", "k"],
                Command::GetAll {
                    keys: vec![key, key],
                },
            ),
            (
                vec!["set", "k", "9223372036854775807"],
                Command::Set {
                    key,
                    value: i64::MAX as u64,
                },
            ),
            (vec!["select", "0"], Command::Select),
            (vec!["command", "docs"], Command::DescribeCommands),
            (vec!["command"], Command::ListCommands),
            (
                vec!["client", "setinfo", "lib-name", "x"],
                Command::Client(Client::Noted),
            ),
        ] {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(Command::parse(&words), Ok(command));
        }
        let hello = parse("hello 3 auth default secret setname me").unwrap();
        assert!(hello.contains("version: Some(3)"), "{hello}");
    }

    #[test]
    fn what_is_refused_says_why() {
        for (line, told) in [
            ("incrby k 0", "not 0: numbers only rise"),
            ("incrby k -5", "not -5"),
            ("incrby k 100001", "1 to 100000"),
            ("incrby k 01", "not an integer"),
            ("incrby k 99999999999999999999", "out of range"),
            ("set k 0", "from 1 to 2^63-1"),
            ("set k x", "not an integer"),
            ("set k 5 nx", "NX is not there"),
            ("incr", "wrong number of arguments for 'incr' command"),
            ("decr k", "numbers only rise"),
            ("DEL k", "would lower or delete"),
            ("multi", "INCRBY takes a range"),
            ("select 1", "there is only 0"),
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
            let error = parse(line).expect_err(line);
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}
