//! A long mixed load with raises, opens, closes, snapshots and purges.
//!
//! No fault is injected. Measured: memory, disk, threads and descriptors of each process do not
//! grow between the first part after the warm-up and the last part. Needs a machine without other
//! load.

mod resource_growth;
mod section_churn;

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use seqsvr_test_support::history::History;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::process_stats::ProcessStats;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::test_keys;
use tokio::time::{MissedTickBehavior, interval};

use crate::scenario::ScenarioOutcome;
use resource_growth::{find_growth, format_row};
use section_churn::SectionChurn;

/// Interval between two samples of the processes.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between two progress lines on stderr.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);
/// Calls in flight of the mixed load, for each of its callers.
const TASKS_PER_CALLER: usize = 4;
/// Pause of a task after each call, so that the checker can hold the history of an hour.
const CALL_PAUSE: Duration = Duration::from_millis(20);

/// Frequent snapshots, so that the warm-up has several of them.
const STORE_FLAGS: [&str; 2] = ["--snapshot-interval-entries", "2000"];
/// The AllocSvrs close sections early and have little memory, so that sections are opened and
/// closed all the time.
const ALLOC_FLAGS: [&str; 4] = [
    "--section-idle-timeout",
    "15s",
    "--section-memory-mib",
    "24",
];

/// Percentage of the whole run for the warm-up, and for each of the two parts that are compared.
const WARM_UP_PERCENT: u32 = 25;
const PART_PERCENT: u32 = 25;

/// Runs for `time`, the warm-up included.
pub async fn soak(time: Duration) -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Start the mixed load and the churn of sections.
    let mut cluster = ProcessCluster::start_with(3, 2, 3_000, &STORE_FLAGS, &ALLOC_FLAGS).await;
    let addresses = cluster.alloc_addresses.clone();
    let (callers, client) = crate::scenario::new_callers(&cluster, &addresses);
    test_keys::create_third_namespace(&client).await;
    let history = History::create(cluster.dir());
    let load = RecordedLoad::start_paced(
        &history,
        test_keys::all_test_keys(),
        &callers,
        TASKS_PER_CALLER,
        UNTIL_STOPPED,
        CALL_PAUSE,
    );
    let churn = SectionChurn::start(&history, &client).await;

    // 2. Watch the processes for the whole run.
    let names = process_names(&cluster);
    let parts = watch_resources(&mut cluster, &load, time).await;

    // 3. Everything that the run is about has happened.
    let counted = count_activity(&cluster).await;
    let churned = churn.stop().await;
    let summary = load.stop().await;
    outcome.add_load("load", &summary);
    outcome.calls += churned;
    outcome.calls_during_fault = outcome.calls;
    outcome.note(format!(
        "{churned} calls of sections in turn, of keys used once, and of numbers that each need a raise; in all {counted}"
    ));

    // 4. Compare the resources of the two parts.
    let mut grown = Vec::new();
    for (name, [first, last]) in names.iter().zip(parts) {
        outcome.note(format_row(name, &first, &last));
        grown.extend(
            find_growth(&first, &last)
                .into_iter()
                .map(|what| format!("{name}: {what}")),
        );
    }

    // 5. No call failed, no resource grew, and the history holds.
    summary.assert_none_failed();
    assert!(grown.is_empty(), "not flat: {}", grown.join("; "));
    cluster.assert_none_ended();
    history.check();
    outcome
}

/// Returns the maximum use of each process in the part after the warm-up, and in the last part.
async fn watch_resources(
    cluster: &mut ProcessCluster,
    load: &RecordedLoad,
    time: Duration,
) -> Vec<[ProcessStats; 2]> {
    let watched = watched_processes(cluster);
    let mut parts = vec![[ProcessStats::default(); 2]; watched.len()];
    let began = Instant::now();
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut last_progress = Instant::now();
    let mut samples = [0; 2];
    while began.elapsed() < time {
        ticks.tick().await;
        cluster.assert_none_ended();
        let passed = began.elapsed();
        let part = if passed < time * WARM_UP_PERCENT / 100 {
            None
        } else if passed < time * (WARM_UP_PERCENT + PART_PERCENT) / 100 {
            Some(0)
        } else {
            (passed >= time * (100 - PART_PERCENT) / 100).then_some(1)
        };
        let is_progress_due = last_progress.elapsed() >= PROGRESS_INTERVAL;
        let mut text = String::new();
        for ((pid, dir), parts) in watched.iter().zip(&mut parts) {
            let now = ProcessStats::read(*pid, dir.as_deref()).expect("its resources can be read");
            if let Some(part) = part {
                parts[part] = parts[part].max(now);
            }
            let (memory, disk) = (now.memory_bytes >> 20, now.disk >> 20);
            let _ = write!(
                text,
                " | {memory} + {disk} MiB, {} t, {} fd",
                now.threads, now.descriptors
            );
        }
        if let Some(part) = part {
            samples[part] += 1;
        }
        if is_progress_due {
            last_progress = Instant::now();
            eprintln!(
                "soak {:>4} s, {} calls{text}",
                passed.as_secs(),
                load.answered_calls()
            );
        }
    }
    assert!(
        samples.iter().all(|n| *n >= 10),
        "too short to compare: {samples:?} samples"
    );
    parts
}

/// Returns the process ids, with the directories of the stores.
fn watched_processes(cluster: &ProcessCluster) -> Vec<(Pid, Option<PathBuf>)> {
    let stores = cluster.stores.iter().map(|store| {
        let dir = PathBuf::from(store.arg("--data-dir"));
        (store.pid(), Some(dir))
    });
    let allocs = cluster.allocs.iter().map(|alloc| (alloc.pid(), None));
    stores.chain(allocs).collect()
}

fn process_names(cluster: &ProcessCluster) -> Vec<String> {
    let stores = (1..=cluster.stores.len()).map(|id| format!("store {id}"));
    let allocs = (1..=cluster.allocs.len()).map(|n| format!("alloc a{n}"));
    stores.chain(allocs).collect()
}

/// Counts raises, opens, closes and snapshots of all processes. Each must have happened.
async fn count_activity(cluster: &ProcessCluster) -> String {
    let mut text = Vec::new();
    for name in ["raises", "opens", "closes"] {
        let n = cluster.sum_counter(&cluster.alloc_addresses, name).await;
        assert!(n > 0, "no {name}");
        text.push(format!("{n} {name}"));
    }
    let name = "raft_snapshots_built";
    let snapshots = cluster.sum_counter(&cluster.store_addresses, name).await;
    assert!(snapshots > 0, "no snapshot, so nothing was purged");
    text.push(format!("{snapshots} snapshots"));
    text.join(", ")
}
