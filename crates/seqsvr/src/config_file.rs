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

use crate::output::exit_code::{BadInput, unreadable_input};

/// Tables that are commands.
const SERVER_TABLES: [&str; 3] = ["dev", "store", "alloc"];
/// The table of all client commands.
const CLIENT_TABLE: &str = "client";
const CLIENT_KEYS: [&str; 6] = [
    "server",
    "tls-dir",
    "ca",
    "token-file",
    "timeout",
    "namespace",
];
/// Flags that cannot be keys of the file.
///
/// `moved-data-dir` accepts a copied directory once; a file would accept every copy. `join-cluster`
/// accepts a change of the cluster once; a file would accept the change back as well.
const NON_KEY_FLAGS: [&str; 7] = [
    "config",
    "help",
    "version",
    "log",
    "log-format",
    "moved-data-dir",
    "join-cluster",
];

/// Returns the value of a flag from the command line or the environment, before the command line
/// is parsed.
pub(crate) fn peek_flag(args: &[OsString], flag: &str, variable: &str) -> Option<OsString> {
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
pub(crate) struct ConfigContents {
    pub(crate) settings: Vec<ConfigSetting>,
    pub(crate) issues: Vec<ConfigIssue>,
}

/// One key of a table.
pub(crate) struct ConfigSetting {
    pub(crate) table: String,
    pub(crate) key: String,
    /// As they would be written after the flag.
    pub(crate) values: Vec<String>,
    /// Commands that have this flag, such as `namespace list`.
    pub(crate) commands: Vec<String>,
    /// Whether its value must not be shown.
    pub(crate) is_secret: bool,
}

/// Something wrong with a table or one key of it.
pub(crate) struct ConfigIssue {
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
pub(crate) fn apply_file(command: Command, path: &Path) -> anyhow::Result<Command> {
    let contents = read_contents(&command, path)?;
    match &*contents.issues {
        [] => Ok(contents.settings.into_iter().fold(command, set_default)),
        [issue] => Err(file_error(path, &issue.text).into()),
        [issue, more @ ..] => Err(file_error(
            path,
            format_args!(
                "{}; {} more: see `seqsvr config check`",
                issue.text,
                more.len()
            ),
        )
        .into()),
    }
}

/// Returns the settings of the file and all its issues, including values that their flags reject.
///
/// # Errors
/// The file cannot be read or is not TOML.
pub(crate) fn check_file(command: &Command, path: &Path) -> anyhow::Result<ConfigContents> {
    let mut contents = read_contents(command, path)?;
    for setting in &contents.settings {
        let commands = commands_with_flag(command, &setting.table, &setting.key);
        let rejection = commands
            .iter()
            .find_map(|(_, command)| rejection_reason(command, &setting.key, &setting.values));
        if let Some(why) = rejection {
            contents
                .issues
                .push(ConfigIssue::for_key(&setting.table, &setting.key, why));
        }
    }
    contents
        .issues
        .sort_by(|a, b| (&a.table, &a.key).cmp(&(&b.table, &b.key)));
    Ok(contents)
}

impl ConfigIssue {
    pub(crate) fn for_key(table: &str, key: &str, why: impl Display) -> ConfigIssue {
        ConfigIssue {
            table: table.to_owned(),
            key: Some(key.to_owned()),
            text: format!("[{table}] {key}: {why}"),
        }
    }
}

fn file_error(path: &Path, why: impl Display) -> BadInput {
    BadInput(format!("{}: {why}", path.display()))
}

/// Reads the file and sorts its keys into settings and issues.
fn read_contents(command: &Command, path: &Path) -> anyhow::Result<ConfigContents> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        let what = path.display().to_string();
        unreadable_input(&what, &e, "name a TOML file with --config")
    })?;
    let tables: Table = text
        .parse()
        .map_err(|e| file_error(path, describe_toml_error(&text, &e)))?;
    let mut contents = ConfigContents::default();
    for (table, value) in tables {
        let table_issue = |text: String| ConfigIssue {
            table: table.clone(),
            key: None,
            text,
        };
        let known_tables = "[dev], [store], [alloc] and [client]";
        match value {
            _ if !SERVER_TABLES.contains(&&*table) && table != CLIENT_TABLE => {
                let text = match value {
                    Value::Table(_) => format!("no table [{table}]; there are {known_tables}"),
                    _ => {
                        format!("{table} is outside of a table; put it under one of {known_tables}")
                    }
                };
                contents.issues.push(table_issue(text));
            }
            Value::Table(keys) => {
                for (key, value) in keys {
                    match parse_setting(command, &table, &key, &value) {
                        Ok(setting) => contents.settings.push(setting),
                        Err(issue) => contents.issues.push(issue),
                    }
                }
            }
            _ => contents.issues.push(table_issue(format!(
                "{table} is a table: write [{table}], and its keys below"
            ))),
        }
    }
    Ok(contents)
}

