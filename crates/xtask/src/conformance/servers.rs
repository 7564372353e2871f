//! The two servers of a run: a Valkey without persistence, and a `dev` server.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use seqsvr_test_support::process::free_ports;
use tempfile::TempDir;

use crate::child_guard::ChildGuard;

/// Time until Valkey must accept connections. Above it, the command fails.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two checks of Valkey.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A Valkey server. A drop kills it.
pub(super) struct ValkeyServer {
    process: ChildGuard,
    pub(super) address: SocketAddr,
    /// Its log.
    dir: TempDir,
}

impl ValkeyServer {
    /// Starts a server with one database, as seqsvr has one.
    ///
    /// # Errors
    /// The server does not start, or accepts no connection within [`START_TIMEOUT`].
    pub(super) fn start(binary: &Path) -> Result<ValkeyServer, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let log = File::create(dir.path().join("log")).map_err(|e| e.to_string())?;
        let port = free_ports(1);
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--databases", "1", "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(log)
            .spawn()
            .map_err(|e| format!("{}: {e}", binary.display()))?;
        let mut server = ValkeyServer {
            process: ChildGuard(child),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            dir,
        };
        let started = Instant::now();
        while TcpStream::connect(server.address).is_err() {
            let ended = server.process.0.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || started.elapsed() > START_TIMEOUT {
                let log = std::fs::read_to_string(server.dir.path().join("log"));
                return Err(format!(
                    "Valkey does not serve: {}",
                    log.unwrap_or_default()
                ));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(server)
    }
}
