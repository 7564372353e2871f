//! What COMMAND says of the commands that the server has.

/// A command as COMMAND INFO describes it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::redis) struct CommandSummary {
    /// In lower case.
    pub(in crate::redis) name: &'static str,
    /// Number of words with the name; negative: at least so many.
    pub(in crate::redis) arity: i8,
    pub(in crate::redis) flags: &'static [&'static str],
    /// Places of the first and the last key, and their distance; 0: no key, and -1: the last word.
    pub(in crate::redis) keys: [i8; 3],
}

const NO_KEY: [i8; 3] = [0, 0, 0];
const ONE_KEY: [i8; 3] = [1, 1, 1];
const ALL_KEYS: [i8; 3] = [1, -1, 1];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
const READ: &[&str] = &["readonly", "fast"];
const SESSION: &[&str] = &["noscript", "loading", "stale", "fast"];

const fn summary(
    name: &'static str,
    arity: i8,
    flags: &'static [&'static str],
    keys: [i8; 3],
) -> CommandSummary {
    CommandSummary {
        name,
        arity,
        flags,
        keys,
    }
}

/// The commands that the server has.
pub(in crate::redis) const COMMAND_SUMMARIES: [CommandSummary; 34] = [
    summary("auth", -2, SESSION, NO_KEY),
    summary("client", -2, SESSION, NO_KEY),
    summary("command", -1, SESSION, NO_KEY),
    summary("config", -2, SESSION, NO_KEY),
    summary("discard", 1, SESSION, NO_KEY),
    summary("echo", 2, SESSION, NO_KEY),
    summary("exec", 1, SESSION, NO_KEY),
    summary("exists", -2, READ, ALL_KEYS),
    summary("expiretime", 2, READ, ONE_KEY),
    summary("get", 2, READ, ONE_KEY),
    summary("hello", -1, SESSION, NO_KEY),
    summary("incr", 2, WRITE, ONE_KEY),
    summary("incrby", 3, WRITE, ONE_KEY),
    summary("info", -1, SESSION, NO_KEY),
    summary("mget", -2, READ, ALL_KEYS),
    summary("multi", 1, SESSION, NO_KEY),
    summary("object", -2, READ, [2, 2, 1]),
    summary("persist", 2, WRITE, ONE_KEY),
    summary("pexpiretime", 2, READ, ONE_KEY),
    summary("ping", -1, SESSION, NO_KEY),
    summary("pttl", 2, READ, ONE_KEY),
    summary("quit", -1, SESSION, NO_KEY),
    summary("reset", 1, SESSION, NO_KEY),
    summary("role", 1, SESSION, NO_KEY),
    summary("select", 2, SESSION, NO_KEY),
    summary("set", -3, WRITE, ONE_KEY),
    summary("setnx", 3, WRITE, ONE_KEY),
    summary("strlen", 2, READ, ONE_KEY),
    summary("time", 1, SESSION, NO_KEY),
    summary("touch", -2, READ, ALL_KEYS),
    summary("ttl", 2, READ, ONE_KEY),
    summary("type", 2, READ, ONE_KEY),
    summary("unwatch", 1, SESSION, NO_KEY),
    summary("wait", 3, SESSION, NO_KEY),
];

/// Returns the summary of a command; None: the server does not have it.
pub(in crate::redis) fn find_summary(name: &[u8]) -> Option<&'static CommandSummary> {
    COMMAND_SUMMARIES
        .iter()
        .find(|summary| name.eq_ignore_ascii_case(summary.name.as_bytes()))
}
