//! Runs the holder of `docs/examples/python` in several processes, which are paused and killed.
//!
//! Judged from outside: the ids that each process wrote down. No id is made twice, those of a
//! process rise, and a process that wakes after its worker was granted to another one makes no id
//! of the ticks of that one. Without the rule that breaks, `until`, both make the same ids.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use seqsvr_test_support::process::release_binary;

use super::players::install_python;
use crate::child_guard::ChildGuard;
use crate::dev_server::DevServer;
use crate::venv::VenvError;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const FAMILY: &str = "held";
/// Ids whose parts [`find_faults`] reads by their bits, without the codec.
const LAYOUT: &str = "0:1,time:41,const:2=2,lane:1,worker:3,seq:8";
/// Window of the process that is paused, so that its worker is soon another one's. The others have
/// that of the family: on a busy machine they would lose theirs, and could take this one.
const PAUSED_WINDOW_MS: u32 = 1_000;
/// Ids that a process makes between two steps.
const STEP_IDS: usize = 2_000;
/// Most time for a step; after it the check fails.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs the holder in processes that are paused, killed and started again. Returns false if an id
/// breaks a rule.
///
/// # Errors
/// A server or a process does not start, or makes no ids within `STEP_TIMEOUT`.
pub fn check_holders(binary: Option<&Path>) -> Result<bool, String> {
    let python = match install_python() {
        Ok(environment) => environment.join("bin/python"),
        Err(VenvError::Unavailable(why)) => {
            println!("skipped: holders: {why}");
            return Ok(true);
        }
        Err(VenvError::Failed(why)) => return Err(why),
    };
    let started = Instant::now();
    let binary = binary.unwrap_or_else(|| release_binary());
    let server = DevServer::start(binary)?;
    let page = Path::new(ROOT).join("docs/guide/ids-protocol.md");
    let run = HolderRun { python, server };
    let mut compared = run.start("page", &["page", &page.to_string_lossy()])?;
    create_family(binary, &run.server)?;
    let makers = run.play()?;
    compared.expect_success("page", Instant::now() + STEP_TIMEOUT)?;
    let faults = find_faults(&makers);
    faults.iter().for_each(|fault| println!("holders: {fault}"));
    let count: usize = makers.made.iter().map(|(_, ids)| ids.len()).sum();
    let processes = makers.made.len();
    println!(
        "holders: {count} ids of {processes} processes, {} faults, in {:.1?}",
        faults.len(),
        started.elapsed()
    );
    Ok(faults.is_empty())
}

fn create_family(binary: &Path, server: &DevServer) -> Result<(), String> {
    let created = Command::new(binary)
        .args(["id", "create", FAMILY, "--layout", LAYOUT])
        .args(["--epoch", "2026-01-01"])
        .args(["--window", "10s", "--ahead", "500ms"])
        .args(["--workers-per-holder", "1"])
        .args(["--server", &server.grpc_address.to_string()])
        .output()
        .map_err(|e| e.to_string())?;
    let errors = String::from_utf8_lossy(&created.stderr);
    match created.status.success() {
        true => Ok(()),
        false => Err(format!("`seqsvr id create`: {errors}")),
    }
}

/// What all processes of the check made.
struct MadeIds {
    /// Name and ids of each process.
    made: Vec<(&'static str, Vec<u64>)>,
    /// Worker that the paused process lost to its successor.
    lost: u64,
}

/// Returns the rules that ids break.
fn find_faults(ids: &MadeIds) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, made) in &ids.made {
        if let Some(pair) = made.windows(2).find(|pair| pair[1] <= pair[0]) {
            faults.push(format!("{name}: {:#x} after {:#x}", pair[1], pair[0]));
        }
        if let Some(id) = made.iter().find(|id| *id >> 12 & 3 != 2) {
            faults.push(format!("{name}: {id:#x} is no id of {LAYOUT}"));
        }
    }
    let all = ids.made.iter().flat_map(|(_, made)| made);
    let mut all: Vec<u64> = all.copied().collect();
    all.sort_unstable();
    let repeated = all.windows(2).filter(|pair| pair[0] == pair[1]);
    let repeated: Vec<u64> = repeated.map(|pair| pair[0]).collect();
    if let Some(first) = repeated.first() {
        let count = repeated.len();
        faults.push(format!("{count} ids were made twice, {first:#x} first"));
    }
    let of_lost = |name| {
        let (_, made) = ids.made.iter().find(|(of, _)| *of == name)?;
        let of_lost = made.iter().filter(|id| worker_of(**id) == ids.lost);
        Some(of_lost.map(|id| tick_of(*id)))
    };
    let last = of_lost(PAUSED).and_then(Iterator::max);
    let first = of_lost(SUCCESSOR).and_then(Iterator::min);
    if last.is_none() || first.is_none() || last >= first {
        faults.push(format!(
            "worker {}: the paused process made ids up to tick {last:?}, the next one from {first:?}",
            ids.lost
        ));
    }
    faults
}

