//! Subcommands of CLIENT, COMMAND, CONFIG and OBJECT.

use super::arguments::parse_integer;
use super::rejection::{RejectedCommand, escape_for_error};
use super::{ClientCommand, ClientFilter, LibraryField, ReadAnswer, RedisCommand};

/// Subcommands of CLIENT that need certain arguments.
const CLIENT_SUBCOMMANDS: [&str; 9] = [
    "id", "getname", "setname", "setinfo", "info", "list", "no-evict", "no-touch", "reply",
];
/// Subcommands of CLIENT in Redis that the server does not have, with the reason.
const ABSENT_CLIENT_SUBCOMMANDS: [(&str, &str); 9] = [
    (
        "tracking",
        "the server does not tell when a number changes; read it with GET",
    ),
    ("trackinginfo", "there is no CLIENT TRACKING here"),
    ("caching", "there is no CLIENT TRACKING here"),
    ("getredir", "there is no CLIENT TRACKING here"),
    (
        "kill",
        "a connection ends by its own client, or after --redis-idle-timeout",
    ),
    ("pause", "no command of a client stops the others"),
    ("unpause", "no command of a client stops the others"),
    ("unblock", "no command blocks"),
    ("help", "the documentation has the list of commands"),
];

/// Parses the arguments of CLIENT.
///
/// # Errors
/// The server does not have the subcommand, or not with these arguments.
pub(super) fn parse_client<'a>(
    subcommand: &[u8],
    args: &[&'a [u8]],
) -> Result<ClientCommand<'a>, RejectedCommand> {
    let lower = subcommand.to_ascii_lowercase();
    Ok(match (lower.as_slice(), args) {
        (b"id", []) => ClientCommand::Id,
        (b"getname", []) => ClientCommand::GetName,
        (b"setname", [name]) => ClientCommand::SetName(name),
        (b"info", []) => ClientCommand::Info,
        (b"list", args) => ClientCommand::List(parse_filter(args)?),
        (b"setinfo", [field, value]) => ClientCommand::SetInfo(parse_library_field(field)?, value),
        (b"no-evict" | b"no-touch", [switch]) => match switch.to_ascii_lowercase().as_slice() {
            b"on" | b"off" => ClientCommand::NoEffect,
            _ => return Err(RejectedCommand::of_argument("ERR syntax error")),
        },
        (b"reply", [mode]) => match mode.to_ascii_lowercase().as_slice() {
            b"on" => ClientCommand::NoEffect,
            b"off" | b"skip" => {
                return Err(
                    "ERR CLIENT REPLY OFF and SKIP are not supported: without its answer no client owns the number that a command takes; read the answers"
                        .into(),
                );
            }
            _ => return Err(RejectedCommand::of_argument("ERR syntax error")),
        },
        _ => return Err(reject_client(subcommand)),
    })
}

/// Returns the rejection of a subcommand of CLIENT.
fn reject_client(name: &[u8]) -> RejectedCommand {
    let is_name = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    if let Some((known, reason)) = ABSENT_CLIENT_SUBCOMMANDS
        .iter()
        .find(|(known, _)| is_name(known))
    {
        let known = known.to_uppercase();
        return format!("ERR CLIENT {known} is not supported: {reason}").into();
    }
    match CLIENT_SUBCOMMANDS.iter().any(|known| is_name(known)) {
        true => wrong_arguments("client", name),
        false => unknown_subcommand("CLIENT", name),
    }
}

fn parse_library_field(field: &[u8]) -> Result<LibraryField, RejectedCommand> {
    match field.to_ascii_lowercase().as_slice() {
        b"lib-name" => Ok(LibraryField::Name),
        b"lib-ver" => Ok(LibraryField::Version),
        _ => Err(RejectedCommand::of_argument(&format!(
            "ERR Unrecognized option '{}'",
            escape_for_error(field)
        ))),
    }
}

