//! `seqsvr config check`.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::CommandFactory;
use serde_json::{Value, json};

use crate::cli::{CheckConfigArgs, CommandLine};
use crate::config_file::{self, ConfigContents, ConfigIssue, ConfigSetting};
use crate::output::exit_code::BadInput;
use crate::output::stdout;
use crate::server::listen_rules::is_routable;

/// Keys of addresses on which a server listens.
const LISTEN_KEYS: [&str; 4] = ["listen", "redis-listen", "http-listen", "metrics-listen"];

/// Checks the file that the command names, or else the one of `--config`.
pub(crate) fn check_config(
    args: CheckConfigArgs,
    config_flag: Option<PathBuf>,
) -> anyhow::Result<()> {
    let Some(path) = args.file.or(config_flag) else {
        bail!(BadInput(
            "no file is named; name one after the command, with --config or in SEQSVR_CONFIG"
                .to_owned()
        ));
    };
    let mut contents = config_file::check_file(&CommandLine::command(), &path)?;
    contents.issues.extend(find_routable_addresses(&contents));
    let issues = &contents.issues;
    if args.json {
        stdout::print_json(serde_json::to_string_pretty(&contents_json(
            &path, &contents,
        ))?)?;
    } else if !issues.is_empty() {
        for issue in issues {
            stdout::print_text(&issue.text)?;
        }
    } else {
        for setting in &contents.settings {
            stdout::print_line(setting_line(setting))?;
        }
        stdout::print_line(format_args!("{}: valid", path.display()))?;
    }
    match issues.len() {
        0 => Ok(()),
        n => bail!(BadInput(format!(
            "{}: the file has {n} mistake(s); correct them",
            path.display()
        ))),
    }
}

/// Finds the addresses on which a server with only the settings of the file does not listen. Names
/// of hosts are not resolved.
fn find_routable_addresses(contents: &ConfigContents) -> Vec<ConfigIssue> {
    let is_allowed = |table: &str| {
        let mut settings = contents.settings.iter().filter(|s| s.table == table);
        settings.any(|s| s.key == "tls-dir" || (s.key == "insecure" && s.values == ["true"]))
    };
    let addresses = contents
        .settings
        .iter()
        .filter(|s| LISTEN_KEYS.contains(&&*s.key) && !is_allowed(&s.table));
    let routable = addresses.filter_map(|s| {
        let text = s.values.first()?;
        let is_known_routable = parse_ip_address(text).is_some_and(is_routable);
        is_known_routable.then(|| {
            ConfigIssue::for_key(
                &s.table,
                &s.key,
                format_args!(
                    "{text}: other machines can reach this address, and the server has no TLS and checks no credentials; use 127.0.0.1, set tls-dir, or set insecure = true for labs, where any program that reaches the address may do everything"
                ),
            )
        })
    });
    routable.collect()
}

/// Returns the address of a `host:port` or `host` that is no name.
fn parse_ip_address(text: &str) -> Option<IpAddr> {
    let with_port = text.parse().map(|at: SocketAddr| at.ip());
    let host = text.trim_start_matches('[').trim_end_matches(']');
    with_port.or_else(|_| host.parse()).ok()
}

/// Returns the line of a setting. It lists the commands unless the table is named after the only
/// one.
fn setting_line(setting: &ConfigSetting) -> String {
    let value = match setting.is_secret {
        true => "(set, not shown)".to_owned(),
        false => {
            let each: Vec<_> = setting.values.iter().map(|v| format!("{v:?}")).collect();
            each.join(", ")
        }
    };
    let line = format!("[{}] {} = {value}", setting.table, setting.key);
    match &*setting.commands {
        [one] if *one == setting.table => line,
        commands => format!("{line}  (for {})", commands.join(", ")),
    }
}

fn contents_json(path: &Path, contents: &ConfigContents) -> Value {
    let settings = contents.settings.iter().map(|s| {
        let values = (!s.is_secret).then_some(&s.values);
        json!({ "table": s.table, "key": s.key, "values": values, "secret": s.is_secret, "commands": s.commands })
    });
    let issues = contents.issues.iter();
    let issues = issues.map(|f| json!({ "table": f.table, "key": f.key, "text": f.text }));
    json!({
        "file": path, "valid": contents.issues.is_empty(),
        "settings": settings.collect::<Vec<_>>(), "issues": issues.collect::<Vec<_>>(),
    })
}
