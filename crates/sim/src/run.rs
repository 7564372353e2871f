//! Runs a plan on a thread of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use seqsvr_core::sim::{self, mix};
use seqsvr_store::sim as disks;

use crate::judge::stops::note_panics;
use crate::plan::Plan;
use crate::shim;
use crate::world::World;

/// Minimum answered calls of a useful run. A run with fewer counts as starved.
pub const ANSWERS_MIN: u64 = 100;

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Broken rules, as text.
    pub broken: Vec<String>,
    /// Hash over all events.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Number of calls.
    pub calls: u64,
    /// Number of calls that got an answer.
    pub answered: u64,
    /// Simulated time of the run, ms.
    pub virtual_ms: u64,
    /// Real time of the run.
    pub real: Duration,
    /// How often the run reached each branch.
    pub reached: BTreeMap<&'static str, u64>,
    /// Last events before the end, as text.
    pub last: Vec<String>,
}

impl Outcome {
    /// Returns whether the run has too few answers to prove anything.
    pub fn is_starved(&self) -> bool {
        self.answered < ANSWERS_MIN
    }
}

/// Runs a plan on this thread, which should be a new one.
///
/// # Errors
/// If the file system or the operating system rejects a request.
pub fn run(plan: &Plan, prints: bool) -> io::Result<Outcome> {
    let began = Instant::now();
    let root = directory()?;
    sim::begin(mix(plan.seed, 1), plan.planted.clone());
    if let Some(bytes) = plan.setup.entry_bytes {
        sim::set_limit("ENTRY_BYTES_MAX", bytes as usize);
    }
    disks::forget_all();
    note_panics();
    shim::set_seed(Some(mix(plan.seed, 2)));
    shim::set_now(Some(0));
    let outcome = World::new(plan, root.path(), prints).and_then(|mut world| world.run());
    shim::set_now(None);
    shim::set_seed(None);
    let reached = sim::take_reached();
    outcome.map(|outcome| Outcome {
        real: began.elapsed(),
        reached,
        ..outcome
    })
}

/// Runs a plan on a new thread, so that all thread-locals are new.
///
/// # Errors
/// If [`run`] fails or the thread panics; the text of the panic is the error.
pub fn run_apart(plan: &Plan, prints: bool) -> Result<Outcome, String> {
    let plan = plan.clone();
    let thread = std::thread::Builder::new().stack_size(32 << 20);
    let handle = thread
        .spawn(move || run(&plan, prints))
        .map_err(|e| e.to_string())?;
    match handle.join() {
        Ok(outcome) => outcome.map_err(|e| e.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(format!("panic: {}", text.unwrap_or_default()))
        }
    }
}

/// Number of runs that this process has begun.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Creates the directory of a run.
///
/// Errors that servers send name files in it, so all names must have one length in HTTP/2: these
/// ten letters have codes of 5 bits (RFC 7541, appendix B).
fn directory() -> io::Result<tempfile::TempDir> {
    const LETTERS: [char; 10] = ['0', '1', '2', 'a', 'c', 'e', 'i', 'o', 's', 't'];
    let run = RUNS.fetch_add(1, Relaxed);
    let number = format!("{:010}{run:010}", std::process::id());
    let digits = number.chars().filter_map(|c| c.to_digit(10));
    let name: String = digits.map(|digit| LETTERS[digit as usize]).collect();
    tempfile::Builder::new()
        .prefix(&format!("seqsvr-sim-{name}"))
        .rand_bytes(0)
        .tempdir_in(memory_dir())
}

/// Returns a directory of a file system in memory, if there is one.
fn memory_dir() -> std::path::PathBuf {
    let memory = std::path::PathBuf::from("/dev/shm");
    match memory.is_dir() {
        true => memory,
        false => std::env::temp_dir(),
    }
}
