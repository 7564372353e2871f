//! A long mixed load with raises, opens, closes, snapshots and purges.
//!
//! No fault is injected. Measured: memory, disk, threads and descriptors of each process do not
//! grow between the first part after the warm-up and the last part. Needs a machine without other
//! load.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use seqsvr_client::Client;
use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::{NamespaceLimits, NamespaceSpec};
use seqsvr_test_support::callers::{TestCall, TestCaller};
use seqsvr_test_support::history::History;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::process_stats::ProcessStats;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::test_keys::{self, TestKey};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::scenario::ScenarioOutcome;

/// Interval between two samples of the processes.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between two progress lines on stderr.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);
/// Calls in flight of the mixed load, for each of its callers.
const TASKS_PER_CALLER: usize = 4;
/// Pause of a task after each call, so that the checker can hold the history of an hour.
const CALL_PAUSE: Duration = Duration::from_millis(20);

/// Frequent snapshots, so that the warm-up has several of them.
const STORE_FLAGS: [&str; 2] = ["--snapshot-every", "2000"];
/// The AllocSvrs close sections early and have little memory, so that sections are opened and
/// closed all the time.
const ALLOC_FLAGS: [&str; 4] = ["--idle-after", "15s", "--memory-mib", "24"];
/// Sections visited in turn. Each is idle for longer than `--idle-after` before the next visit.
const RING_SECTIONS: u64 = 300;
/// First section of the ring: above the sections of the mixed load.
const RING_FIRST_SECTION: u64 = 1_000;
/// Interval between two steps of the ring, and between two batches of fresh keys.
const RING_STEP_INTERVAL: Duration = Duration::from_millis(100);
/// Keys in each batch that were never used before.
const FRESH_KEYS_PER_BATCH: u64 = 50;

/// A namespace in which every number needs a raise, so that the log grows fast.
const SINGLES_NAMESPACE: &str = "singles";
/// Tasks that take these numbers, one number at a time each.
const RAISER_TASKS: u64 = 32;
/// Pause of each task after a number.
const RAISER_PAUSE: Duration = Duration::from_millis(10);

/// Percentage of the whole run for the warm-up, and for each of the two parts that are compared.
const WARM_UP_PERCENT: u32 = 25;
const PART_PERCENT: u32 = 25;
/// Allowed growth until the last part, in addition to a tenth.
const MEMORY_SLACK_BYTES: u64 = 4 << 20;
/// Log files are closed and dropped as wholes of this size.
const DISK_SLACK_BYTES: u64 = 16 << 20;
const COUNT_SLACK: u64 = 3;

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
            let now = ProcessStats::read(*pid, dir.as_deref()).expect("it can be looked at");
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
        "too short to compare: {samples:?} looks"
    );
    parts
}

/// Returns a text for each resource that grew between the first and the last part.
fn find_growth(first: &ProcessStats, last: &ProcessStats) -> Vec<String> {
    let tenth = |n: u64| n + n / 10;
    let mut grown = Vec::new();
    let mut judge = |what: &str, first: u64, last: u64, most: u64| {
        if last > most {
            grown.push(format!(
                "{what} {first} -> {last}, at most {most} would be flat"
            ));
        }
    };
    let most = tenth(first.memory_bytes) + MEMORY_SLACK_BYTES;
    judge("memory", first.memory_bytes, last.memory_bytes, most);
    let most = tenth(first.disk) + DISK_SLACK_BYTES;
    judge("disk", first.disk, last.disk, most);
    judge(
        "threads",
        first.threads,
        last.threads,
        first.threads + COUNT_SLACK,
    );
    let most = first.descriptors + COUNT_SLACK;
    judge("descriptors", first.descriptors, last.descriptors, most);
    grown
}

fn format_row(name: &str, first: &ProcessStats, last: &ProcessStats) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "{name}: memory {:.1} -> {:.1} MiB, disk {:.1} -> {:.1} MiB, threads {} -> {}, descriptors {} -> {}",
        mib(first.memory_bytes),
        mib(last.memory_bytes),
        mib(first.disk),
        mib(last.disk),
        first.threads,
        last.threads,
        first.descriptors,
        last.descriptors
    )
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

