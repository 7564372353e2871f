//! One run of a plan, on a thread of its own.

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

/// Answers below which a run says nothing.
pub const ANSWERS_MIN: u64 = 100;

/// What became of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Rules that were broken, in words.
    pub broken: Vec<String>,
    /// Hash over all events.
    pub hash: u64,
    /// Events.
    pub events: u64,
    /// Calls that were made, and answered.
    pub calls: u64,
    /// See `calls`.
    pub answered: u64,
    /// World time of the run, ms.
    pub virtual_ms: u64,
    /// Real time of the run.
    pub real: Duration,
    /// Branches that were reached, and how often.
    pub reached: BTreeMap<&'static str, u64>,
    /// The last events in words.
    pub last: Vec<String>,
}

impl Outcome {
    /// Whether too few calls were answered to say anything.
    pub fn is_starved(&self) -> bool {
        self.answered < ANSWERS_MIN
    }
}

/// Runs a plan on this thread, which should be a fresh one.
///
/// # Errors
/// The file system or the system refuse.
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

/// Runs a plan on a thread of its own, so that all thread-locals are new.
///
/// # Errors
/// As [`run`], and panics in words.
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

/// Runs of this process so far.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Makes a directory for a run. Errors that travel name files in it, so all names must be of one
/// length in HTTP/2: these ten letters have codes of 5 bits (RFC 7541, appendix B).
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

/// A file system in memory, if there is one.
fn memory_dir() -> std::path::PathBuf {
    let memory = std::path::PathBuf::from("/dev/shm");
    match memory.is_dir() {
        true => memory,
        false => std::env::temp_dir(),
    }
}
