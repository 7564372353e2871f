//! The replies to commands that are unknown, unsupported, or have the wrong arguments.

/// Known commands: they get the error of a wrong number of arguments.
const KNOWN_COMMANDS: [&str; 18] = [
    "INCR", "INCRBY", "GET", "MGET", "SET", "EXISTS", "TYPE", "PING", "ECHO", "HELLO", "AUTH",
    "SELECT", "CLIENT", "COMMAND", "CONFIG", "INFO", "QUIT", "RESET",
];

/// Returns the reply to a command that is unknown, unsupported or has the wrong arguments.
pub(super) fn rejection_text(name: &[u8], upper: &[u8], args: &[&[u8]]) -> String {
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
pub(super) fn escape_for_error(word: &[u8]) -> String {
    word[..word.len().min(64)].escape_ascii().to_string()
}
