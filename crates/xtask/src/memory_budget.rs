//! `cargo xtask memory`: the resident memory of an AllocSvr against its budget. The kind of the
//! load changes: dense, keyed, dense, keyed, each kind with more keys the second time.
//!
//! After a change of the kind, counters need memory blocks of other sizes than those that closed
//! sections gave back. Memory that is not reused shows as growth from phase to phase.

use std::process::{Command, Stdio};
use std::time::Duration;

use seqsvr_test_support::process;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::process_stats::ProcessStats;

use crate::child_guard::ChildGuard;

/// Lease of the cluster: the default of a cluster.
const LEASE_MS: u32 = 3_000;
/// Time between two reads of the memory.
const READ_INTERVAL: Duration = Duration::from_millis(500);
/// Bytes of a key of the keyed load.
const KEY_BYTES: &str = "16";
/// Estimated bytes of a counter: dense, keyed.
const COUNTER_BYTES: [u64; 2] = [4, 24];
/// Number of phases: two of each kind.
const PHASES: u32 = 4;

/// Options of the measurement.
pub struct MemoryOptions {
    /// `--section-memory-mib` of the AllocSvr.
    pub budget_mib: u64,
    /// Memory of the process without its counters, and the slack of the counters.
    pub base_mib: u64,
    /// Time of all phases together.
    pub time: Duration,
}

/// Runs the phases and prints a table in Markdown. Returns whether the memory stayed within budget
/// and base.
///
/// # Errors
/// A phase could not be run, or its calls failed.
pub async fn measure_memory(options: &MemoryOptions) -> Result<bool, String> {
    let budget = options.budget_mib.to_string();
    let cluster =
        ProcessCluster::start_with(1, 1, LEASE_MS, &[], &["--section-memory-mib", &budget]).await;
    let (pid, address) = (cluster.allocs[0].pid(), &cluster.alloc_addresses[0]);
    let resident_mib = || {
        let stats = ProcessStats::read(pid, None);
        let stats = stats.map_err(|e| format!("cannot read the memory of the AllocSvr: {e}"))?;
        Ok::<u64, String>(stats.memory_bytes >> 20)
    };
    let max_mib = options.budget_mib + options.base_mib;
    println!(
        "Budget {budget} MiB and base {} MiB; {} MiB resident before any load.\n",
        options.base_mib,
        resident_mib()?
    );
    println!(
        "| phase | keys | peak, MiB | at the end, MiB | counters mapped, MiB | of them free, MiB |"
    );
    println!("|---|---|---|---|---|---|");
    let mut is_within = true;
    for phase in 0..PHASES {
        let is_keyed = phase % 2 == 1;
        // Half more than the budget holds, and twice that the second time.
        let keys = (options.budget_mib << 20) / COUNTER_BYTES[usize::from(is_keyed)] * 3 / 2;
        let keys = (keys << (phase / 2)).min(1 << 31);
        let mut load = start_load(address, is_keyed, keys, options.time / PHASES)?;
        let mut peak_mib = 0;
        let status = loop {
            peak_mib = peak_mib.max(resident_mib()?);
            match load.0.try_wait().map_err(|e| e.to_string())? {
                Some(status) => break status,
                None => tokio::time::sleep(READ_INTERVAL).await,
            }
        };
        if !status.success() {
            return Err(format!("the load of phase {} failed: {status}", phase + 1));
        }
        let (mapped_mib, free_mib) = (
            read_counter(&cluster, "counter_bytes_mapped").await >> 20,
            read_counter(&cluster, "counter_bytes_free").await >> 20,
        );
        let kind = if is_keyed { "keyed" } else { "dense" };
        println!(
            "| {kind} | {keys} | {peak_mib} | {} | {mapped_mib} | {free_mib} |",
            resident_mib()?
        );
        is_within &= peak_mib <= max_mib;
    }
    let verdict = if is_within { "within" } else { "ABOVE" };
    println!("\n{verdict} {max_mib} MiB");
    Ok(is_within)
}

async fn read_counter(cluster: &ProcessCluster, name: &str) -> u64 {
    cluster.sum_counter(&cluster.alloc_addresses, name).await
}

fn start_load(
    address: &str,
    is_keyed: bool,
    keys: u64,
    time: Duration,
) -> Result<ChildGuard, String> {
    let mut command = Command::new(process::release_binary());
    command
        .args(["bench", "--json", "--mode", "next-many", "--batch", "1000"])
        .args(["--in-flight", "16", "--warm-up", "0s", "--server", address])
        .args(["--keys", &keys.to_string()])
        .args(["--duration", &format!("{}ms", time.as_millis())])
        .stdout(Stdio::null());
    if is_keyed {
        command.args(["--key-bytes", KEY_BYTES]);
    }
    let load = command.spawn();
    load.map(ChildGuard)
        .map_err(|e| format!("cannot start the load: {e}"))
}

#[cfg(test)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_stays_within_budget_and_base_while_callers_touch_more_keys() {
    let options = MemoryOptions {
        budget_mib: 64,
        // 64 MiB of slack, the process, and the calls in flight.
        base_mib: 128,
        time: Duration::from_secs(20),
    };
    assert_eq!(measure_memory(&options).await, Ok(true));
}
