//! The command line. Flag > environment (`SEQSVR_*`) > configuration file > default.

mod backup;
mod bench;
mod config;
mod member;
mod namespace;
mod sequence;
mod servers;
mod value_parsers;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use seqsvr_proto::limits::ALLOC_PORT;

use backup::{BACKUP_HELP, RESTORE_HELP};
pub(crate) use backup::{BackupArgs, RestoreArgs};
use bench::BENCH_HELP;
pub(crate) use bench::{BenchArgs, CallMode, KeyDistribution};
pub(crate) use config::{CheckConfigArgs, ConfigCommand};
pub(crate) use member::MemberCommand;
pub(crate) use namespace::{CreateNamespaceArgs, NamespaceCommand};
pub(crate) use sequence::{CurrentArgs, NextArgs, RaiseToArgs, RouteArgs};
pub(crate) use servers::{AllocArgs, DevArgs, EndpointArgs, InitArgs, StoreArgs};
use value_parsers::{parse_duration, parse_server_list, split_addresses};
pub(crate) use value_parsers::{parse_store_member, resolve_address};

use crate::output::log::LogFormat;

/// Heading of the flags that every command has. They are the last in each help.
const GLOBAL_HEADING: &str = "Global options";
/// Heading of the flags for the connection to a server.
const CONNECTION_HEADING: &str = "Connection options";
/// Heading of the limits of a server.
const LIMITS_HEADING: &str = "Limits";

/// The next number of every user: unique, rising, never lost.
///
/// Start with `seqsvr dev`, then `seqsvr next 42` in another shell.
#[derive(Parser)]
#[command(name = "seqsvr", version, max_term_width = 100)]
pub(crate) struct CommandLine {
    /// Filter of the log on stderr, such as `info` or `warn,seqsvr_alloc=debug`.
    #[arg(long, global = true, help_heading = GLOBAL_HEADING, env = "SEQSVR_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// Format of the log.
    ///
    /// With `json`, the startup banner of a server is also a log line instead of text on stdout.
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL_HEADING,
        env = "SEQSVR_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub(crate) log_format: LogFormat,
    /// TOML file whose keys are flags, in tables `dev`, `store`, `alloc` and `client`.
    #[arg(long, global = true, help_heading = GLOBAL_HEADING, env = "SEQSVR_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Subcommand)]
pub(crate) enum CliCommand {
    /// Run a whole cluster in one process, for development.
    ///
    /// Disk, Raft and network are real.
    Dev(DevArgs),
    /// Run a StoreSvr.
    ///
    /// A StoreSvr on an empty data directory waits for `seqsvr init` or `seqsvr member add`.
    Store(StoreArgs),
    /// Create the cluster, once, from running StoreSvrs.
    Init(InitArgs),
    /// Run an AllocSvr.
    Alloc(AllocArgs),
    /// Take the next number of a uid or key and print it.
    Next(NextArgs),
    /// Print the last issued number without taking one.
    Current(CurrentArgs),
    /// Print section, slot, epoch and owner of a uid or key.
    Route(RouteArgs),
    /// Make every later number of a uid or key greater than N.
    RaiseTo(RaiseToArgs),
    /// Print the cluster's state and counters.
    Status(StatusArgs),
    /// Create, alter and list namespaces.
    #[command(subcommand)]
    Namespace(NamespaceCommand),
    /// List, add and remove StoreSvrs, and transfer their leadership.
    ///
    /// The cluster serves numbers during all changes.
    #[command(subcommand)]
    Member(MemberCommand),
    /// Move one slot to another AllocSvr.
    ///
    /// No number is skipped and no call fails.
    Move(MoveArgs),
    /// Move all slots off an AllocSvr, so that it can be stopped.
    Drain(DrainArgs),
    /// Write the state of a running cluster to a file, for `restore`.
    #[command(after_help = BACKUP_HELP)]
    Backup(BackupArgs),
    /// Create the first StoreSvr of a new cluster from a backup.
    ///
    /// The command does not start the StoreSvr.
    #[command(after_help = RESTORE_HELP)]
    Restore(RestoreArgs),
    /// Generate load, measure the cluster, and verify every number.
    #[command(after_help = BENCH_HELP)]
    Bench(BenchArgs),
    /// Check a recorded history of calls for duplicates and order.
    Check(CheckArgs),
    /// Check a configuration file.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a shell completion script.
    #[command(after_help = COMPLETION_HELP)]
    Completion(CompletionArgs),
}

/// Addresses and timeout of a client command.
#[derive(Args)]
#[command(next_help_heading = CONNECTION_HEADING)]
pub(crate) struct ClientArgs {
    /// AllocSvr addresses; one reachable AllocSvr is enough.
    #[arg(long, env = "SEQSVR_SERVER", default_value_t = format!("127.0.0.1:{ALLOC_PORT}"), value_name = "ADDR[,ADDR]", value_parser = parse_server_list)]
    pub(crate) server: String,
    /// Time after which the command stops retrying.
    #[arg(long, env = "SEQSVR_TIMEOUT", default_value = "20s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

impl ClientArgs {
    /// Returns the addresses.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        split_addresses(&self.server).collect()
    }
}

#[derive(Args)]
pub(crate) struct StatusArgs {
    /// Print JSON, with all counters.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct MoveArgs {
    /// Slot to move; `seqsvr route` prints the slot of a uid or key.
    pub(crate) slot: u32,
    /// Name of the new owner, an AllocSvr.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct DrainArgs {
    /// Name of the AllocSvr.
    pub(crate) name: String,
    /// Let the AllocSvr own slots again.
    #[arg(long)]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// History file, as written by `seqsvr bench --history`.
    pub(crate) file: PathBuf,
}

const COMPLETION_HELP: &str = r#"Run this in a shell, or put it in its start file (~/.bashrc; ~/.zshrc, after compinit):
  bash: eval "$(seqsvr completion bash)"
  zsh:  eval "$(seqsvr completion zsh)"
  fish: seqsvr completion fish | source"#;

#[derive(Args)]
pub(crate) struct CompletionArgs {
    /// Shell to print the script for.
    pub(crate) shell: Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_passes_the_checks_of_clap() {
        CommandLine::command().debug_assert();
    }