/// Load that visits sections one after the other, so that they open and close; uses each key once,
/// so that the memory for keys is exhausted; and takes numbers that each need a raise.
struct SectionChurn {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl SectionChurn {
    async fn start(history: &History, client: &Client) -> SectionChurn {
        let geometry = Geometry::Dense {
            section_size: 1,
            max_uid: RAISER_TASKS,
        };
        let spec = NamespaceSpec {
            step: 1,
            limits: NamespaceLimits {
                step_max: 1,
                ..NamespaceLimits::DEFAULT
            },
            ..NamespaceSpec::new(SINGLES_NAMESPACE, geometry)
        };
        let made = client.admin().create_namespace(&spec).await;
        made.expect("the namespace is made");
        let one = ChurnTask {
            stop: Arc::default(),
            answered: Arc::default(),
            caller: TestCaller::Sdk(client.clone()),
            history: history.clone(),
        };
        let raisers = (0..RAISER_TASKS).map(|uid| tokio::spawn(one.clone().take_singles(uid)));
        let visitor = tokio::spawn(one.clone().visit_sections());
        SectionChurn {
            tasks: raisers.chain([visitor]).collect(),
            stop: one.stop,
            answered: one.answered,
        }
    }

    /// Ends the load. Returns the number of answered calls. None failed.
    async fn stop(self) -> u64 {
        self.stop.store(true, Relaxed);
        for task in self.tasks {
            task.await.expect("no call of it fails");
        }
        self.answered.load(Relaxed)
    }
}

#[derive(Clone)]
struct ChurnTask {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    caller: TestCaller,
    history: History,
}

impl ChurnTask {
    async fn take_singles(mut self, uid: u64) {
        let test_key = [TestKey::from_uid(SINGLES_NAMESPACE, uid, 1)];
        while !self.stop.load(Relaxed) {
            self.take_numbers(&test_key).await;
            tokio::time::sleep(RAISER_PAUSE).await;
        }
    }

    async fn visit_sections(mut self) {
        let mut steps = interval(RING_STEP_INTERVAL);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut step = 0;
        while !self.stop.load(Relaxed) {
            steps.tick().await;
            let section = RING_FIRST_SECTION + step % RING_SECTIONS;
            self.take_numbers(&[TestKey::from_uid("default", section * 100_000, 1)])
                .await;
            let fresh = step * FRESH_KEYS_PER_BATCH..(step + 1) * FRESH_KEYS_PER_BATCH;
            let fresh: Vec<_> = fresh
                .map(|i| TestKey::from_key("keys", format!("fresh {i}")))
                .collect();
            self.take_numbers(&fresh).await;
            step += 1;
        }
    }

    /// Takes one number of each, all of which must be answered.
    async fn take_numbers(&mut self, test_keys: &[TestKey]) {
        let items: Vec<&TestKey> = test_keys.iter().collect();
        let begin = self.history.now_ns();
        let results = self.caller.call(0, TestCall::Next(1), &items).await;
        let end = self.history.now_ns();
        for (test_key, result) in test_keys.iter().zip(&results) {
            self.history
                .record(test_key, TestCall::Next(1), begin, end, result);
            assert!(result.is_ok(), "{}: {result:?}", test_key.sequence);
            self.answered.fetch_add(1, Relaxed);
        }
    }
}

#[test]
fn soak_growth_names_each_grown_resource() {
    let first = ProcessStats {
        memory_bytes: 100 << 20,
        threads: 10,
        descriptors: 50,
        disk: 40 << 20,
    };
    assert_eq!(find_growth(&first, &first), Vec::<String>::new());
    let within = ProcessStats {
        memory_bytes: 113 << 20,
        threads: 13,
        descriptors: 53,
        disk: 59 << 20,
    };
    assert_eq!(find_growth(&first, &within), Vec::<String>::new());
    let more = ProcessStats {
        memory_bytes: 115 << 20,
        threads: 14,
        descriptors: 54,
        disk: 61 << 20,
    };
    let named = find_growth(&first, &more);
    assert_eq!(named.len(), 4, "{named:?}");
}
