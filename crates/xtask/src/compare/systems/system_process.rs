//! A process of a compared system.
//!
//! Invariant: a process that is started here does not outlive its [`SystemProcess`].

use std::fs::File;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::compare::error::CompareError;

/// Time until a system must accept connections. Above it, the case fails.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time until a process must end after SIGTERM. Above it, the process is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two checks of a process.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A process and its directory.
pub(crate) struct SystemProcess {
    child: Child,
    /// `host:port`
    pub(crate) address: String,
    /// Data and log of the process; removed after its end.
    pub(super) dir: TempDir,
}

impl SystemProcess {
    /// Starts a command and waits until it accepts connections at the address.
    ///
    /// # Errors
    /// The command does not start, ends, or accepts no connection within [`START_TIMEOUT`].
    pub(super) fn start(
        mut command: Command,
        address: String,
        dir: TempDir,
    ) -> Result<SystemProcess, CompareError> {
        let log_path = dir.path().join("log");
        let log = File::create(&log_path).map_err(CompareError::failed)?;
        let stderr = log.try_clone().map_err(CompareError::failed)?;
        command.stdin(Stdio::null()).stdout(log).stderr(stderr);
        let child = command.spawn().map_err(CompareError::failed)?;
        let mut process = SystemProcess {
            child,
            address,
            dir,
        };
        let started = Instant::now();
        while TcpStream::connect(&process.address).is_err() {
            let ended = process.child.try_wait().map_err(CompareError::failed)?;
            if ended.is_some() || started.elapsed() > START_TIMEOUT {
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                let last_line = log.lines().last().unwrap_or("the log is empty");
                let name = command.get_program().to_string_lossy().into_owned();
                let text = format!("{name} accepts no connections: {last_line}");
                return Err(CompareError::Failed(text));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(process)
    }
}

impl Drop for SystemProcess {
    fn drop(&mut self) {
        // SIGTERM first: PostgreSQL leaves shared memory behind when it is killed. Each of these
        // calls fails only if the process has ended.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let began = Instant::now();
        while began.elapsed() < STOP_TIMEOUT && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
