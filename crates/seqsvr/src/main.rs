//! The seqsvr binary: servers (`dev`, `store`, `alloc`), `init`, and the commands of users and
//! operators.
//!
//! Parts: the command line ([`cli`]), the configuration file ([`config_file`]), the commands
//! ([`commands`]), parts of a server process ([`server`]), and the log, stdout and exit codes
//! ([`output`]).
//! Results go to stdout; the log and progress messages go to stderr.
//! This crate has no rule of the protocol: it only starts and calls the crates below.

mod cli;
mod commands;
mod config_file;
mod output;
mod part_file;
mod secret_file;
mod server;

use std::error::Error as _;
use std::io::{self, Write as _};
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::process;

use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};
use rustix::fs::Mode;
use tracing_subscriber::EnvFilter;

use crate::cli::{CliCommand, CommandLine};
use crate::output::log::LogFormat;
use crate::output::{exit_code, log, stdout};
use crate::server::runtime::EVENT_INTERVAL;

fn main() {
    // Files and directories that any command makes are closed to other users.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let cli = parse_args();
    log::set_format(cli.log_format);
    let is_server = matches!(
        cli.command,
        CliCommand::Dev(_) | CliCommand::Store(_) | CliCommand::Alloc(_)
    );
    let _output = is_server.then(|| {
        log::start_server_streams().unwrap_or_else(|error| {
            let text = format!("cannot start the threads of the log: {error}; check `ulimit -u`");
            log::exit_with_error(text, exit_code::FAILED_CODE)
        })
    });
    let default_filter = match is_server {
        true => "info,openraft=error,chunked_wal=warn,raft_log=warn,sled=warn",
        false => "warn",
    };
    let filter = cli.log.as_deref().unwrap_or(default_filter);
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|error| {
        let text = format!(
            "--log {filter:?}: {error}; use for example `info` or `warn,seqsvr_alloc=debug`"
        );
        log::exit_with_error(text, exit_code::BAD_INPUT_CODE)
    });
    log::start_logging(filter);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if is_server {
        runtime.event_interval(EVENT_INTERVAL);
    }
    let runtime = runtime.enable_all().build().unwrap_or_else(|error| {
        let text = format!("cannot start the runtime: {error}; check `ulimit -u` and `ulimit -n`");
        log::exit_with_error(text, exit_code::FAILED_CODE)
    });
    let result = runtime.block_on(commands::run(cli));
    // Not awaited: a thread may hang in a broken disk.
    runtime.shutdown_background();
    if let Err(error) = result
        && !stdout::is_closed_stdout(&error)
    {
        exit_code::report_and_exit(&error);
    }
}

/// Parses the command line; the configuration file gives the defaults. Ends the process if either
/// is wrong.
fn parse_args() -> CommandLine {
    let args: Vec<_> = std::env::args_os().collect();
    let format = config_file::peek_flag(&args, "--log-format", "SEQSVR_LOG_FORMAT");
    let format = format.and_then(|f| LogFormat::from_str(f.to_str()?, false).ok());
    log::set_format(format.unwrap_or(LogFormat::Text));
    let mut command = CommandLine::command();
    let config_path = config_file::peek_flag(&args, "--config", "SEQSVR_CONFIG").map(PathBuf::from);
    if let Some(path) = &config_path {
        command = match config_file::apply_file(command, path) {
            Ok(command) => command,
            // `config` reads the file itself and `completion` needs none: both run without it.
            Err(error) => match CommandLine::try_parse_from(&args) {
                Ok(cli)
                    if matches!(
                        cli.command,
                        CliCommand::Config(_) | CliCommand::Completion(_)
                    ) =>
                {
                    return cli;
                }
                _ => exit_code::report_and_exit(&error),
            },
        };
    }
    let parsed = command.try_get_matches_from_mut(args);
    let matches = parsed.unwrap_or_else(|error| exit_with_usage(&error, config_path.as_deref()));
    CommandLine::from_arg_matches(&matches)
        .unwrap_or_else(|error| exit_with_usage(&error, config_path.as_deref()))
}

/// Prints the message of clap, and ends the process.
fn exit_with_usage(error: &clap::Error, config_path: Option<&Path>) -> ! {
    if !error.use_stderr() {
        // Help, or the version.
        error.exit();
    }
    let note =
        config_path.map(|path| format!("note: values may also come from {}", path.display()));
    if log::is_json() {
        let text = format!("{error}\n{}", note.unwrap_or_default());
        let text = text.trim_start_matches("error: ").trim_end();
        log::exit_with_error(text, error.exit_code());
    }
    let is_no_number = error
        .source()
        .is_some_and(|cause| cause.is::<ParseIntError>());
    match is_no_number {
        // std speaks of digits and types.
        true => {
            let text = error.to_string();
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            let text = text.replace(&cause, "it is no whole number within the bounds");
            drop(write!(io::stderr(), "{text}"));
        }
        // Nothing more can be done if stderr is closed.
        false => drop(error.print()),
    }
    if let Some(note) = note {
        eprintln!("{note}");
    }
    process::exit(error.exit_code())
}
