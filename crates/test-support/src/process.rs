//! The release binary, run as processes that can be killed and restarted.
//!
//! Invariant: no process started here outlives its [`ServerProcess`], and when a test fails the end
//! of every process's log is printed.

use std::fs::OpenOptions;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

use crate::build_variant;
use crate::cargo::cargo_command;
use crate::wait::wait_until;

/// Lines of a log that are printed when a test fails.
const LOG_TAIL_LINES: usize = 25;

static SELECTED_BINARY: RwLock<Option<&'static Path>> = RwLock::new(None);

/// Returns the path of the release binary: the selected one, or that of this source tree, built
/// once in this process so that it is never stale.
pub fn release_binary() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let selected = *SELECTED_BINARY
        .read()
        .unwrap_or_else(PoisonError::into_inner);
    selected.unwrap_or_else(|| BUILT.get_or_init(|| build_server(&["--release"])))
}

/// Selects the binary of all processes and commands that start from now on. `None` selects that of
/// this source tree.
pub fn select_binary(binary: Option<&'static Path>) {
    *SELECTED_BINARY
        .write()
        .unwrap_or_else(PoisonError::into_inner) = binary;
}

/// Returns the binary to which an upgrade goes. In an acceptance run it is another build of the
/// same source in the development profile, whose debug assertions are on.
pub fn upgrade_binary() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if build_variant::is_rebuilt() {
        BUILT.get_or_init(|| build_server(&[]))
    } else {
        release_binary()
    }
}

/// Returns the release build of the holder that the scenario `ids_under_faults` starts.
pub fn id_holder_binary() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build_executable("id-holder", &["-p", "seqsvr-tests", "--release"]))
}

fn build_server(profile: &[&str]) -> PathBuf {
    build_executable("seqsvr", &[&["-p", "seqsvr"], profile].concat())
}

/// Builds an executable by cargo with these arguments and returns its path. Panics if the build
/// fails.
pub fn build_executable(name: &str, args: &[&str]) -> PathBuf {
    let built = cargo_command()
        .args(["build", "--locked"])
        .args(args)
        .envs(build_variant::build_env().iter().copied())
        .arg("--message-format=json-render-diagnostics")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{name} does not build");
    let messages = String::from_utf8_lossy(&built.stdout);
    let executable = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    executable.expect("cargo names the executable")
}

/// Runs a command of the binary until it ends.
pub async fn run_command(args: &[&str]) -> Output {
    let mut command = Command::new(release_binary());
    command.args(args).stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().expect("the binary runs"))
        .await
        .expect("not canceled")
}

/// Returns the first of `n` consecutive free loopback ports. They lie below the range from which
/// the system takes ports for outgoing connections, so that no such connection uses a port while
/// its server is down.
pub fn free_ports(n: u16) -> u16 {
    const PORTS: std::ops::Range<u16> = 12_000..32_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = (std::process::id() % 150) * 100;
    for _ in 0..200 {
        // Wraps around: a process that runs many scenarios reuses ports that were freed long ago.
        let next = base + u32::from(NEXT.fetch_add(n, Ordering::Relaxed));
        let first = PORTS.start + (next % u32::from(PORTS.end - PORTS.start - n)) as u16;
        let all: Result<Vec<_>, _> = (first..first + n)
            .map(|port| TcpListener::bind(("127.0.0.1", port)))
            .collect();
        if all.is_ok() {
            return first;
        }
    }
    panic!("no {n} free ports in a row in {PORTS:?}");
}

/// Describes each thread of a process: name, state and used time as in proc(5), and where it waits
/// in the kernel. Helps to find out why a server did not answer.
pub fn describe_threads(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let line = |task: PathBuf| {
        let read = |file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        let (stat, wchan) = (read("stat"), read("wchan"));
        let fields: Vec<&str> = stat.rsplit(") ").next()?.split(' ').collect();
        let (state, user, system) = (fields.first()?, fields.get(11)?, fields.get(12)?);
        let name = read("comm");
        let name = name.trim_end();
        Some(format!("{name:16} {state} {user:>6} {system:>6}  {wchan}"))
    };
    let lines = tasks.into_iter().flatten().flatten();
    let lines: Vec<String> = lines.filter_map(|task| line(task.path())).collect();
    lines.join("\n")
}

/// One server process.
pub struct ServerProcess {
    name: String,
    binary: &'static Path,
    args: Vec<String>,
    envs: Vec<(String, String)>,
    log: PathBuf,
    output: Option<OwnedFd>,
    child: Option<Child>,
}

impl ServerProcess {
    /// Starts the binary. Its output is appended to `dir/name.log`.
    pub fn start(dir: &Path, name: &str, args: Vec<String>) -> ServerProcess {
        ServerProcess::start_with_binary(release_binary(), dir, name, args)
    }

