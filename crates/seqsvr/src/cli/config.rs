//! The command line of `seqsvr config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum Config {
    /// Reads the file as the commands would, and names all that is wrong: tables, keys, values.
    ///
    /// Exit code 0: all is right, and what is set is printed; 2: something is wrong. No name server is asked.
    Check(CheckConfig),
}

#[derive(Args)]
pub(crate) struct CheckConfig {
    /// The file; without it, the one of --config.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
