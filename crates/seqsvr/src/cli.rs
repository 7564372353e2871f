//! The command line. Flag > environment (`SEQSVR_*`) > configuration file > default.

mod backup;
mod bench;
mod config;
mod member;
mod namespace;
mod parse;
mod sequence;
mod serve;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use seqsvr_proto::limits::ALLOC_PORT;

use backup::{BACKUP_HELP, RESTORE_HELP};
pub(crate) use backup::{Backup, Restore};
use bench::BENCH_HELP;
pub(crate) use bench::{Bench, Distribution, Mode};
pub(crate) use config::{CheckConfig, Config};
pub(crate) use member::Member;
pub(crate) use namespace::{Create, Namespace};
use parse::{addresses, duration, servers};
pub(crate) use parse::{socket_addr, store_at};
pub(crate) use sequence::{Current, Next, RaiseTo, Route};
pub(crate) use serve::{Alloc, Dev, Doors, Init, Store};

use crate::log::Format;

/// Heading of the flags that every command has. They are the last in each help.
const GLOBAL: &str = "Global options";
/// Heading of the flags for the connection to a server.
const CONNECTION: &str = "Connection options";
/// Heading of the limits of a server.
const LIMITS: &str = "Limits";

/// The next number of every user: unique, rising, never lost.
///
/// Start with `seqsvr dev`, then `seqsvr next 42` in another shell.
#[derive(Parser)]
#[command(name = "seqsvr", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Filter of the log on stderr, such as `info` or `warn,seqsvr_alloc=debug`.
    #[arg(long, global = true, help_heading = GLOBAL, env = "SEQSVR_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// Format of the log.
    ///
    /// With `json`, the startup banner of a server is also a log line instead of text on stdout.
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        env = "SEQSVR_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub(crate) log_format: Format,
    /// TOML file whose keys are flags, in tables `dev`, `store`, `alloc` and `client`.
    #[arg(long, global = true, help_heading = GLOBAL, env = "SEQSVR_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a whole cluster in one process, for development.
    ///
    /// Disk, Raft and network are real.
    Dev(Dev),
    /// Run a StoreSvr.
    ///
    /// A StoreSvr on an empty data directory waits for `seqsvr init` or `seqsvr member add`.
    Store(Store),
    /// Create the cluster, once, from running StoreSvrs.
    Init(Init),
    /// Run an AllocSvr.
    Alloc(Alloc),
    /// Take the next number of a uid or key and print it.
    Next(Next),
    /// Print the last issued number without taking one.
    Current(Current),
    /// Print section, slot, epoch and owner of a uid or key.
    Route(Route),
    /// Make every later number of a uid or key greater than N.
    RaiseTo(RaiseTo),
    /// Print the cluster's state and counters.
    Status(Status),
    /// Create, alter and list namespaces.
    #[command(subcommand)]
    Namespace(Namespace),
    /// List, add and remove StoreSvrs, and transfer their leadership.
    ///
    /// The cluster serves numbers during all changes.
    #[command(subcommand)]
    Member(Member),
    /// Move one slot to another AllocSvr.
    ///
    /// No number is skipped and no call fails.
    Move(Move),
    /// Move all slots off an AllocSvr, so that it can be stopped.
    Drain(Drain),
    /// Write the state of a running cluster to a file, for `restore`.
    #[command(after_help = BACKUP_HELP)]
    Backup(Backup),
    /// Create the first StoreSvr of a new cluster from a backup.
    ///
    /// The command does not start the StoreSvr.
    #[command(after_help = RESTORE_HELP)]
    Restore(Restore),
    /// Generate load, measure the cluster, and verify every number.
    #[command(after_help = BENCH_HELP)]
    Bench(Bench),
    /// Check a recorded history of calls for duplicates and order.
    Check(Check),
    /// Check a configuration file.
    #[command(subcommand)]
    Config(Config),
    /// Print a shell completion script.
    #[command(after_help = COMPLETION_HELP)]
    Completion(Completion),
}

/// Addresses and timeout of a client command.
#[derive(Args)]
#[command(next_help_heading = CONNECTION)]
pub(crate) struct Server {
    /// AllocSvr addresses; one reachable AllocSvr is enough.
    #[arg(long, env = "SEQSVR_SERVER", default_value_t = format!("127.0.0.1:{ALLOC_PORT}"), value_name = "ADDR[,ADDR]", value_parser = servers)]
    pub(crate) server: String,
    /// Time after which the command stops retrying.
    #[arg(long, env = "SEQSVR_TIMEOUT", default_value = "20s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

impl Server {
    /// Returns the addresses.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        addresses(&self.server).collect()
    }
}

#[derive(Args)]
pub(crate) struct Status {
    /// Print JSON, with all counters.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Move {
    /// Slot to move; `seqsvr route` prints the slot of a uid or key.
    pub(crate) slot: u32,
    /// Name of the new owner, an AllocSvr.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Drain {
    /// Name of the AllocSvr.
    pub(crate) name: String,
    /// Let the AllocSvr own slots again.
    #[arg(long)]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct List {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Check {
    /// History file, as written by `seqsvr bench --history`.
    pub(crate) file: PathBuf,
}

