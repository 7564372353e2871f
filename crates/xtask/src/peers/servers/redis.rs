//! Redis, and its own generator.

use std::process::Command;
use std::time::Duration;

use super::{Failure, Server, address, dir, find, output, text};

/// Calls of the run that shows how many fit into the time.
const PROBE: u64 = 50_000;
/// Calls that leave 2 % of a million keys untouched.
const TOUCHES: u64 = 4_000_000;

pub(crate) struct Redis(pub(crate) Server);

impl Redis {
    /// Without any persistence, or with an append-only file that is synced before each answer.
    pub(crate) fn start(always: bool) -> Result<Redis, Failure> {
        let redis = find("redis-server")?;
        find("redis-benchmark")?;
        let (address, dir) = (address(), dir()?);
        let mut command = Command::new(redis);
        let port = address.rsplit(':').next().unwrap_or_default();
        command
            .args(["--port", port, "--bind", "127.0.0.1", "--save", ""])
            .args(["--dir", &text(dir.path())])
            .args(["--appendonly", if always { "yes" } else { "no" }])
            .args(["--appendfsync", "always"]);
        Server::start(command, address, dir).map(Redis)
    }
}

/// INCR of a million keys of whoever speaks its protocol at this address; calls a second.
pub(crate) fn incr(
    address: &str,
    clients: u32,
    pipeline: u32,
    time: Duration,
) -> Result<f64, Failure> {
    let rate = bench(address, clients, pipeline, PROBE)?;
    let calls = (rate * time.as_secs_f64()) as u64;
    bench(address, clients, pipeline, calls.max(PROBE))
}

/// Has nearly all of these keys counted once or oftener.
pub(crate) fn touch(address: &str) -> Result<(), Failure> {
    bench(address, 50, 100, TOUCHES).map(drop)
}

fn bench(address: &str, clients: u32, pipeline: u32, calls: u64) -> Result<f64, Failure> {
    let port = address.rsplit(':').next().unwrap_or_default();
    let said = output(
        Command::new(find("redis-benchmark")?)
            .args(["-h", "127.0.0.1", "-p", port, "--csv"])
            .args(["-c", &clients.to_string(), "-P", &pipeline.to_string()])
            .args(["-n", &calls.to_string(), "-r", "1000000"])
            .args(["INCR", "user:__rand_int__"]),
    )?;
    // "test","rps",… and below it the figures.
    let figures = said.lines().find(|line| line.contains("INCR"));
    let rate = figures.and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok());
    rate.ok_or_else(|| Failure::Wrong(format!("redis-benchmark said: {said}")))
}
