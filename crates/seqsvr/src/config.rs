//! The configuration file: TOML whose keys are flags. Flag > environment > file > default.
//!
//! A table is a server command (`[dev]`, `[store]`, `[alloc]`) or `[client]`, which holds what the
//! commands that ask a server have in common. Values become the flags' defaults before the command
//! line is read, so that they are checked as flags are, and `--help` shows them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use toml::{Table, Value};

use crate::exit::BadInput;

/// Tables that are commands.
const SERVERS: [&str; 3] = ["dev", "store", "alloc"];
/// Keys of `[client]`.
const CLIENT: [&str; 3] = ["server", "timeout", "namespace"];
/// Keys of every table's commands that make no sense in the file that they name.
const NOT_KEYS: [&str; 4] = ["config", "help", "version", "log"];

/// The file the command line or the environment names.
pub(crate) fn named(args: &[OsString]) -> Option<PathBuf> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Some(text) = arg.to_str() else { continue };
        match text.strip_prefix("--config") {
            Some("") => return args.next().map(PathBuf::from),
            Some(rest) if rest.starts_with('=') => return Some(PathBuf::from(&rest[1..])),
            _ if text == "--" => break,
            _ => {}
        }
    }
    std::env::var_os("SEQSVR_CONFIG")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// The command line with the file's values as defaults.
pub(crate) fn apply(command: Command, path: &Path) -> Result<Command, BadInput> {
    let bad = |why: String| BadInput(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| {
        bad(format!(
            "cannot be read: {e}; name a TOML file with --config"
        ))
    })?;
    let tables: Table = text.parse().map_err(|e| bad(format!("not TOML: {e}")))?;
    let mut command = command;
    for (name, value) in tables {
        let Value::Table(keys) = value else {
            return Err(bad(format!(
                "{name} stands outside of a table; put it under {}",
                known()
            )));
        };
        let applied = if SERVERS.contains(&name.as_str()) {
            server(command, &name, keys)
        } else if name == "client" {
            client(command, keys)
        } else {
            Err(format!("no table [{name}]; there are {}", known()))
        };
        command = applied.map_err(bad)?;
    }
    Ok(command)
}

fn known() -> &'static str {
    "[dev], [store], [alloc] and [client]"
}

fn server(command: Command, name: &str, keys: Table) -> Result<Command, String> {
    let found = command.find_subcommand(name);
    let flags: Vec<String> = found.map(flags).unwrap_or_default();
    let mut values = Vec::new();
    for (key, value) in keys {
        if !flags.contains(&key) {
            let list = flags.join(", ");
            return Err(format!("[{name}] has no {key}; its keys are {list}"));
        }
        let value = texts(&value).map_err(|why| format!("[{name}] {key}: {why}"))?;
        values.push((key, value));
    }
    Ok(command.mut_subcommand(name, |sub| {
        values
            .into_iter()
            .fold(sub, |sub, (key, value)| with_default(sub, &key, value))
    }))
}

fn client(command: Command, keys: Table) -> Result<Command, String> {
    let mut command = command;
    for (key, value) in keys {
        if !CLIENT.contains(&key.as_str()) {
            let list = CLIENT.join(", ");
            return Err(format!("[client] has no {key}; its keys are {list}"));
        }
        let value = texts(&value).map_err(|why| format!("[client] {key}: {why}"))?;
        command = everywhere(command, &key, &value);
    }
    Ok(command)
}

/// Sets the flag in all commands below that have it.
fn everywhere(command: Command, key: &str, value: &[String]) -> Command {
    command.mut_subcommands(|sub| {
        let sub = everywhere(sub, key, value);
        if flags(&sub).iter().any(|flag| flag == key) {
            with_default(sub, key, value.to_vec())
        } else {
            sub
        }
    })
}

/// Long names of a command's own flags.
fn flags(command: &Command) -> Vec<String> {
    let names = command.get_arguments().filter_map(Arg::get_long);
    names
        .filter(|name| !NOT_KEYS.contains(name))
        .map(str::to_owned)
        .collect()
}

fn with_default(command: Command, key: &str, values: Vec<String>) -> Command {
    let id = command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(key))
        .map(|arg| arg.get_id().clone());
    match id {
        Some(id) => command.mut_arg(id, |arg| arg.required(false).default_values(values)),
        None => command,
    }
}

/// A value as it would be written behind its flag; an array is a list.
fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(number) => Ok(vec![number.to_string()]),
        Value::Array(list) if !list.is_empty() => {
            let each = list.iter().map(texts).collect::<Result<Vec<_>, _>>()?;
            Ok(each.concat())
        }
        _ => Err("use a string, a whole number or a list of them".to_owned()),
    }
}