const COMPLETION_HELP: &str = r#"Run this in a shell, or put it in its start file (~/.bashrc; ~/.zshrc, after compinit):
  bash: eval "$(seqsvr completion bash)"
  zsh:  eval "$(seqsvr completion zsh)"
  fish: seqsvr completion fish | source"#;

#[derive(Args)]
pub(crate) struct Completion {
    /// Shell to print the script for.
    pub(crate) shell: Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Returns the command itself and all below it, with their full names.
    fn all(command: &clap::Command, above: &str) -> Vec<(String, clap::Command)> {
        let name = format!("{above}{}", command.get_name());
        // `help` is clap's own.
        let own = command
            .get_subcommands()
            .filter(|sub| sub.get_name() != "help");
        let below = own.flat_map(|sub| all(sub, &format!("{name} ")));
        let below: Vec<_> = below.collect();
        std::iter::once((name, command.clone()))
            .chain(below)
            .collect()
    }

    fn commands() -> Vec<(String, clap::Command)> {
        let mut root = Cli::command();
        root.build();
        all(&root, "")
    }

    /// Returns the headings of a help, and the flags below each, in their order.
    fn sections(help: &str) -> Vec<(String, Vec<String>)> {
        let mut sections: Vec<(String, Vec<String>)> = Vec::new();
        for line in help.lines() {
            if let Some(heading) = line.strip_suffix(':').filter(|h| !h.starts_with(' ')) {
                sections.push((heading.to_owned(), Vec::new()));
            }
            let line = line.trim_start();
            // After a short one: `-h, --help`.
            let flag = match line.as_bytes() {
                [b'-', _, b',', b' ', ..] => &line[4..],
                _ => line,
            };
            if let (Some(flag), Some((_, flags))) = (flag.strip_prefix("--"), sections.last_mut()) {
                let end = flag.find([' ', '=']).unwrap_or(flag.len());
                flags.push(flag[..end].to_owned());
            }
        }
        sections
    }

    #[test]
    fn a_help_shows_the_flags_of_the_command_first_and_those_of_all_commands_last() {
        let commands = commands();
        assert!(commands.len() > 25, "{}", commands.len());
        for (name, command) in commands {
            // Without the examples after it.
            let mut command = command.after_help("");
            let help = command.render_long_help().to_string();
            let sections = sections(&help);
            let (heading, global) = sections.last().unwrap();
            assert_eq!(heading, GLOBAL, "{name}: {help}");
            assert_eq!(global, &["log", "log-format", "config"], "{name}: {help}");
            let has = |heading| sections.iter().any(|(found, _)| found == heading);
            assert!(has("Options") || !has(CONNECTION), "{name}: {help}");
            for arg in command.get_arguments() {
                assert_eq!(
                    arg.is_global_set(),
                    arg.get_help_heading() == Some(GLOBAL),
                    "{name} {arg}"
                );
            }
            // In the order of the declaration, section by section.
            for (heading, flags) in &sections {
                let args = command.get_arguments().filter(|arg| {
                    let is_own = !["help", "version"].contains(&arg.get_id().as_str());
                    is_own && arg.get_help_heading().unwrap_or("Options") == heading
                });
                let declared: Vec<&str> = args.filter_map(clap::Arg::get_long).collect();
                let shown: Vec<&String> = flags
                    .iter()
                    .filter(|flag| *flag != "help" && *flag != "version")
                    .collect();
                if !declared.is_empty() {
                    assert_eq!(shown, declared, "{name}, {heading}: {help}");
                }
            }
        }
    }

    #[test]
    fn flags_stand_below_the_heading_of_what_they_are_about() {
        let commands = commands();
        let find = |wanted: &str| {
            let found = commands.iter().find(|(name, _)| name == wanted);
            let help = found.unwrap().1.clone().render_long_help().to_string();
            sections(&help)
        };
        let headings = |name| -> Vec<String> { find(name).into_iter().map(|(h, _)| h).collect() };
        assert_eq!(
            headings("seqsvr next"),
            ["Arguments", "Options", CONNECTION, GLOBAL]
        );
        assert_eq!(headings("seqsvr dev"), ["Options", "Ports", GLOBAL]);
        assert_eq!(
            headings("seqsvr store"),
            ["Options", LIMITS, "HTTP options", GLOBAL]
        );
        assert_eq!(
            headings("seqsvr alloc"),
            ["Options", LIMITS, "Redis options", "HTTP options", GLOBAL]
        );
        let own: Vec<String> = find("seqsvr next").swap_remove(1).1;
        assert_eq!(own, ["count", "floor", "strict", "namespace", "help"]);
    }

    #[test]
    fn the_first_line_of_a_help_is_short_and_says_what_to_do() {
        for (name, command) in commands() {
            let about = command.get_about().unwrap().to_string();
            let verb = about.split(' ').next().unwrap();
            let root = name == "seqsvr";
            assert!(
                root || !verb.ends_with('s'),
                "{name}: {about:?} is no imperative"
            );
            let args = command
                .get_arguments()
                .filter_map(|arg| Some((arg.get_id(), arg.get_help()?)));
            let args = args.map(|(id, help)| (format!("{name} {id}"), help.to_string()));
            for (what, line) in args.chain([(name.clone(), about)]) {
                assert!(
                    line.chars().count() <= 80,
                    "{what}: {line:?} has more than 80 characters"
                );
                assert!(!line.contains('\n'), "{what}: {line:?} is more than a line");
            }
        }
    }
}
