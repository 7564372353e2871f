//! `seqsvr config check`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::CommandFactory;
use serde_json::{Value, json};

use crate::cli::{CheckConfig, Cli};
use crate::config::{self, Contents, Setting};
use crate::exit::BadInput;
use crate::out;

/// Checks the file that the command names, or else the one of `--config`.
pub(crate) fn check(args: CheckConfig, named: Option<PathBuf>) -> anyhow::Result<()> {
    let Some(path) = args.file.or(named) else {
        bail!(BadInput(
            "name a file: behind the command, with --config or in SEQSVR_CONFIG".to_owned()
        ));
    };
    let contents = config::check(&Cli::command(), &path)?;
    let faults = &contents.faults;
    if args.json {
        out::line(serde_json::to_string_pretty(&object(&path, &contents))?)?;
    } else if !faults.is_empty() {
        for fault in faults {
            out::line(&fault.text)?;
        }
    } else {
        for setting in &contents.settings {
            out::line(line(setting))?;
        }
        out::line(format_args!("{}: good", path.display()))?;
    }
    match faults.len() {
        0 => Ok(()),
        n => bail!(BadInput(format!(
            "{}: wrong in {n} place(s)",
            path.display()
        ))),
    }
}

/// Returns the line of a setting. It lists the commands unless the table is named after the only
/// one.
fn line(setting: &Setting) -> String {
    let value = match setting.secret {
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

fn object(path: &Path, contents: &Contents) -> Value {
    let settings = contents.settings.iter().map(|s| {
        let values = (!s.secret).then_some(&s.values);
        json!({ "table": s.table, "key": s.key, "values": values, "secret": s.secret, "commands": s.commands })
    });
    let faults = contents.faults.iter();
    let faults = faults.map(|f| json!({ "table": f.table, "key": f.key, "text": f.text }));
    json!({
        "file": path, "good": contents.faults.is_empty(),
        "settings": settings.collect::<Vec<_>>(), "faults": faults.collect::<Vec<_>>(),
    })
}
