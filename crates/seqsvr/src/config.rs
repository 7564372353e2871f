//! The configuration file: TOML whose keys are flags. Flag > environment > file > default.
//!
//! A table is a server command (`[dev]`, `[store]`, `[alloc]`) or `[client]`, which has the flags
//! that all client commands share. Values become the defaults of flags before the command line is
//! parsed. So clap checks them as it checks flags, and `--help` shows them.

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};

use crate::exit::BadInput;

/// Tables that are commands.
const SERVERS: [&str; 3] = ["dev", "store", "alloc"];
/// The table of all client commands.
const CLIENT: &str = "client";
const CLIENT_KEYS: [&str; 3] = ["server", "timeout", "namespace"];
/// Flags that cannot be keys of the file.
const NOT_KEYS: [&str; 5] = ["config", "help", "version", "log", "log-format"];

/// Returns the value of a flag from the command line or the environment, before the command line
/// is parsed.
pub(crate) fn early(args: &[OsString], flag: &str, variable: &str) -> Option<OsString> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Some(text) = arg.to_str() else { continue };
        match text.strip_prefix(flag) {
            Some("") => return args.next().cloned(),
            Some(rest) if rest.starts_with('=') => return Some(OsString::from(&rest[1..])),
            _ if text == "--" => break,
            _ => {}
        }
    }
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// Settings and issues of a file.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) settings: Vec<Setting>,
    pub(crate) faults: Vec<Fault>,
}

/// One key of a table.
pub(crate) struct Setting {
    pub(crate) table: String,
    pub(crate) key: String,
    /// As they would be written after the flag.
    pub(crate) values: Vec<String>,
    /// Commands that have this flag, such as `namespace list`.
    pub(crate) commands: Vec<String>,
    /// Whether its value must not be shown.
    pub(crate) secret: bool,
}

/// Something wrong with a table or one key of it.
pub(crate) struct Fault {
    pub(crate) table: String,
    pub(crate) key: Option<String>,
    /// Text that names both.
    pub(crate) text: String,
}

/// Returns the command line with the file's values as defaults.
///
/// # Errors
/// The file cannot be read, or has an unknown table, an unknown key or a value of a type that no
/// flag has. All other values are checked when clap parses the command line.
pub(crate) fn apply(command: Command, path: &Path) -> Result<Command, BadInput> {
    let contents = contents(&command, path)?;
    match &*contents.faults {
        [] => Ok(contents.settings.into_iter().fold(command, set)),
        [fault] => Err(bad(path, &fault.text)),
        [fault, more @ ..] => Err(bad(
            path,
            format_args!(
                "{}; {} more: see `seqsvr config check`",
                fault.text,
                more.len()
            ),
        )),
    }
}

/// Returns the settings of the file and all its issues, including values that their flags reject.
///
/// # Errors
/// The file cannot be read or is not TOML.
pub(crate) fn check(command: &Command, path: &Path) -> Result<Contents, BadInput> {
    let mut contents = contents(command, path)?;
    for setting in &contents.settings {
        let takers = takers(command, &setting.table, &setting.key);
        let refused = takers
            .iter()
            .find_map(|(_, taker)| refusal(taker, &setting.key, &setting.values));
        if let Some(why) = refused {
            contents
                .faults
                .push(Fault::of_key(&setting.table, &setting.key, why));
        }
    }
    contents
        .faults
        .sort_by(|a, b| (&a.table, &a.key).cmp(&(&b.table, &b.key)));
    Ok(contents)
}

impl Fault {
    fn of_key(table: &str, key: &str, why: impl Display) -> Fault {
        Fault {
            table: table.to_owned(),
            key: Some(key.to_owned()),
            text: format!("[{table}] {key}: {why}"),
        }
    }
}

fn bad(path: &Path, why: impl Display) -> BadInput {
    BadInput(format!("{}: {why}", path.display()))
}

fn contents(command: &Command, path: &Path) -> Result<Contents, BadInput> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        bad(
            path,
            format_args!("cannot be read: {e}; name a TOML file with --config"),
        )
    })?;
    let tables: Table = text.parse().map_err(|e| bad(path, not_toml(&text, &e)))?;
    let mut contents = Contents::default();
    for (table, value) in tables {
        let wrong = |text: String| Fault {
            table: table.clone(),
            key: None,
            text,
        };
        let known = "[dev], [store], [alloc] and [client]";
        match value {
            _ if !SERVERS.contains(&&*table) && table != CLIENT => {
                let text = match value {
                    Value::Table(_) => format!("no table [{table}]; there are {known}"),
                    _ => format!("{table} stands outside of a table; put it under {known}"),
                };
                contents.faults.push(wrong(text));
            }
            Value::Table(keys) => {
                for (key, value) in keys {
                    match setting(command, &table, &key, &value) {
                        Ok(setting) => contents.settings.push(setting),
                        Err(fault) => contents.faults.push(fault),
                    }
                }
            }
            _ => contents.faults.push(wrong(format!(
                "{table} is a table: write [{table}], and its keys below"
            ))),
        }
    }
    Ok(contents)
}