fn parse_filter(args: &[&[u8]]) -> Result<ClientFilter, RejectedCommand> {
    let lower = args.first().map(|option| option.to_ascii_lowercase());
    match (lower.as_deref(), args) {
        (None, _) => Ok(ClientFilter::All),
        (Some(b"type"), [_, kind]) => match kind.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(ClientFilter::All),
            b"master" | b"primary" | b"replica" | b"slave" | b"pubsub" => Ok(ClientFilter::Nothing),
            _ => Err(RejectedCommand::of_argument(&format!(
                "ERR Unknown client type '{}'",
                escape_for_error(kind)
            ))),
        },
        (Some(b"id"), [_, ids @ ..]) if !ids.is_empty() => {
            let parse_id = |id: &&[u8]| {
                let id = parse_integer(id).ok().and_then(|id| u64::try_from(id).ok());
                id.ok_or_else(|| RejectedCommand::of_argument("ERR Invalid client ID"))
            };
            let ids: Result<Vec<u64>, _> = ids.iter().map(parse_id).collect();
            Ok(ClientFilter::Ids(ids?))
        }
        _ => Err(RejectedCommand::of_argument("ERR syntax error")),
    }
}

/// Parses the arguments of COMMAND.
///
/// # Errors
/// The server does not have the subcommand, or not with these arguments.
pub(super) fn parse_command<'a>(args: &[&'a [u8]]) -> Result<RedisCommand<'a>, RejectedCommand> {
    let Some((subcommand, args)) = args.split_first() else {
        return Ok(RedisCommand::CommandInfo(None));
    };
    let lower = subcommand.to_ascii_lowercase();
    Ok(match (lower.as_slice(), args) {
        (b"count", []) => RedisCommand::CountCommands,
        (b"docs", _) => RedisCommand::DescribeCommands,
        (b"list", []) => RedisCommand::ListCommands,
        (b"info", []) => RedisCommand::CommandInfo(None),
        (b"info", names) => RedisCommand::CommandInfo(Some(names.to_vec())),
        (b"count", _) => return Err(wrong_arguments("command", &lower)),
        (b"list" | b"getkeys" | b"getkeysandflags" | b"help", _) => {
            return Err("ERR COMMAND has COUNT, DOCS, INFO and LIST without a filter".into());
        }
        _ => return Err(unknown_subcommand("COMMAND", subcommand)),
    })
}

/// Parses the arguments of CONFIG.
///
/// # Errors
/// The server does not have the subcommand, or not with these arguments.
pub(super) fn parse_config<'a>(
    subcommand: &[u8],
    args: &[&'a [u8]],
) -> Result<RedisCommand<'a>, RejectedCommand> {
    let lower = subcommand.to_ascii_lowercase();
    match (lower.as_slice(), args) {
        (b"get", []) => Err(wrong_arguments("config", &lower)),
        (b"get", patterns) => Ok(RedisCommand::ConfigGet(patterns.to_vec())),
        (b"set" | b"resetstat" | b"rewrite" | b"help", _) => {
            Err("ERR CONFIG has only GET: settings are flags of the server".into())
        }
        _ => Err(unknown_subcommand("CONFIG", subcommand)),
    }
}

/// Parses the arguments of OBJECT.
///
/// # Errors
/// The server does not have the subcommand, or not with these arguments.
pub(super) fn parse_object<'a>(
    subcommand: &[u8],
    args: &[&'a [u8]],
) -> Result<RedisCommand<'a>, RejectedCommand> {
    let lower = subcommand.to_ascii_lowercase();
    match (lower.as_slice(), args) {
        (b"encoding", [key]) => Ok(RedisCommand::Read {
            key,
            answer: ReadAnswer::Encoding,
        }),
        (b"refcount", [key]) => Ok(RedisCommand::Read {
            key,
            answer: ReadAnswer::ReferenceCount,
        }),
        (b"encoding" | b"refcount", _) => Err(wrong_arguments("object", &lower)),
        (b"freq" | b"idletime" | b"help", _) => Err(
            "ERR OBJECT has only ENCODING and REFCOUNT here: the server does not count the uses of a key".into(),
        ),
        _ => Err(unknown_subcommand("OBJECT", subcommand)),
    }
}

/// Returns the rejection of a subcommand with the wrong number of arguments.
fn wrong_arguments(command: &str, subcommand: &[u8]) -> RejectedCommand {
    format!(
        "ERR wrong number of arguments for '{command}|{}' command",
        escape_for_error(subcommand).to_lowercase()
    )
    .into()
}

/// Returns the rejection of a subcommand that Redis does not have either.
fn unknown_subcommand(command: &str, subcommand: &[u8]) -> RejectedCommand {
    format!(
        "ERR unknown subcommand '{}'. Try {command} HELP.",
        escape_for_error(subcommand)
    )
    .into()
}
