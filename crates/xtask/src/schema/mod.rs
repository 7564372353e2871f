//! `cargo xtask schema`: tests the OpenAPI document against a `dev` server, with schemathesis.
//!
//! Schemathesis makes requests that fit the document, and requests that do not. A request that fits
//! must not get 400, a request that does not fit must not be served, and every response must be one
//! that the document names (`hooks.py` restricts the messages of 422). Schemathesis runs in an
//! environment of its own under `target/`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use seqsvr_test_support::process::release_binary;

use crate::child_guard::ChildGuard;
use crate::dev_server::DevServer;
use crate::venv::{self, VenvError};

/// Packages of the environment, all with their versions.
const REQUIREMENTS: &str = include_str!("requirements.txt");
/// Phases of the tests, in two processes: one process of schemathesis uses one core at most.
const PHASES: [&str; 2] = ["examples,coverage", "fuzzing"];

/// Options of the tests.
#[derive(Debug)]
pub struct SchemaOptions {
    /// Binary to test; None: build the release binary.
    pub binary: Option<PathBuf>,
    /// Number of requests for each operation, in each phase.
    pub examples: u32,
    /// Seed of the requests.
    pub seed: u64,
    /// Maximum time of schemathesis. A run that takes longer fails.
    pub timeout: Duration,
}

/// Tests the document. Returns false if a test failed.
///
/// # Errors
/// The environment cannot be made although the package index answers, or the server does not start.
pub fn test_document(options: &SchemaOptions) -> Result<bool, String> {
    let requirements: Vec<&str> = REQUIREMENTS.lines().collect();
    let environment = match venv::make_environment("schema", &requirements) {
        Ok(environment) => environment,
        Err(VenvError::Unavailable(why)) => {
            println!("skipped: schema: {why}");
            return Ok(true);
        }
        Err(VenvError::Failed(why)) => return Err(why),
    };
    let binary = options.binary.as_deref();
    let server = DevServer::start(binary.unwrap_or_else(|| release_binary()))?;
    let started = Instant::now();
    let mut runs = Vec::new();
    for phases in PHASES {
        let report = server.dir.path().join(phases);
        let run = start_schemathesis(&environment, &server, phases, &report, options)?;
        runs.push((phases, report, run));
    }
    let mut passed = true;
    for (phases, report, run) in &mut runs {
        let status = run.wait_until(started + options.timeout)?;
        let text = std::fs::read_to_string(report).map_err(|e| e.to_string())?;
        println!("{text}");
        match status {
            Some(status) => {
                println!("schema: {phases}: {status} after {:.1?}", started.elapsed());
                passed &= status.success();
            }
            None => {
                println!("schema: {phases}: no result within {:?}", options.timeout);
                passed = false;
            }
        }
    }
    Ok(passed)
}

/// Starts schemathesis with these phases, which writes to the file `report`.
fn start_schemathesis(
    environment: &Path,
    server: &DevServer,
    phases: &str,
    report: &Path,
    options: &SchemaOptions,
) -> Result<ChildGuard, String> {
    let config_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema");
    let report = File::create(report).map_err(|e| e.to_string())?;
    let program = environment.join("bin/st");
    let child = Command::new(&program)
        .arg("--config-file")
        .arg(config_dir.join("schemathesis.toml"))
        .arg("run")
        .arg(format!("http://{}/v1/openapi.json", server.http_address))
        .args(["--phases", phases])
        .args(["--max-examples", &options.examples.to_string()])
        .args(["--seed", &options.seed.to_string()])
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", &config_dir)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(server.dir.path())
        .stdin(Stdio::null())
        .stdout(report)
        .spawn()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    Ok(ChildGuard(child))
}

/// The stage of `.ci/run`. It is a test, because a build of the command would compile its
/// dependencies once more.
#[cfg(test)]
#[test]
#[ignore = "fetches packages from the network; `.ci/run` runs it as a stage of its own"]
fn server_responses_match_openapi_document() {
    let options = SchemaOptions {
        binary: None,
        examples: 100,
        seed: 1,
        timeout: Duration::from_secs(60),
    };
    assert_eq!(test_document(&options), Ok(true));
}