/// Returns an error that names the line number, but not the line: it may have a password.
fn describe_toml_error(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    format!("not TOML: line {line}: {}", error.message())
}

/// Finds the flag of a key and converts its value.
fn parse_setting(
    command: &Command,
    table: &str,
    key: &str,
    value: &Value,
) -> Result<ConfigSetting, ConfigIssue> {
    let commands = commands_with_flag(command, table, key);
    let Some(flag) = commands
        .first()
        .and_then(|(_, command)| find_flag(command, key))
    else {
        let keys = match command.find_subcommand(table) {
            Some(server) => flag_names(server).join(", "),
            None => CLIENT_KEYS.join(", "),
        };
        return Err(ConfigIssue {
            table: table.to_owned(),
            key: Some(key.to_owned()),
            text: format!("[{table}] has no {key}; its keys are {keys}"),
        });
    };
    let values = match (flag.get_action().takes_values(), value) {
        (true, value) => to_flag_values(value),
        (false, Value::Boolean(is_set)) => Ok(vec![is_set.to_string()]),
        (false, _) => Err("use true or false".to_owned()),
    };
    let values = values.map_err(|why| ConfigIssue::for_key(table, key, why))?;
    if values.len() > 1 && !matches!(flag.get_action(), ArgAction::Append) {
        return Err(ConfigIssue::for_key(
            table,
            key,
            "takes one value, not a list",
        ));
    }
    Ok(ConfigSetting {
        is_secret: flag.is_hide_env_values_set(),
        commands: commands.into_iter().map(|(name, _)| name).collect(),
        table: table.to_owned(),
        key: key.to_owned(),
        values,
    })
}

/// Returns the commands that have this key of this table, with their names.
fn commands_with_flag<'a>(
    command: &'a Command,
    table: &str,
    key: &str,
) -> Vec<(String, &'a Command)> {
    if table != CLIENT_TABLE {
        let server = command.find_subcommand(table);
        let server = server.filter(|server| find_flag(server, key).is_some());
        return server.map(|s| (table.to_owned(), s)).into_iter().collect();
    }
    let mut found = Vec::new();
    if CLIENT_KEYS.contains(&key) {
        for sub in command.get_subcommands() {
            if find_flag(sub, key).is_some() {
                found.push((sub.get_name().to_owned(), sub));
            }
            let below = commands_with_flag(sub, table, key).into_iter();
            found.extend(
                below.map(|(name, command)| (format!("{} {name}", sub.get_name()), command)),
            );
        }
    }
    found
}

/// Returns why a command would reject these values of its flag.
fn rejection_reason(command: &Command, key: &str, values: &[String]) -> Option<String> {
    if find_flag(command, key).is_some_and(|flag| !flag.get_action().takes_values()) {
        // The value was checked when the file was read.
        return None;
    }
    let alone = command
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

/// Sets the default of the flag in the commands of its table.
fn set_default(command: Command, setting: ConfigSetting) -> Command {
    if setting.table == CLIENT_TABLE {
        set_in_all_commands(command, &setting)
    } else {
        command.mut_subcommand(setting.table.clone(), |sub| with_default(sub, &setting))
    }
}

/// Sets the flag in all commands below that have it.
fn set_in_all_commands(command: Command, setting: &ConfigSetting) -> Command {
    command.mut_subcommands(|sub| with_default(set_in_all_commands(sub, setting), setting))
}

/// Returns the long names of a command's own flags.
fn flag_names(command: &Command) -> Vec<String> {
    let names = command.get_arguments().filter_map(Arg::get_long);
    names
        .filter(|name| !NON_KEY_FLAGS.contains(name))
        .map(str::to_owned)
        .collect()
}

/// Returns the flag of a command that has this key.
fn find_flag<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    let mut flags = command.get_arguments();
    flags.find(|arg| arg.get_long() == Some(key) && !NON_KEY_FLAGS.contains(&key))
}

/// Sets the default of a command's flag. A command without this flag is returned unchanged.
fn with_default(command: Command, setting: &ConfigSetting) -> Command {
    let id = find_flag(&command, &setting.key).map(|arg| arg.get_id().clone());
    match id {
        Some(id) => command.mut_arg(id, |arg| {
            arg.required(false)
                .default_values(&setting.values)
                .hide_default_value(setting.is_secret)
        }),
        None => command,
    }
}

/// Returns a value as it would be written after its flag; an array is a list.
fn to_flag_values(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(number) => Ok(vec![number.to_string()]),
        Value::Array(list) if !list.is_empty() => {
            let each = list
                .iter()
                .map(to_flag_values)
                .collect::<Result<Vec<_>, _>>()?;
            Ok(each.concat())
        }
        _ => Err("use a string, a whole number or a list of them".to_owned()),
    }
}
