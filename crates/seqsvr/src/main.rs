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
mod server;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::cli::{CliCommand, CommandLine};
use crate::output::log::LogFormat;
use crate::output::{exit_code, log, stdout};
use crate::server::runtime::EVENT_INTERVAL;

fn main() -> ExitCode {
    let cli = match parse_args() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    log::set_format(cli.log_format);
    let is_server = matches!(
        cli.command,
        CliCommand::Dev(_) | CliCommand::Store(_) | CliCommand::Alloc(_)
    );
    let default_filter = match is_server {
        true => "info,openraft=error,chunked_wal=warn,raft_log=warn,sled=warn",
        false => "warn",
    };
    let filter = EnvFilter::try_new(cli.log.as_deref().unwrap_or(default_filter));
    let filter = match filter {
        Ok(filter) => filter,
        Err(error) => {
            log::print_last_line(format_args!(
                "--log {:?}: {error}; use for example `info` or `warn,seqsvr_alloc=debug`",
                cli.log.unwrap_or_default()
            ));
            return ExitCode::from(exit_code::BAD_INPUT_CODE);
        }
    };
    log::start_logging(filter);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if is_server {
        runtime.event_interval(EVENT_INTERVAL);
    }
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            log::print_last_line(format_args!("cannot start: {error}"));
            return exit_code::FAILED;
        }
    };
    let result = runtime.block_on(commands::run(cli));
    // Not awaited: a thread may hang in a broken disk.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if stdout::is_closed_stdout(&error) => ExitCode::SUCCESS,
        Err(error) => exit_code::report_error(&error),
    }
}

/// Parses the command line; the configuration file gives the defaults. Prints what is wrong with
/// either.
fn parse_args() -> Result<CommandLine, ExitCode> {
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
                    return Ok(cli);
                }
                _ => return Err(exit_code::report_error(&error.into())),
            },
        };
    }
    let parsed = command.try_get_matches_from(args);
    parsed
        .and_then(|matches| CommandLine::from_arg_matches(&matches))
        .map_err(|error| {
            let code = u8::try_from(error.exit_code()).map_or(exit_code::FAILED, ExitCode::from);
            if !error.use_stderr() {
                // Help, or the version. Nothing more can be done if stdout is closed.
                let _ = error.print();
                return code;
            }
            let note = config_path
                .map(|path| format!("note: values may also come from {}", path.display()));
            if log::is_json() {
                let text = format!("{error}\n{}", note.unwrap_or_default());
                log::print_last_line(text.trim_start_matches("error: ").trim_end());
            } else {
                let _ = error.print();
                if let Some(note) = note {
                    eprintln!("{note}");
                }
            }
            code
        })
}
