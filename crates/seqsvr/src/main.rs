//! The seqsvr binary: servers (`dev`, `store`, `alloc`), `init`, and the commands of a user or
//! operator.
//!
//! What lives here: the command line ([`cli`]), one file a command ([`commands`]), exit codes
//! ([`exit`]) and the first screen of a server ([`screen`]). Results go to stdout, logs and waiting
//! to stderr. What it may not know: how numbers are made; it only starts and asks the crates below.

mod cli;
mod commands;
mod exit;
mod out;
mod screen;
mod signals;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let default = match cli.command {
        Command::Dev(_) | Command::Store(_) | Command::Alloc(_) => {
            "info,openraft=error,chunked_wal=warn,raft_log=warn,sled=warn"
        }
        _ => "warn",
    };
    let filter = EnvFilter::try_new(cli.log.as_deref().unwrap_or(default));
    let filter = match filter {
        Ok(filter) => filter,
        Err(error) => {
            eprintln!(
                "error: --log {:?}: {error}; use for example `info` or `warn,seqsvr_alloc=debug`",
                cli.log.unwrap_or_default()
            );
            return ExitCode::from(exit::BAD_INPUT_CODE);
        }
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return exit::FAILED;
        }
    };
    match runtime.block_on(commands::run(cli.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if out::reader_left(&error) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}