fn worker_of(id: u64) -> u64 {
    id >> 8 & 7
}

fn tick_of(id: u64) -> u64 {
    id >> 14
}

const PAUSED: &str = "paused";
const SUCCESSOR: &str = "successor";

/// The server, and what runs the processes.
struct HolderRun {
    python: PathBuf,
    server: DevServer,
}

impl HolderRun {
    /// Runs all processes, and returns what they made.
    fn play(&self) -> Result<MadeIds, String> {
        let mut paused = self.start_holder(PAUSED, PAUSED_WINDOW_MS, None)?;
        let mut killed = self.start_holder("killed", 0, None)?;
        let mut steady = self.start_holder("steady", 0, None)?;
        let mut alloc = self.start_caller("alloc")?;
        for maker in [&mut paused, &mut killed, &mut steady, &mut alloc] {
            maker.wait_for_ids()?;
        }
        paused.signal(Signal::STOP);
        let lost = worker_of(paused.last_id()?);
        // It waits until the grant of the paused process has passed.
        let mut successor = self.start_holder(SUCCESSOR, 0, Some(lost))?;
        successor.wait_for_ids()?;
        killed.signal(Signal::KILL);
        let mut restarted = self.start_holder("restarted", 0, None)?;
        for maker in [&mut steady, &mut alloc, &mut restarted] {
            maker.wait_for_ids()?;
        }
        paused.signal(Signal::CONT);
        // With another worker, as the successor keeps this one.
        paused.wait_until(|ids| ids.last().is_some_and(|id| worker_of(*id) != lost))?;
        for maker in [&mut paused, &mut successor] {
            maker.wait_for_ids()?;
        }
        let mut made = vec![("killed", killed.ids()?)];
        for maker in [paused, steady, alloc, restarted, successor] {
            made.push(maker.stop()?);
        }
        Ok(MadeIds { made, lost })
    }

    /// Starts a process that holds a worker, which it may claim.
    fn start_holder(
        &self,
        name: &'static str,
        window_ms: u32,
        claimed: Option<u64>,
    ) -> Result<IdMaker, String> {
        let (window_ms, claimed) = (window_ms.to_string(), claimed.map(|w| w.to_string()));
        let more = [name, &window_ms].into_iter().chain(claimed.as_deref());
        self.start_maker(name, "hold", &more.collect::<Vec<_>>())
    }

    /// Starts a process that calls the AllocSvr for ids.
    fn start_caller(&self, name: &'static str) -> Result<IdMaker, String> {
        self.start_maker(name, "call", &[])
    }

    fn start_maker(&self, name: &'static str, how: &str, more: &[&str]) -> Result<IdMaker, String> {
        let file = self.server.dir.path().join(name).with_extension("ids");
        File::create(&file).map_err(|e| e.to_string())?;
        let address = self.server.grpc_address.to_string();
        let path = file.to_string_lossy();
        let process = self.start(name, &[&[how, &address, FAMILY, &path], more].concat())?;
        Ok(IdMaker {
            name,
            process,
            file,
            seen: 0,
        })
    }

