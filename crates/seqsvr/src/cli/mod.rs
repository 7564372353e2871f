//! The command line. Flag > environment (`SEQSVR_*`) > configuration file > default.

mod backup;
mod bench;
mod common;
mod config;
mod http;
mod ids;
mod member;
mod namespace;
mod security;
mod sequence;
mod servers;
mod slot;
mod value_parsers;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use backup::{BACKUP_HELP, RESTORE_HELP};
pub(crate) use backup::{BackupArgs, RestoreArgs};
use bench::BENCH_HELP;
pub(crate) use bench::BenchArgs;
use common::GLOBAL_HEADING;
pub(crate) use common::{ClientArgs, ListArgs, read_transport};
pub(crate) use config::{CheckConfigArgs, ConfigCommand};
pub(crate) use http::StoreHttpArgs;
pub(crate) use ids::{
    AlterFamilyArgs, ClockArgs, ClockChange, CreateFamilyArgs, DecodeArgs, IdCommand, IdStatsArgs,
    NewIdArgs, NextIdsArgs, OpaqueArgs, PolicyFlag, RaiseFamilyArgs, RevokeWorkerArgs, WorkersArgs,
};
pub(crate) use member::MemberCommand;
pub(crate) use namespace::{CreateNamespaceArgs, NamespaceCommand};
use security::{AUTH_HELP, CERT_HELP};
pub(crate) use security::{
    AddAuthArgs, AnyRight, AuthCommand, CanAuthArgs, CertCommand, CheckAuthArgs, InitCertArgs,
    ListAuthArgs, RemoveAuthArgs, ShowCertArgs, UserCertArgs,
};
pub(crate) use sequence::{CurrentArgs, NextArgs, RaiseToArgs, RouteArgs};
pub(crate) use servers::{AllocArgs, DevArgs, EndpointArgs, InitArgs, LEASE_MS_DEFAULT, StoreArgs};
pub(crate) use slot::{DrainArgs, MoveSlotArgs, SlotCommand};
pub(crate) use value_parsers::{parse_store_member, resolve_address};

use crate::output::log::LogFormat;

/// A sequence service: unique and rising numbers for every user.
#[derive(Parser)]
#[command(
    name = "seqsvr",
    version,
    max_term_width = 100,
    after_help = "Start with `seqsvr dev`, then `seqsvr next 42` in another shell."
)]
pub(crate) struct CommandLine {
    /// Filter of the log on stderr, such as `info` or `warn,seqsvr_alloc=debug`.
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL_HEADING,
        env = "SEQSVR_LOG",
        value_name = "FILTER"
    )]
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
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL_HEADING,
        env = "SEQSVR_CONFIG",
        value_name = "FILE"
    )]
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
    Alloc(Box<AllocArgs>),
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
    /// Move slots to other AllocSvrs.
    ///
    /// The cluster serves numbers during all moves.
    #[command(subcommand)]
    Slot(SlotCommand),
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
    /// Make and count ids that carry the time, and manage the families of a cluster.
    #[command(subcommand)]
    Id(IdCommand),
    /// Hide the order and volume of numbers by a key. No server is needed.
    Hide(OpaqueArgs),
    /// Show the numbers that `hide` hid by the same key.
    Show(OpaqueArgs),
    /// Read the time, maker and number out of ids. Only --family needs a server.
    Decode(DecodeArgs),
    /// Make and show certificates. No server is needed.
    #[command(subcommand, after_help = CERT_HELP)]
    Cert(CertCommand),
    /// Manage callers with tokens and their rights. No server is needed.
    #[command(subcommand, after_help = AUTH_HELP)]
    Auth(AuthCommand),
    /// Check a configuration file.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a shell completion script.
    #[command(after_help = COMPLETION_HELP)]
    Completion(CompletionArgs),
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
mod tests;
