//! Numbers and options among the words of a command.

use seqsvr_core::geometry::COUNT_MAX;

use super::HelloCommand;
use super::rejection::{RejectedCommand, escape_for_error};
use crate::redis::reply::RespVersion;

pub(super) fn parse_count(word: &[u8]) -> Result<u32, RejectedCommand> {
    let count = parse_integer(word)?;
    let in_range = u32::try_from(count).ok();
    let in_range = in_range.filter(|n| (1..=COUNT_MAX).contains(n));
    in_range.ok_or_else(|| {
        format!("ERR INCRBY takes 1 to {COUNT_MAX} numbers here, not {count}: numbers only rise")
            .into()
    })
}

pub(super) fn parse_value(word: &[u8]) -> Result<u64, RejectedCommand> {
    let value = parse_integer(word)?;
    let in_range = u64::try_from(value).ok().filter(|n| *n > 0);
    in_range
        .ok_or_else(|| format!("ERR SET takes a number from 1 to 2^63-1 here, not {value}").into())
}

/// Parses an integer as Redis does: no plus sign, no leading zeros, no spaces.
pub(super) fn parse_integer(word: &[u8]) -> Result<i64, RejectedCommand> {
    let text = str::from_utf8(word).ok();
    let value = text.and_then(|text| text.parse::<i64>().ok().filter(|n| n.to_string() == text));
    value.ok_or_else(|| RejectedCommand::of_argument("ERR value is not an integer or out of range"))
}

pub(super) fn parse_hello<'a>(args: &[&'a [u8]]) -> Result<HelloCommand<'a>, RejectedCommand> {
    let mut hello = HelloCommand::default();
    let Some((version, mut args)) = args.split_first() else {
        return Ok(hello);
    };
    hello.version = Some(match parse_integer(version) {
        Ok(2) => RespVersion::Resp2,
        Ok(3) => RespVersion::Resp3,
        Ok(_) => return Err("NOPROTO unsupported protocol version".into()),
        Err(_) => return Err("ERR Protocol version is not an integer or out of range".into()),
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
                )
                .into());
            }
        };
    }
    Ok(hello)
}
