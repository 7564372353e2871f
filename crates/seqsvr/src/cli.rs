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

/// The next number of every user: unique, rising, never lost.
///
/// Start with `seqsvr dev`, then `seqsvr next 42` in another shell.
#[derive(Parser)]
#[command(name = "seqsvr", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to log to stderr, such as `info` or `warn,seqsvr_alloc=debug`.
    #[arg(long, global = true, env = "SEQSVR_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// What the log looks like; as JSON, what servers say of themselves on stdout is a line of the log too.
    #[arg(
        long,
        global = true,
        env = "SEQSVR_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub(crate) log_format: Format,
    /// TOML file whose keys are flags, in tables `dev`, `store`, `alloc` and `client`.
    #[arg(long, global = true, env = "SEQSVR_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Everything in one process: real disk, real Raft, real network, for trying and developing.
    Dev(Dev),
    /// Runs a StoreSvr; it waits for `seqsvr init` if it belongs to no cluster yet.
    Store(Store),
    /// Makes the cluster, once, from StoreSvrs that are running.
    Init(Init),
    /// Runs an AllocSvr.
    Alloc(Alloc),
    /// Takes the next number of a uid or key and prints it.
    Next(Next),
    /// Prints the last number given out, without taking one.
    Current(Current),
    /// Prints where a uid or key lives: section, slot, epoch and owner.
    Route(Route),
    /// Makes every later number of a uid or key greater than N.
    RaiseTo(RaiseTo),
    /// Prints the cluster's state and counters.
    Status(Status),
    /// Creates, alters and lists namespaces.
    #[command(subcommand)]
    Namespace(Namespace),
    /// Lists, adds and removes StoreSvrs, and moves their leadership, while the cluster works.
    #[command(subcommand)]
    Member(Member),
    /// Moves one slot to another AllocSvr, with no number skipped and no call failed.
    Move(Move),
    /// Relieves an AllocSvr of all its slots, so that it can be stopped.
    Drain(Drain),
    /// Writes the state of a running cluster to a file, from which `restore` can make a new one.
    #[command(after_help = BACKUP_HELP)]
    Backup(Backup),
    /// Makes the first StoreSvr of a new cluster from a backup; it does not start it.
    #[command(after_help = RESTORE_HELP)]
    Restore(Restore),
    /// Asks for numbers as fast as it can, or at a given rate; measures, and verifies every one.
    #[command(after_help = BENCH_HELP)]
    Bench(Bench),
    /// Checks a recorded history of calls for duplicates and order, exactly.
    Check(Check),
    /// Says what is right or wrong with a configuration file.
    #[command(subcommand)]
    Config(Config),
    /// Prints the script by which a shell completes seqsvr's commands and flags.
    #[command(after_help = COMPLETION_HELP)]
    Completion(Completion),
}

/// Whom a client command asks.
#[derive(Args)]
pub(crate) struct Server {
    /// AllocSvr addresses; one is enough.
    #[arg(long, env = "SEQSVR_SERVER", default_value_t = format!("127.0.0.1:{ALLOC_PORT}"), value_name = "ADDR[,ADDR]", value_parser = servers)]
    pub(crate) server: String,
    /// How long to keep trying.
    #[arg(long, env = "SEQSVR_TIMEOUT", default_value = "20s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

impl Server {
    /// The addresses, one by one.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        addresses(&self.server).collect()
    }
}

#[derive(Args)]
pub(crate) struct Status {
    /// As JSON, with all counters.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Move {
    /// The slot; `seqsvr route` says which one a uid or key is in.
    pub(crate) slot: u32,
    /// Name of the AllocSvr that is to own it.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Drain {
    /// Name of the AllocSvr.
    pub(crate) name: String,
    /// Let it have slots again.
    #[arg(long)]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct List {
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Check {
    /// History file, as recorded by a load test.
    pub(crate) file: PathBuf,
}

const COMPLETION_HELP: &str = r#"For one shell, or in its start file (~/.bashrc; ~/.zshrc, behind compinit):
  bash: eval "$(seqsvr completion bash)"
  zsh:  eval "$(seqsvr completion zsh)"
  fish: seqsvr completion fish | source"#;

#[derive(Args)]
pub(crate) struct Completion {
    /// The shell.
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
}
