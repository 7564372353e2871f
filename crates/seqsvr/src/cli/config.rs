//! The command line of `seqsvr config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check tables, keys and values of the file, as the commands read it.
    ///
    /// Exit code 0: the file is valid, and its settings are printed. Exit code 2: it is not, and
    /// every mistake is printed. Names of hosts are not resolved.
    Check(CheckConfigArgs),
}

#[derive(Args)]
pub(crate) struct CheckConfigArgs {
    /// File to check. Default: the file of --config.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