    fn start(&self, name: &str, arguments: &[&str]) -> Result<PlayerProcess, String> {
        let errors = self.server.dir.path().join(name).with_extension("err");
        let child = Command::new(&self.python)
            .arg(Path::new(ROOT).join("crates/xtask/src/conformance/players/make_ids.py"))
            .args(arguments)
            .env("PYTHONPATH", Path::new(ROOT).join("docs/examples/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&errors).map_err(|e| e.to_string())?)
            .spawn();
        let child = child.map_err(|e| format!("{}: {e}", self.python.display()))?;
        Ok(PlayerProcess {
            child: ChildGuard(child),
            errors,
        })
    }
}

/// A process of Python, and the file of its errors.
struct PlayerProcess {
    child: ChildGuard,
    errors: PathBuf,
}

impl PlayerProcess {
    /// Waits until it ends without an error.
    fn expect_success(&mut self, name: &str, deadline: Instant) -> Result<(), String> {
        match self.child.wait_until(deadline)? {
            Some(status) if status.success() => Ok(()),
            status => Err(self.failure(name, &format!("{status:?}"))),
        }
    }

    fn failure(&self, name: &str, what: &str) -> String {
        let errors = fs::read_to_string(&self.errors).unwrap_or_default();
        format!("{name}: {what}: {errors}")
    }
}

/// A process that makes ids.
struct IdMaker {
    name: &'static str,
    process: PlayerProcess,
    file: PathBuf,
    /// Ids at the last step.
    seen: usize,
}

impl IdMaker {
    fn signal(&self, signal: Signal) {
        // It fails only if the process has ended, which the next wait for ids reports.
        let _ = kill_process(Pid::from_child(&self.process.child.0), signal);
    }

    /// Returns the ids that it has made until now.
    fn ids(&self) -> Result<Vec<u64>, String> {
        let bytes = fs::read(&self.file).map_err(|e| e.to_string())?;
        let (ids, _) = bytes.as_chunks();
        Ok(ids.iter().copied().map(u64::from_le_bytes).collect())
    }

    fn last_id(&self) -> Result<u64, String> {
        let last = self.ids()?.last().copied();
        last.ok_or_else(|| format!("{}: no ids", self.name))
    }

    /// Waits until it has made the ids of another step.
    fn wait_for_ids(&mut self) -> Result<(), String> {
        let wanted = self.seen + STEP_IDS;
        self.wait_until(|ids| ids.len() >= wanted)
    }

    fn wait_until(&mut self, is_done: impl Fn(&[u64]) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + STEP_TIMEOUT;
        loop {
            let ids = self.ids()?;
            if is_done(&ids) {
                self.seen = ids.len();
                return Ok(());
            }
            let ended = self.process.child.0.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || Instant::now() >= deadline {
                let what = format!("{} ids, then {ended:?}", ids.len());
                return Err(self.process.failure(self.name, &what));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Ends the process in order. Returns its name and all of its ids.
    fn stop(mut self) -> Result<(&'static str, Vec<u64>), String> {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + STEP_TIMEOUT;
        self.process.expect_success(self.name, deadline)?;
        Ok((self.name, self.ids()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_broken_rule_is_a_fault() {
        let id = |tick: u64, worker: u64| tick << 14 | 2 << 12 | worker << 8;
        let faults = |paused: &[u64], successor: &[u64]| {
            let made = vec![(PAUSED, paused.to_vec()), (SUCCESSOR, successor.to_vec())];
            find_faults(&MadeIds { made, lost: 3 }).len()
        };
        let next = [id(9, 3), id(10, 3)];
        assert_eq!(faults(&[id(8, 3), id(9, 4)], &next), 0);
        assert_eq!(
            faults(&[id(8, 3), id(9, 3) + 1], &next),
            1,
            "a tick of the successor"
        );
        assert_eq!(faults(&[id(8, 3), id(9, 3)], &next), 2, "and the same id");
        assert_eq!(faults(&[id(8, 3), id(7, 4)], &next), 1, "falling");
        assert_eq!(
            faults(&[id(8, 3), id(9, 4) ^ 1 << 12], &next),
            1,
            "another layout"
        );
        assert_eq!(faults(&[id(8, 4)], &next), 1, "it never had the worker");
    }

    /// The stage of `.ci/run`.
    #[test]
    #[ignore = "fetches packages from the network; `.ci/run` runs it as a stage of its own"]
    fn holders_in_python_make_no_id_twice() {
        assert_eq!(check_holders(None), Ok(true));
    }
}
