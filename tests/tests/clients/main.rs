//! Unmodified clients of other projects, and the examples of `docs/examples`, against the binary:
//! over Redis' protocol and over gRPC.
//!
//! Missing tools are skipped with a message. `SEQSVR_PYTHON` names the Python that has the
//! libraries, `NODE_PATH` the directory of the Node.js packages.

#![expect(
    clippy::expect_used,
    reason = "a helper of tests: clippy allows it only inside test functions"
)]

mod dashboard;
mod examples;
mod redis;
mod redis_rs;

use std::process::Command;

/// Held by each test, so that one cluster runs at a time.
static CLUSTER_LOCK: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Returns whether a command succeeds; false if the program is missing.
fn command_succeeds(program: &str, args: &[&str]) -> bool {
    let command = Command::new(program).args(args).output();
    command.is_ok_and(|out| out.status.success())
}

/// Returns a Python that has all these modules.
fn find_python(modules: &[&str]) -> Option<String> {
    let named = std::env::var("SEQSVR_PYTHON").ok();
    let usual = ["/usr/bin/python3", "python3"].map(str::to_owned);
    let imports = format!("import {}", modules.join(", "));
    let mut all = named.into_iter().chain(usual);
    all.find(|python| command_succeeds(python, &["-c", &imports]))
}

/// Returns whether Node.js finds all these packages.
fn node_resolves(packages: &[&str]) -> bool {
    let each = packages.iter().map(|p| format!("require.resolve('{p}');"));
    command_succeeds("node", &["-e", &each.collect::<String>()])
}