/// Returns an error that names the line number, but not the line: it may have a password.
fn not_toml(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    format!("not TOML: line {line}: {}", error.message())
}

fn setting(command: &Command, table: &str, key: &str, value: &Value) -> Result<Setting, Fault> {
    let takers = takers(command, table, key);
    let Some(flag) = takers.first().and_then(|(_, taker)| flag(taker, key)) else {
        let keys = match command.find_subcommand(table) {
            Some(server) => flags(server).join(", "),
            None => CLIENT_KEYS.join(", "),
        };
        return Err(Fault {
            table: table.to_owned(),
            key: Some(key.to_owned()),
            text: format!("[{table}] has no {key}; its keys are {keys}"),
        });
    };
    let values = texts(value).map_err(|why| Fault::of_key(table, key, why))?;
    if values.len() > 1 && !matches!(flag.get_action(), ArgAction::Append) {
        return Err(Fault::of_key(table, key, "takes one value, not a list"));
    }
    Ok(Setting {
        secret: flag.is_hide_env_values_set(),
        commands: takers.into_iter().map(|(name, _)| name).collect(),
        table: table.to_owned(),
        key: key.to_owned(),
        values,
    })
}

/// Returns the commands that have this key of this table, with their names.
fn takers<'a>(command: &'a Command, table: &str, key: &str) -> Vec<(String, &'a Command)> {
    if table != CLIENT {
        let server = command.find_subcommand(table);
        let server = server.filter(|server| flag(server, key).is_some());
        return server.map(|s| (table.to_owned(), s)).into_iter().collect();
    }
    let mut found = Vec::new();
    if CLIENT_KEYS.contains(&key) {
        for sub in command.get_subcommands() {
            if flag(sub, key).is_some() {
                found.push((sub.get_name().to_owned(), sub));
            }
            let below = takers(sub, table, key).into_iter();
            found.extend(below.map(|(name, taker)| (format!("{} {name}", sub.get_name()), taker)));
        }
    }
    found
}

/// Returns why a command would reject these values of its flag.
fn refusal(taker: &Command, key: &str, values: &[String]) -> Option<String> {
    let alone = taker
        .clone()
        .no_binary_name(true)
        .mut_args(|arg| arg.required(false).env(Resettable::Reset));
    let error = alone
        .try_get_matches_from(values.iter().map(|value| format!("--{key}={value}")))
        .err()?;
    // It may require another flag, which need not come from the file.
    if error.kind() == ErrorKind::MissingRequiredArgument {
        return None;
    }
    Some(match error.source() {
        Some(why) => why.to_string(),
        None => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.trim_start_matches("error: ").to_owned()
        }
    })
}

fn set(command: Command, setting: Setting) -> Command {
    if setting.table == CLIENT {
        everywhere(command, &setting)
    } else {
        command.mut_subcommand(setting.table.clone(), |sub| with_default(sub, &setting))
    }
}

/// Sets the flag in all commands below that have it.
fn everywhere(command: Command, setting: &Setting) -> Command {
    command.mut_subcommands(|sub| with_default(everywhere(sub, setting), setting))
}

/// Returns the long names of a command's own flags.
fn flags(command: &Command) -> Vec<String> {
    let names = command.get_arguments().filter_map(Arg::get_long);
    names
        .filter(|name| !NOT_KEYS.contains(name))
        .map(str::to_owned)
        .collect()
}

fn flag<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    let mut flags = command.get_arguments();
    flags.find(|arg| arg.get_long() == Some(key) && !NOT_KEYS.contains(&key))
}

/// Sets the default of a command's flag. A command without this flag is returned unchanged.
fn with_default(command: Command, setting: &Setting) -> Command {
    let id = flag(&command, &setting.key).map(|arg| arg.get_id().clone());
    match id {
        Some(id) => command.mut_arg(id, |arg| {
            arg.required(false)
                .default_values(&setting.values)
                .hide_default_value(setting.secret)
        }),
        None => command,
    }
}

/// Returns a value as it would be written after its flag; an array is a list.
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
