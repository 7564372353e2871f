//! The commands about ids, as a user runs them. They need no server.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod decode;
mod stats;

use std::io::Write;
use std::process::{Command, Stdio};

use seqsvr_test_support::process::release_binary;

/// Returns a command of the binary with a clean environment.
fn clean_command(args: &[&str]) -> Command {
    let mut command = Command::new(release_binary());
    command.args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SEQSVR_")) {
        command.env_remove(name);
    }
    command
}

/// Runs a command with this text on stdin. Returns its exit code, stdout and stderr.
fn run_with_input(args: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut command = clean_command(args);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The command may end at the first bad line.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}
