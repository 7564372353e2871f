//! Runs a plan on a thread of its own.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use seqsvr_core::sim::{self, mix_bits};
use seqsvr_store::sim as disks;

use crate::judges::unexpected_stops::record_panics;
use crate::libc_shim;
use crate::plan::RunPlan;
use crate::world::{RunOutcome, SimWorld};

/// Runs a plan on this thread, which should be a new one.
///
/// # Errors
/// If the file system or the operating system rejects a request.
pub fn run_plan(plan: &RunPlan, prints_events: bool) -> io::Result<RunOutcome> {
    let began = Instant::now();
    let root = create_run_dir()?;
    sim::begin_run(mix_bits(plan.seed, 1), plan.planted.clone());
    if let Some(bytes) = plan.setup.entry_bytes {
        sim::set_limit("ENTRY_BYTES_MAX", bytes as usize);
    }
    disks::forget_all();
    record_panics();
    libc_shim::set_thread_seed(Some(mix_bits(plan.seed, 2)));
    libc_shim::set_thread_time(Some(0));
    let outcome =
        SimWorld::new(plan, root.path(), prints_events).and_then(|mut world| world.run_to_end());
    libc_shim::set_thread_time(None);
    libc_shim::set_thread_seed(None);
    let reached_branches = sim::take_reached();
    outcome.map(|outcome| RunOutcome {
        real_time: began.elapsed(),
        reached_branches,
        ..outcome
    })
}

/// Runs a plan on a new thread, so that all thread-locals are new.
///
/// # Errors
/// If [`run_plan`] fails or the thread panics; the text of the panic is the error.
pub fn run_plan_in_thread(plan: &RunPlan, prints_events: bool) -> Result<RunOutcome, String> {
    let plan = plan.clone();
    let thread = std::thread::Builder::new().stack_size(32 << 20);
    let handle = thread
        .spawn(move || run_plan(&plan, prints_events))
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
static RUNS_STARTED: AtomicU64 = AtomicU64::new(0);

/// Creates the directory of a run.
///
/// Errors that servers send name files in it, so all names must have one length in HTTP/2: these
/// ten letters have codes of 5 bits (RFC 7541, appendix B).
fn create_run_dir() -> io::Result<tempfile::TempDir> {
    const EQUAL_LENGTH_LETTERS: [char; 10] = ['0', '1', '2', 'a', 'c', 'e', 'i', 'o', 's', 't'];
    let run = RUNS_STARTED.fetch_add(1, Relaxed);
    let number = format!("{:010}{run:010}", std::process::id());
    let digits = number.chars().filter_map(|c| c.to_digit(10));
    let name: String = digits
        .map(|digit| EQUAL_LENGTH_LETTERS[digit as usize])
        .collect();
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
