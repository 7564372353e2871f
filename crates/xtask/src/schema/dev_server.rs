//! A `dev` server for the tests of the OpenAPI document.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use seqsvr_test_support::process::free_ports;
use tempfile::TempDir;

use crate::child_guard::ChildGuard;

/// Time until the server must accept connections. Above it, the command fails.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two checks of the server.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A `dev` server. A drop kills it.
pub(super) struct DevServer {
    process: ChildGuard,
    /// Address of its HTTP endpoint.
    pub(super) address: SocketAddr,
    /// Its data, and the files of schemathesis.
    pub(super) dir: TempDir,
}

impl DevServer {
    /// Starts a server and waits until it serves HTTP.
    ///
    /// # Errors
    /// The server does not start, ends, or does not serve within [`START_TIMEOUT`].
    pub(super) fn start(binary: &Path) -> Result<DevServer, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let port = free_ports(3);
        let log = File::create(dir.path().join("log")).map_err(|e| e.to_string())?;
        let child = Command::new(binary)
            .args(["dev", "--log", "warn", "--redis-port", "0"])
            .args(["--store-http-port", "0"])
            .args(["--port", &port.to_string()])
            .args(["--store-port", &(port + 1).to_string()])
            .args(["--http-port", &(port + 2).to_string()])
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| format!("{}: {e}", binary.display()))?;
        let mut server = DevServer {
            process: ChildGuard(child),
            address: SocketAddr::from(([127, 0, 0, 1], port + 2)),
            dir,
        };
        server.wait_until_served()?;
        Ok(server)
    }

    fn wait_until_served(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let ended = self.process.0.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || started.elapsed() > START_TIMEOUT {
                let log = std::fs::read_to_string(self.dir.path().join("log"));
                let log = log.unwrap_or_default();
                return Err(format!("`seqsvr dev` does not serve HTTP: {log}"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}