    /// Returns the command itself and all below it, with their full names.
    fn commands_below(command: &clap::Command, parent: &str) -> Vec<(String, clap::Command)> {
        let name = format!("{parent}{}", command.get_name());
        // `help` is clap's own.
        let subcommands = command
            .get_subcommands()
            .filter(|sub| sub.get_name() != "help");
        let below = subcommands.flat_map(|sub| commands_below(sub, &format!("{name} ")));
        let below: Vec<_> = below.collect();
        std::iter::once((name, command.clone()))
            .chain(below)
            .collect()
    }

    fn all_commands() -> Vec<(String, clap::Command)> {
        let mut root = CommandLine::command();
        root.build();
        commands_below(&root, "")
    }

    /// Returns the headings of a help, and the flags below each, in their order.
    fn help_sections(help: &str) -> Vec<(String, Vec<String>)> {
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
    fn help_shows_flags_of_the_command_first_and_global_flags_last() {
        let commands = all_commands();
        assert!(commands.len() > 25, "{}", commands.len());
        for (name, command) in commands {
            // Without the examples after it.
            let mut command = command.after_help("");
            let help = command.render_long_help().to_string();
            let sections = help_sections(&help);
            let (heading, global_flags) = sections.last().unwrap();
            assert_eq!(heading, GLOBAL_HEADING, "{name}: {help}");
            assert_eq!(
                global_flags,
                &["log", "log-format", "config"],
                "{name}: {help}"
            );
            let has_heading = |heading| sections.iter().any(|(found, _)| found == heading);
            assert!(
                has_heading("Options") || !has_heading(CONNECTION_HEADING),
                "{name}: {help}"
            );
            for arg in command.get_arguments() {
                assert_eq!(
                    arg.is_global_set(),
                    arg.get_help_heading() == Some(GLOBAL_HEADING),
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
    fn help_headings_group_flags_by_topic() {
        let commands = all_commands();
        let find_sections = |wanted: &str| {
            let command = commands.iter().find(|(name, _)| name == wanted);
            let help = command.unwrap().1.clone().render_long_help().to_string();
            help_sections(&help)
        };
        let headings =
            |name| -> Vec<String> { find_sections(name).into_iter().map(|(h, _)| h).collect() };
        assert_eq!(
            headings("seqsvr next"),
            ["Arguments", "Options", CONNECTION_HEADING, GLOBAL_HEADING]
        );
        assert_eq!(headings("seqsvr dev"), ["Options", "Ports", GLOBAL_HEADING]);
        assert_eq!(
            headings("seqsvr store"),
            ["Options", LIMITS_HEADING, "HTTP options", GLOBAL_HEADING]
        );
        assert_eq!(
            headings("seqsvr alloc"),
            [
                "Options",
                LIMITS_HEADING,
                "Redis options",
                "HTTP options",
                GLOBAL_HEADING
            ]
        );
        let flags: Vec<String> = find_sections("seqsvr next").swap_remove(1).1;
        assert_eq!(flags, ["count", "floor", "strict", "namespace", "help"]);
    }

    #[test]
    fn help_first_line_is_short_and_imperative() {
        for (name, command) in all_commands() {
            let about = command.get_about().unwrap().to_string();
            let verb = about.split(' ').next().unwrap();
            let is_root = name == "seqsvr";
            assert!(
                is_root || !verb.ends_with('s'),
                "{name}: {about:?} is not imperative"
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