    /// Starts another binary. Its output is appended to `dir/name.log`.
    pub fn start_with_binary(
        binary: &'static Path,
        dir: &Path,
        name: &str,
        args: Vec<String>,
    ) -> ServerProcess {
        let mut process = ServerProcess {
            name: name.to_owned(),
            binary,
            args,
            envs: Vec::new(),
            log: dir.join(format!("{name}.log")),
            output: None,
            child: None,
        };
        process.restart();
        process
    }

    /// Starts the process again with the same arguments.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let log = match &self.output {
            Some(output) => output.try_clone().expect("a second handle"),
            None => {
                let log = OpenOptions::new().create(true).append(true).open(&self.log);
                log.expect("the log can be written").into()
            }
        };
        let child = Command::new(self.binary)
            .args(&self.args)
            .envs(self.envs.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("the binary starts"));
    }

    /// Kills the process with SIGKILL and waits until it has ended. Does nothing if it was killed
    /// before.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it can be killed");
            child.wait().expect("it can be waited for");
        }
    }

    /// Stops the process in order with SIGTERM and waits until it has ended. Panics after
    /// `timeout`.
    pub async fn stop(&mut self, timeout: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_for_exit(timeout).await
    }

    /// Returns whether the process ended without being killed by the test.
    pub fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|c| c.try_wait().is_ok_and(|status| status.is_some()))
    }

    /// Returns the process id. Panics after the process was killed.
    pub fn pid(&self) -> Pid {
        let child = self.child.as_ref();
        Pid::from_child(child.unwrap_or_else(|| panic!("{} does not run", self.name)))
    }

    /// Sends a signal: STOP to pause, CONT to continue.
    pub fn signal(&self, signal: Signal) {
        // Not reaped yet, so no other process has this id.
        kill_process(self.pid(), signal).expect("it can be signaled");
    }

    /// Returns whether a STOP has reached every thread, so that none is inside a system call.
    pub fn is_stopped(&self) -> bool {
        let tasks = format!("/proc/{}/task", self.pid().as_raw_nonzero());
        let mut states = std::fs::read_dir(tasks)
            .expect("it runs")
            .flatten()
            // A thread that has ended has no state.
            .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok())
            .map(|stat| {
                let state = stat.rsplit(") ").next();
                state.is_some_and(|state| state.starts_with('T'))
            })
            .peekable();
        states.peek().is_some() && states.all(|is_stopped| is_stopped)
    }

    /// Waits until the process ends by itself or by a signal. It can be restarted afterwards.
    /// Panics after `timeout`.
    pub async fn wait_for_exit(&mut self, timeout: Duration) -> ExitStatus {
        let name = &self.name;
        let child = self.child.as_mut();
        let child = child.unwrap_or_else(|| panic!("{name} does not run"));
        let status = wait_until(&format!("the end of {name}"), timeout, async || {
            child.try_wait().expect("it can be waited for")
        })
        .await;
        self.child = None;
        status
    }

    /// Returns the value of a flag of its command line. Panics if the flag is missing.
    pub fn arg(&self, flag: &str) -> &str {
        let at = self.flag_value_index(flag);
        &self.args[at.unwrap_or_else(|| panic!("{} has no {flag}", self.name))]
    }

    /// Sets the binary of the next start.
    pub fn set_binary(&mut self, binary: &'static Path) {
        self.binary = binary;
    }

    /// Sets a variable of its environment for the next start.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.envs.push((name.to_owned(), value.to_owned()));
    }

    /// Sets a flag's value for the next start. Adds the flag if it is missing.
    pub fn set_arg(&mut self, flag: &str, value: &str) {
        match self.flag_value_index(flag) {
            Some(at) => self.args[at] = value.to_owned(),
            None => self.args.extend([flag.to_owned(), value.to_owned()]),
        }
    }

    /// Connects stdout and stderr of the next starts to a pipe, in place of the log.
    pub fn set_output(&mut self, output: OwnedFd) {
        self.output = Some(output);
    }

    /// Adds a flag without a value for the next start, unless it is present.
    pub fn set_flag(&mut self, flag: &str) {
        if !self.args.iter().any(|arg| arg == flag) {
            self.args.push(flag.to_owned());
        }
    }

    fn flag_value_index(&self, flag: &str) -> Option<usize> {
        let flag = self.args.iter().position(|arg| arg == flag)?;
        Some(flag + 1)
    }

    /// Returns all output of the process.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = if self.has_ended() {
                ", which was not killed"
            } else {
                ""
            };
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("--- end of the log of {}{ended}", self.name);
            for line in &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..] {
                eprintln!("{line}");
            }
            if let Some(child) = &self.child {
                eprintln!("--- its threads\n{}", describe_threads(child.id()));
            }
        }
        if let Some(child) = &mut self.child {
            // Fails only if the process has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
