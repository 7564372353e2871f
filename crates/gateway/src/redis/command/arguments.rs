//! Numbers and options among the words of a command.

use seqsvr_core::geometry::COUNT_MAX;

use super::rejection::{RejectedCommand, escape_for_error};
use super::{HelloCommand, IfNoneAnswer, ReadAnswer, RedisCommand};
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

/// Parses SET with its options, of which the server has NX.
///
/// # Errors
/// The value is no number that a key may have, or there is another option.
pub(super) fn parse_set<'a>(
    key: &'a [u8],
    value: &[u8],
    options: &[&[u8]],
) -> Result<RedisCommand<'a>, RejectedCommand> {
    if options.is_empty() {
        return Ok(match parse_value(value)? {
            0 => RedisCommand::Read {
                key,
                answer: ReadAnswer::SetZero,
            },
            value => RedisCommand::Set { key, value },
        });
    }
    let upper: Vec<Vec<u8>> = options
        .iter()
        .map(|option| option.to_ascii_uppercase())
        .collect();
    if upper.iter().all(|option| option == b"NX") {
        return parse_set_if_none(key, value, IfNoneAnswer::Status);
    }
    let of_redis: [&[u8]; 9] = [
        b"NX", b"XX", b"GET", b"EX", b"PX", b"EXAT", b"PXAT", b"KEEPTTL", b"IFEQ",
    ];
    match upper.iter().find(|option| *option != b"NX") {
        Some(other) if of_redis.contains(&other.as_slice()) => Err(format!(
            "ERR SET takes a key, a number and NX here: {} is not supported, because a key here holds a number, which only rises and never expires; use another server for locks and caches",
            escape_for_error(other)
        )
        .into()),
        _ => Err(RejectedCommand::of_argument("ERR syntax error")),
    }
}

/// Parses a SET that takes effect if the key has no number.
///
/// # Errors
/// The value is no number that a key may have.
pub(super) fn parse_set_if_none<'a>(
    key: &'a [u8],
    value: &[u8],
    answer: IfNoneAnswer,
) -> Result<RedisCommand<'a>, RejectedCommand> {
    Ok(match parse_value(value)? {
        0 => RedisCommand::Read {
            key,
            answer: ReadAnswer::ZeroIfNone(answer),
        },
        value => RedisCommand::SetIfNone { key, value, answer },
    })
}

fn parse_value(word: &[u8]) -> Result<u64, RejectedCommand> {
    let value = parse_integer(word).map_err(|_| {
        RejectedCommand::of_argument(
            "ERR value is not an integer or out of range: a key here holds a number, and SET takes one from 0 to 2^63-1",
        )
    })?;
    u64::try_from(value)
        .map_err(|_| format!("ERR SET takes a number from 0 to 2^63-1 here, not {value}").into())
}

/// Parses the arguments of WAIT.
///
/// # Errors
/// One of them is no number, or the time is negative.
pub(super) fn parse_wait<'a>(
    replicas: &[u8],
    timeout: &[u8],
) -> Result<RedisCommand<'a>, RejectedCommand> {
    parse_integer(replicas)?;
    match parse_integer(timeout) {
        Ok(0..) => Ok(RedisCommand::Wait),
        Ok(_) => Err(RejectedCommand::of_argument("ERR timeout is negative")),
        Err(_) => Err(RejectedCommand::of_argument(
            "ERR timeout is not an integer or out of range",
        )),
    }
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
