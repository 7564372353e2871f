//! The compared systems, each started as a process with a data directory of its own, and the
//! generators of their load.

pub(super) mod baseline;
pub(super) mod etcd;
pub(super) mod postgres;
pub(super) mod program;
pub(crate) mod redis;
pub(crate) mod system_process;
pub(super) mod tsoracle;
pub(super) mod wrk;

use std::process::Command;

/// Returns the first line of a program's version text; None if the program is not installed.
pub(super) fn read_version(name: &str) -> Option<String> {
    let path = match name {
        "valkey-server" => redis::install_valkey().ok()?,
        _ => program::find_program(name).ok()?,
    };
    let output = program::run_to_end(Command::new(&path).arg("--version")).ok()?;
    output.lines().next().map(str::to_owned)
}
