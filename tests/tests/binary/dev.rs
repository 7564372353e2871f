//! Harness: a `seqsvr dev` of each test, and client commands against it.
//!
//! Used by the other files of this target.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use seqsvr_test_support::process::{describe_threads, free_ports, release_binary};
use tempfile::TempDir;

/// Maximum time of a start, debug build on a busy machine included.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running `seqsvr dev`, killed when dropped.
pub(crate) struct DevServer {
    child: Child,
    pub(crate) dir: TempDir,
    pub(crate) port: u16,
    pub(crate) store_port: u16,
}

impl DevServer {
    /// Starts one store and one AllocSvr and waits until they are ready.
    pub(crate) fn start() -> DevServer {
        DevServer::start_with(&[])
    }

    /// Starts `seqsvr dev` with more flags and waits until it is ready.
    pub(crate) fn start_with(flags: &[&str]) -> DevServer {
        let dir = tempfile::tempdir().unwrap();
        let (port, store_port) = (free_port(), free_port());
        let out = File::create(dir.path().join("out")).unwrap();
        let child = clean_command(&[
            "dev",
            "--port",
            &port.to_string(),
            "--store-port",
            &store_port.to_string(),
        ])
        .arg("--data-dir")
        .arg(dir.path().join("data"))
        .args(flags)
        .stdout(out.try_clone().unwrap())
        .stderr(out)
        .spawn()
        .unwrap();
        let mut dev = DevServer {
            child,
            dir,
            port,
            store_port,
        };
        let deadline = Instant::now() + START_TIMEOUT;
        while !dev.output().contains("\nready after") {
            assert!(
                Instant::now() < deadline,
                "dev is not ready:\n{}",
                dev.output()
            );
            assert!(
                dev.child.try_wait().unwrap().is_none(),
                "dev ended:\n{}",
                dev.output()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        dev
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Kills the process as a power cut would, and keeps the directory.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn output(&self) -> String {
        let mut text = String::new();
        File::open(self.dir.path().join("out"))
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    /// Runs a client command against it.
    pub(crate) fn run_client(&self, args: &[&str]) -> Output {
        clean_command(args)
            .env("SEQSVR_SERVER", format!("127.0.0.1:{}", self.port))
            .output()
            .unwrap()
    }

    /// Runs a client command that must succeed. Returns its output.
    pub(crate) fn run_client_ok(&self, args: &[&str]) -> String {
        let output = self.run_client(args);
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for DevServer {
    fn drop(&mut self) {
        let threads = std::thread::panicking().then(|| describe_threads(self.pid()));
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(threads) = threads {
            eprintln!("output of dev:\n{}\nits threads:\n{threads}", self.output());
        }
    }
}

/// Returns a command of the binary with a clean environment.
pub(crate) fn clean_command(args: &[&str]) -> Command {
    let mut command = Command::new(release_binary());
    command.args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SEQSVR_")) {
        command.env_remove(name);
    }
    command
}

/// Runs a command that must succeed. Returns its output.
pub(crate) fn run_ok(args: &[&str]) -> String {
    let output = clean_command(args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must reject its input with these words.
pub(crate) fn assert_bad_input(args: &[&str], words: &[&str]) {
    let text = expect_failure(clean_command(args), 2);
    for word in words {
        assert!(text.contains(word), "{args:?} says {text:?}");
    }
}

/// Runs a command that must fail with `code`. Returns the last line of its errors.
pub(crate) fn expect_failure(mut command: Command, code: i32) -> String {
    let output = command.output().unwrap();
    expect_exit_code(&output, code)
}

/// Asserts that a command failed with `code`. Returns the last line of its errors.
pub(crate) fn expect_exit_code(output: &Output, code: i32) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(output.stdout.is_empty(), "a failure prints no result");
    errors
}

pub(crate) fn free_port() -> u16 {
    free_ports(1)
}
