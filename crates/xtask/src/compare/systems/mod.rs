//! The servers of others, started as processes with data directories of their own.
//!
//! Invariant: nothing started here outlives its [`Server`].

pub(super) mod baseline;
pub(super) mod etcd;
pub(super) mod postgres;
pub(super) mod redis;
pub(super) mod tsoracle;
pub(super) mod wrk;

use std::env;
use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::Failure;

/// How long a server may take until it accepts connections.
const STARTED_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take to end when asked to.
const ENDED_WITHIN: Duration = Duration::from_secs(5);
/// How often either is looked at.
const POLL: Duration = Duration::from_millis(50);
/// Where Debian keeps the programs of PostgreSQL.
const APART: &str = "/usr/lib/postgresql";

/// A server process and its directory.
pub(super) struct Server {
    child: Child,
    /// `host:port`
    pub(super) address: String,
    pub(super) dir: TempDir,
}

impl Server {
    /// Starts it and waits until it accepts connections.
    fn start(mut command: Command, address: String, dir: TempDir) -> Result<Server, Failure> {
        let log = dir.path().join("log");
        let file = File::create(&log).map_err(Failure::wrong)?;
        let second = file.try_clone().map_err(Failure::wrong)?;
        command.stdin(Stdio::null()).stdout(file).stderr(second);
        let child = command.spawn().map_err(Failure::wrong)?;
        let mut server = Server {
            child,
            address,
            dir,
        };
        let began = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            let ended = server.child.try_wait().map_err(Failure::wrong)?;
            if ended.is_some() || began.elapsed() > STARTED_WITHIN {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                let last = said.lines().last().unwrap_or("nothing");
                let name = command.get_program().to_string_lossy().into_owned();
                return Err(Failure::Wrong(format!("{name} does not serve: {last}")));
            }
            std::thread::sleep(POLL);
        }
        Ok(server)
    }

    fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // In order first, as PostgreSQL leaves things in the system otherwise. Each of these fails
        // only if it is gone already.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let began = Instant::now();
        while began.elapsed() < ENDED_WITHIN && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Path of a program, or the words that it is not here.
fn find(name: &str) -> Result<PathBuf, Failure> {
    let path = env::var_os("PATH").unwrap_or_default();
    let apart = std::fs::read_dir(APART).into_iter().flatten();
    let apart = apart.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let mut all = env::split_paths(&path).chain(apart);
    let found = all.find_map(|dir| Some(dir.join(name)).filter(|path| path.is_file()));
    found.ok_or_else(|| Failure::Absent(format!("{name} is not installed")))
}

/// A free address on loopback.
fn address() -> String {
    format!("127.0.0.1:{}", seqsvr_test_support::process::free_ports(1))
}

fn dir() -> Result<TempDir, Failure> {
    tempfile::tempdir().map_err(Failure::wrong)
}

/// Runs a command to its end and gives what it printed.
pub(super) fn output(command: &mut Command) -> Result<String, Failure> {
    let out = command
        .stdin(Stdio::null())
        .output()
        .map_err(Failure::wrong)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !out.status.success() {
        let name = command.get_program().to_string_lossy().into_owned();
        return Err(Failure::Wrong(format!(
            "{name}: {}",
            text(&out.stderr).trim()
        )));
    }
    Ok(text(&out.stdout))
}

/// First line of what a program says of its version; None if it is not here.
pub(super) fn version(name: &str) -> Option<String> {
    let path: PathBuf = match name {
        "valkey-server" => redis::valkey().ok()?,
        _ => find(name).ok()?,
    };
    let said = output(Command::new(&path).arg("--version")).ok()?;
    said.lines().next().map(str::to_owned)
}

/// A directory as an argument.
fn text(path: &Path) -> String {
    path.display().to_string()
}
