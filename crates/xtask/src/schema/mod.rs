//! `cargo xtask schema`: the OpenAPI document against a `dev` server, by schemathesis.
//!
//! Schemathesis makes requests that fit the document, and requests that do not. The first must not
//! get 400, the second must not be served, and every response must be one that the document names
//! (`hooks.py` adds what 422 may say). It runs in an environment of its own under `target/`.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use seqsvr_test_support::process::{free_ports, release_binary};
use tempfile::TempDir;

use crate::venv::{self, Missing};

/// Packages of the environment, all with their versions.
const REQUIREMENTS: &str = include_str!("requirements.txt");
/// Name of the environment: the version of what it is made for.
const ENVIRONMENT: &str = "schemathesis-4.32.5";
/// How long the server may take until it accepts connections.
const STARTED_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
/// Phases of the tests, in two processes: schemathesis keeps one core busy at most.
const PHASES: [&str; 2] = ["examples,coverage", "fuzzing"];

/// What is tested, and how.
#[derive(Debug)]
pub struct Options {
    /// Binary to test; None: build the release binary.
    pub binary: Option<PathBuf>,
    /// Requests made for each operation, in each phase.
    pub examples: u32,
    /// Seed of the requests.
    pub seed: u64,
    /// Maximum time of schemathesis. A run that takes longer fails.
    pub within: Duration,
}

/// Tests the document. False if something was found.
///
/// # Errors
/// The environment cannot be made, although the package index answers; the server does not start.
pub fn run(options: &Options) -> Result<bool, String> {
    let requirements: Vec<&str> = REQUIREMENTS.lines().collect();
    let environment = match venv::environment(ENVIRONMENT, &requirements) {
        Ok(environment) => environment,
        Err(Missing::Unanswered(why)) => {
            println!("skipped: schema: {why}");
            return Ok(true);
        }
        Err(Missing::Wrong(why)) => return Err(why),
    };
    let server = Server::start(
        options
            .binary
            .as_deref()
            .unwrap_or_else(|| release_binary()),
    )?;
    let this = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema");
    let began = Instant::now();
    let mut runs = Vec::new();
    for phases in PHASES {
        let report = server.dir.path().join(phases);
        let file = std::fs::File::create(&report).map_err(|e| e.to_string())?;
        let run = Command::new(environment.join("bin/st"))
            .arg("--config-file")
            .arg(this.join("schemathesis.toml"))
            .arg("run")
            .arg(format!("http://{}/v1/openapi.json", server.address))
            .args(["--phases", phases])
            .args(["--max-examples", &options.examples.to_string()])
            .args(["--seed", &options.seed.to_string()])
            .env("SCHEMATHESIS_HOOKS", "hooks")
            .env("PYTHONPATH", &this)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(server.dir.path())
            .stdin(Stdio::null())
            .stdout(file)
            .spawn()
            .map_err(|e| format!("{}/bin/st: {e}", environment.display()))?;
        runs.push((phases, report, Running(run)));
    }
    let mut passed = true;
    for (phases, report, run) in &mut runs {
        let status = run.wait_until(began + options.within)?;
        let text = std::fs::read_to_string(report).map_err(|e| e.to_string())?;
        println!("{text}");
        match status {
            Some(status) => {
                println!("schema: {phases}: {status} after {:.1?}", began.elapsed());
                passed &= status.success();
            }
            None => {
                println!("schema: {phases}: no result within {:?}", options.within);
                passed = false;
            }
        }
    }
    Ok(passed)
}

/// A process that ends with this value.
struct Running(Child);

impl Running {
    /// Waits until it ends; None if it has not ended at this time.
    fn wait_until(&mut self, deadline: Instant) -> Result<Option<ExitStatus>, String> {
        loop {
            let status = self.0.try_wait().map_err(|e| e.to_string())?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Each of these fails only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The stage of `.ci/run`: a test, because a build of the command would compile its dependencies
/// once more.
#[cfg(test)]
#[test]
#[ignore = "fetches packages from the network; `.ci/run` runs it as a stage of its own"]
fn the_server_answers_as_its_document_says() {
    let options = Options {
        binary: None,
        examples: 100,
        seed: 1,
        within: Duration::from_secs(60),
    };
    assert_eq!(run(&options), Ok(true));
}

/// A `dev` server that ends with this value.
struct Server {
    child: Running,
    /// Of its HTTP door.
    address: SocketAddr,
    /// Its data, and what schemathesis writes.
    dir: TempDir,
}

impl Server {
    fn start(binary: &Path) -> Result<Server, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let ports = free_ports(3);
        let log = std::fs::File::create(dir.path().join("log")).map_err(|e| e.to_string())?;
        let child = Command::new(binary)
            .args([
                "dev",
                "--log",
                "warn",
                "--redis-port",
                "0",
                "--store-http-port",
                "0",
            ])
            .args(["--port", &ports.to_string()])
            .args(["--store-port", &(ports + 1).to_string()])
            .args(["--http-port", &(ports + 2).to_string()])
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| format!("{}: {e}", binary.display()))?;
        let address = SocketAddr::from(([127, 0, 0, 1], ports + 2));
        let mut server = Server {
            child: Running(child),
            address,
            dir,
        };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = server.child.0.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || began.elapsed() > STARTED_WITHIN {
                let log = std::fs::read_to_string(server.dir.path().join("log"));
                return Err(format!(
                    "`seqsvr dev` does not serve HTTP: {}",
                    log.unwrap_or_default()
                ));
            }
            std::thread::sleep(POLL);
        }
        Ok(server)
    }
}
