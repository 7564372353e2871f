//! A `dev` server with a fresh data directory, for checks of its endpoints.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use seqsvr_test_support::process::free_ports;
use tempfile::TempDir;

use crate::child_guard::ChildGuard;

/// Time until the server must accept connections. Above it, the command fails.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// A lease that no stall of the machine outlasts: after its end, keys skip numbers.
const LEASE_MS: &str = "30000";
/// Time between two checks of the server.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A `dev` server. A drop kills it.
pub(crate) struct DevServer {
    process: ChildGuard,
    /// Address of its AllocSvr.
    pub(crate) grpc_address: SocketAddr,
    /// Address of its HTTP endpoint.
    pub(crate) http_address: SocketAddr,
    /// Address of its Redis endpoint.
    pub(crate) redis_address: SocketAddr,
    /// Its data, and the files of the caller.
    pub(crate) dir: TempDir,
}

impl DevServer {
    /// Starts a server and waits until it serves HTTP.
    ///
    /// # Errors
    /// The server does not start, ends, or does not serve within [`START_TIMEOUT`].
    pub(crate) fn start(binary: &Path) -> Result<DevServer, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let port = free_ports(4);
        let log = File::create(dir.path().join("log")).map_err(|e| e.to_string())?;
        let child = Command::new(binary)
            .args(["dev", "--log", "warn", "--store-http-port", "0"])
            .args(["--lease-ms", LEASE_MS])
            .args(["--port", &port.to_string()])
            .args(["--store-port", &(port + 1).to_string()])
            .args(["--http-port", &(port + 2).to_string()])
            .args(["--redis-port", &(port + 3).to_string()])
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| format!("{}: {e}", binary.display()))?;
        let mut server = DevServer {
            process: ChildGuard(child),
            grpc_address: SocketAddr::from(([127, 0, 0, 1], port)),
            http_address: SocketAddr::from(([127, 0, 0, 1], port + 2)),
            redis_address: SocketAddr::from(([127, 0, 0, 1], port + 3)),
            dir,
        };
        server.wait_until_served()?;
        Ok(server)
    }

    /// Waits until a call for a number is served.
    fn wait_until_served(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while !self.serves_numbers() {
            let ended = self.process.0.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || started.elapsed() > START_TIMEOUT {
                let log = std::fs::read_to_string(self.dir.path().join("log"));
                let log = log.unwrap_or_default();
                return Err(format!("`seqsvr dev` serves no numbers: {log}"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Returns whether the server answers INCR with a number, and listens for HTTP.
    fn serves_numbers(&self) -> bool {
        let first_byte = || {
            let mut stream = TcpStream::connect(self.redis_address)?;
            stream.set_read_timeout(Some(START_TIMEOUT))?;
            stream.write_all(b"INCR seqsvr-is-ready\r\n")?;
            let mut byte = [0];
            stream.read_exact(&mut byte).map(|()| byte[0])
        };
        let first_byte: std::io::Result<u8> = first_byte();
        matches!(first_byte, Ok(b':')) && TcpStream::connect(self.http_address).is_ok()
    }
}
