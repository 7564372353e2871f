//! The seqsvr binary: servers (`dev`, `store`, `alloc`), `init`, and the commands of users and
//! operators.
//!
//! Parts: the command line ([`cli`]), the configuration file ([`config`]), one file for each
//! command ([`commands`]), the load generator ([`mod@bench`]), exit codes ([`exit`]), the log and
//! its last line ([`log`]), and the startup banner of a server ([`screen`]).
//! Results go to stdout; the log and progress messages go to stderr.
//! This crate has no rule of the protocol: it only starts and calls the crates below.

mod background;
mod bench;
mod cli;
mod commands;
mod config;
mod door_threads;
mod doors;
mod exit;
mod files;
mod log;
mod out;
mod screen;
mod signals;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command};
use crate::log::Format;

/// Task polls after which a busy thread of a server checks for I/O events. Next to clients that
/// send long batches, the p99 latency of other clients was 5 % lower than with tokio's 61.
const EVENT_INTERVAL: u32 = 5;

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    log::choose(cli.log_format);
    let serves = matches!(
        cli.command,
        Command::Dev(_) | Command::Store(_) | Command::Alloc(_)
    );
    let default = match serves {
        true => "info,openraft=error,chunked_wal=warn,raft_log=warn,sled=warn",
        false => "warn",
    };
    let filter = EnvFilter::try_new(cli.log.as_deref().unwrap_or(default));
    let filter = match filter {
        Ok(filter) => filter,
        Err(error) => {
            log::last(format_args!(
                "--log {:?}: {error}; use for example `info` or `warn,seqsvr_alloc=debug`",
                cli.log.unwrap_or_default()
            ));
            return ExitCode::from(exit::BAD_INPUT_CODE);
        }
    };
    log::begin(filter);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if serves {
        runtime.event_interval(EVENT_INTERVAL);
    }
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            log::last(format_args!("cannot start: {error}"));
            return exit::FAILED;
        }
    };
    let ended = runtime.block_on(commands::run(cli));
    // Not awaited: a thread may hang in a broken disk.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if out::reader_left(&error) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

/// Parses the command line; the configuration file gives the defaults. Prints what is wrong with
/// either.
fn parse() -> Result<Cli, ExitCode> {
    let args: Vec<_> = std::env::args_os().collect();
    let format = config::early(&args, "--log-format", "SEQSVR_LOG_FORMAT");
    let format = format.and_then(|f| Format::from_str(f.to_str()?, false).ok());
    log::choose(format.unwrap_or(Format::Text));
    let mut command = Cli::command();
    let file = config::early(&args, "--config", "SEQSVR_CONFIG").map(PathBuf::from);
    if let Some(path) = &file {
        command = match config::apply(command, path) {
            Ok(command) => command,
            // `config` reads the file itself and `completion` needs none: both run without it.
            Err(error) => match Cli::try_parse_from(&args) {
                Ok(cli) if matches!(cli.command, Command::Config(_) | Command::Completion(_)) => {
                    return Ok(cli);
                }
                _ => return Err(exit::report(&error.into())),
            },
        };
    }
    let parsed = command.try_get_matches_from(args);
    parsed
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| {
            let code = u8::try_from(error.exit_code()).map_or(exit::FAILED, ExitCode::from);
            if !error.use_stderr() {
                // Help, or the version. Nothing more can be done if stdout is closed.
                let _ = error.print();
                return code;
            }
            let note =
                file.map(|path| format!("note: values may also come from {}", path.display()));
            if log::is_json() {
                let text = format!("{error}\n{}", note.unwrap_or_default());
                log::last(text.trim_start_matches("error: ").trim_end());
            } else {
                let _ = error.print();
                if let Some(note) = note {
                    eprintln!("{note}");
                }
            }
            code
        })
}
