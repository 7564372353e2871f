//! `cargo xtask memory`: the resident memory of an AllocSvr against its budget, under load whose
//! kind changes: dense, keyed, dense, keyed, each time with more keys.
//!
//! Each change of the kind needs pieces of memory of other sizes than those that closed sections
//! gave back. Memory that is not used again shows as growth with each phase.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use seqsvr_test_support::process;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::process_stats::ProcessStats;

/// Lease of the cluster: its default.
const LEASE_MS: u32 = 3_000;
/// Time between two looks at the memory.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Bytes of a key of the keyed load.
const KEY_BYTES: &str = "16";
/// Estimated bytes of a counter: dense, keyed.
const BYTES_OF_ONE: [u64; 2] = [4, 24];
/// Phases: two of each kind.
const PHASES: u32 = 4;

/// A load that ends when it is dropped.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // It has ended by itself, unless something failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What to run.
pub struct Options {
    /// `--memory-mib` of the AllocSvr.
    pub budget_mib: u64,
    /// Memory that the process may take beside its counters, and the slack that counters have.
    pub base_mib: u64,
    /// Time of all phases together.
    pub time: Duration,
}

/// Runs the phases and prints a table in Markdown; returns whether the memory stayed within budget
/// and base.
///
/// # Errors
/// A phase could not be run, or its calls failed.
pub async fn run(options: &Options) -> Result<bool, String> {
    let budget = options.budget_mib.to_string();
    let cluster = ProcessCluster::start_with(1, 1, LEASE_MS, &[], &["--memory-mib", &budget]).await;
    let (pid, address) = (cluster.allocs[0].pid(), &cluster.alloc_addresses[0]);
    let resident = || {
        let vitals = ProcessStats::read(pid, None);
        let vitals = vitals.map_err(|e| format!("cannot read the memory of the AllocSvr: {e}"))?;
        Ok::<u64, String>(vitals.memory_bytes >> 20)
    };
    let bound = options.budget_mib + options.base_mib;
    println!(
        "Budget {budget} MiB and base {} MiB; {} MiB resident before any load.\n",
        options.base_mib,
        resident()?
    );
    println!(
        "| phase | keys | peak, MiB | at the end, MiB | counters mapped, MiB | of them free, MiB |"
    );
    println!("|---|---|---|---|---|---|");
    let mut fine = true;
    for phase in 0..PHASES {
        let keyed = phase % 2 == 1;
        // Half more than the budget holds, and twice that the second time.
        let keys = (options.budget_mib << 20) / BYTES_OF_ONE[usize::from(keyed)] * 3 / 2;
        let keys = (keys << (phase / 2)).min(1 << 31);
        let mut load = start(address, keyed, keys, options.time / PHASES)?;
        let mut peak = 0;
        let status = loop {
            peak = peak.max(resident()?);
            match load.0.try_wait().map_err(|e| e.to_string())? {
                Some(status) => break status,
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        if !status.success() {
            return Err(format!("the load of phase {} failed: {status}", phase + 1));
        }
        let (mapped, free) = (
            counter(&cluster, "counter_bytes_mapped").await >> 20,
            counter(&cluster, "counter_bytes_free").await >> 20,
        );
        let kind = if keyed { "keyed" } else { "dense" };
        println!(
            "| {kind} | {keys} | {peak} | {} | {mapped} | {free} |",
            resident()?
        );
        fine &= peak <= bound;
    }
    let verdict = if fine { "within" } else { "ABOVE" };
    println!("\n{verdict} {bound} MiB");
    Ok(fine)
}

async fn counter(cluster: &ProcessCluster, name: &str) -> u64 {
    cluster.sum_counter(&cluster.alloc_addresses, name).await
}

fn start(address: &str, keyed: bool, keys: u64, time: Duration) -> Result<Load, String> {
    let mut command = Command::new(process::release_binary());
    command
        .args(["bench", "--json", "--mode", "next-many", "--batch", "1000"])
        .args(["--in-flight", "16", "--warm-up", "0s", "--server", address])
        .args(["--keys", &keys.to_string()])
        .args(["--duration", &format!("{}ms", time.as_millis())])
        .stdout(Stdio::null());
    if keyed {
        command.args(["--key-bytes", KEY_BYTES]);
    }
    let load = command.spawn();
    load.map(Load)
        .map_err(|e| format!("cannot start the load: {e}"))
}

#[cfg(test)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_stays_within_budget_and_base_while_callers_touch_more() {
    let options = Options {
        budget_mib: 64,
        // 64 MiB of slack, the process, and the calls under way.
        base_mib: 128,
        time: Duration::from_secs(20),
    };
    assert_eq!(run(&options).await, Ok(true));
}
