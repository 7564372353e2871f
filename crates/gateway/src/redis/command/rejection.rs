//! The replies to commands that are unknown, unsupported, or have the wrong arguments.

use super::summary::find_summary;

/// The reason why the words of a request are no command that is executed.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::redis) struct RejectedCommand {
    /// The text of the reply, with its code.
    pub(in crate::redis) text: String,
    /// The server has the command, but an argument has no valid form: a transaction is executed
    /// with it, as in Redis, and the text is one of its answers. False: a transaction with it is
    /// discarded.
    pub(in crate::redis) may_be_queued: bool,
}

impl RejectedCommand {
    /// Makes a rejection that is one of the answers of a transaction.
    pub(super) fn of_argument(text: &str) -> RejectedCommand {
        RejectedCommand {
            text: text.to_owned(),
            may_be_queued: true,
        }
    }
}

impl From<String> for RejectedCommand {
    fn from(text: String) -> RejectedCommand {
        RejectedCommand {
            text,
            may_be_queued: false,
        }
    }
}

impl From<&str> for RejectedCommand {
    fn from(text: &str) -> RejectedCommand {
        text.to_owned().into()
    }
}

/// Bytes of arguments after which the error of an unknown command shows no further one, as in
/// Redis.
const SHOWN_ARGS_BYTES: usize = 128;

/// The begin of every token.
const TOKEN_PREFIX: &[u8] = b"sq_";

/// Returns the reply to a command that is unknown, unsupported or has the wrong arguments.
pub(super) fn rejection_text(name: &[u8], upper: &[u8], args: &[&[u8]]) -> String {
    let name = escape_for_error(name);
    match upper {
        b"DECR" | b"DECRBY" | b"DEL" | b"UNLINK" | b"GETDEL" | b"DELIFEQ" | b"DELEX"
        | b"FLUSHDB" | b"FLUSHALL" | b"RENAME" | b"RENAMENX" | b"MOVE" | b"SWAPDB"
        | b"RESTORE" => {
            format!("ERR {name} would lower or delete a number: numbers only rise")
        }
        b"EXPIRE" | b"PEXPIRE" | b"EXPIREAT" | b"PEXPIREAT" | b"SETEX" | b"PSETEX" | b"GETEX"
        | b"MSETEX" | b"INCREX" => format!(
            "ERR {name} is not supported: a number never expires, so that none is handed out twice; use INCR with a key for each period, for example hits:2030-01-31"
        ),
        b"EVAL" | b"EVAL_RO" | b"EVALSHA" | b"EVALSHA_RO" | b"SCRIPT" | b"FCALL" | b"FCALL_RO"
        | b"FUNCTION" => format!(
            "ERR {name} is not supported: the server runs no scripts; INCR, INCRBY and SET with NX are one step each, and MULTI sends several commands together"
        ),
        b"KEYS" | b"SCAN" | b"DBSIZE" | b"RANDOMKEY" => format!(
            "ERR {name} is not supported: the keys are spread over all servers, and no server has a list of them; read keys by their names with MGET"
        ),
        b"WATCH" if !args.is_empty() => format!(
            "ERR {name} is not supported: SET to the present number changes nothing and is OK, so two clients that watch and set a number would both own it; INCR or INCRBY gives each caller numbers of its own"
        ),
        b"EXEC" => {
            "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"
                .into()
        }
        b"GETSET" => format!(
            "ERR {name} is not supported: it would lower a number, or give two callers the same one; GET reads it, and SET with NX starts it"
        ),
        b"MSET" | b"MSETNX" | b"APPEND" | b"SETRANGE" | b"INCRBYFLOAT" => {
            format!(
                "ERR {name} is not supported: a key holds a number, which INCR, INCRBY and SET raise"
            )
        }
        _ if upper == b"WATCH" || find_summary(upper).is_some() => format!(
            "ERR wrong number of arguments for '{}' command",
            name.to_lowercase()
        ),
        _ => {
            let mut begin = String::new();
            for arg in args {
                if begin.len() >= SHOWN_ARGS_BYTES {
                    break;
                }
                begin += &format!("'{}' ", escape_for_error(arg));
            }
            format!("ERR unknown command '{name}', with args beginning with: {begin}")
        }
    }
}

/// Escapes and shortens a text of the caller for an error. Of what begins as a token does, it shows
/// no more: client libraries log errors.
pub(super) fn escape_for_error(word: &[u8]) -> String {
    let begin = word.get(..TOKEN_PREFIX.len());
    if begin.is_some_and(|begin| begin.eq_ignore_ascii_case(TOKEN_PREFIX)) {
        return "sq_...".to_owned();
    }
    word[..word.len().min(64)].escape_ascii().to_string()
}
