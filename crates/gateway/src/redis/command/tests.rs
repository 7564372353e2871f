//! Words and the command or the rejection that they become.

use super::*;

fn parse_line(line: &str) -> Result<String, String> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let parsed = RedisCommand::parse(&words).map(|command| format!("{command:?}"));
    parsed.map_err(|rejected| rejected.text)
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
        (
            vec!["Get", "k"],
            RedisCommand::Read {
                key,
                answer: ReadAnswer::Number,
            },
        ),
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
        (vec!["command"], RedisCommand::CommandInfo(None)),
        (
            vec!["client", "setinfo", "lib-name", "x"],
            RedisCommand::Client(ClientCommand::SetInfo(LibraryField::Name, b"x")),
        ),
    ] {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(RedisCommand::parse(&words), Ok(command));
    }
    for (line, text) in [
        ("hello 4", "NOPROTO"),
        ("auth", "ERR wrong number of arguments for 'auth' command"),
        (
            "auth a b c",
            "ERR wrong number of arguments for 'auth' command",
        ),
    ] {
        let parsed = parse_line(line).unwrap();
        assert!(
            parsed.starts_with(&format!("RejectedAuth(\"{text}")),
            "{parsed}"
        );
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
        ("set k -1", "from 0 to 2^63-1"),
        (
            "set k x",
            "a key here holds a number, and SET takes one from 0",
        ),
        ("setnx k x", "a key here holds a number"),
        ("set k 5 nx ex 5", "EX is not supported"),
        // A lock of redis-py.
        (
            "set lock 0d6e nx px 9000",
            "PX is not supported, because a key here holds a number",
        ),
        ("set k 5 nx nosuch", "ERR syntax error"),
        ("setnx k", "wrong number of arguments for 'setnx' command"),
        ("getset k 5", "SET with NX starts it"),
        ("incr", "wrong number of arguments for 'incr' command"),
        ("decr k", "numbers only rise"),
        ("expire k 5", "a number never expires"),
        ("msetex 1 k 5", "a number never expires"),
        ("increx k", "use INCR with a key for each period"),
        ("delifeq k 5", "would lower or delete"),
        ("eval x 0", "the server runs no scripts"),
        ("evalsha x 0", "MULTI sends several commands together"),
        ("script load x", "the server runs no scripts"),
        ("keys *", "no server has a list of them"),
        ("scan 0", "no server has a list of them"),
        ("dbsize", "read keys by their names with MGET"),
        (
            "object freq k",
            "OBJECT has only ENCODING and REFCOUNT here",
        ),
        ("ttl", "wrong number of arguments for 'ttl' command"),
        ("wait 0", "wrong number of arguments for 'wait' command"),
        ("DEL k", "would lower or delete"),
        (
            "watch k",
            "INCR or INCRBY gives each caller numbers of its own",
        ),
        ("multi k", "wrong number of arguments for 'multi' command"),
        (
            "exec k",
            "EXECABORT Transaction discarded because of: wrong number",
        ),
        ("select 1", "the only index is 0"),
        ("config set save x", "flags of the server"),
        (
            "lpush a b c d",
            "unknown command 'lpush', with args beginning with: 'a' 'b' 'c' 'd' ",
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

/// Schedule: a token stands at a wrong place of a command, and the library of the client logs the
/// error.
#[test]
fn redis_command_rejection_shows_no_token() {
    let token = format!("sq_{}", "0123456789abcdef".repeat(4));
    for line in [
        "TOKEN",
        "TOKEN a",
        "nosuch a TOKEN",
        "hello 3 TOKEN",
        "hello TOKEN",
        "client TOKEN",
        "client setinfo TOKEN x",
        "client list type TOKEN",
        "client list TOKEN",
        "config TOKEN",
        "command TOKEN",
        "object TOKEN k",
        "auth a TOKEN b",
        "set k TOKEN",
        "set k 5 TOKEN",
        "incrby k TOKEN",
        "select TOKEN",
    ] {
        let text = match parse_line(&line.replace("TOKEN", &token)) {
            Ok(text) | Err(text) => text,
        };
        assert!(!text.contains("0123"), "{line}: {text}");
    }
    let error = parse_line(&format!("lpush a {token}")).unwrap_err();
    assert!(error.ends_with("with: 'a' 'sq_...' "), "{error}");
}
