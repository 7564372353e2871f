//! All processes are killed at once under load and restarted.
//!
//! Fault: SIGKILL of three stores and two AllocSvrs. Measured: time until the first number, and the
//! exact check over the calls before and after.

use std::time::{Duration, Instant};

use seqsvr_test_support::history::History;
use seqsvr_test_support::process::{ServerProcess, Signal};
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::test_keys;

use crate::scenario::ScenarioOutcome;

const CALLS_PER_PHASE: u64 = 5_000;
const TEST_TIMEOUT: Duration = Duration::from_secs(30);
const FIRST_NUMBER_LIMIT: Duration = Duration::from_secs(12);

/// Kills and restarts all processes. The first number must come within 12 s.
pub async fn full_outage() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Load all sequences through every kind of caller.
    let mut cluster = ProcessCluster::start(3, 2, 3_000).await;
    let (callers, client) = crate::scenario::new_callers(&cluster, &cluster.alloc_addresses);
    test_keys::create_third_namespace(&client).await;
    let mut history = History::create(cluster.dir());
    let load = RecordedLoad::start(
        &history,
        test_keys::all_test_keys(),
        &callers,
        12,
        UNTIL_STOPPED,
    );
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;

    // 2. Kill all processes at once, then restart all.
    for process in cluster.all_processes() {
        process.signal(Signal::KILL);
    }
    cluster.all_processes().for_each(ServerProcess::kill);
    let before = load.answered_calls();
    cluster.all_processes().for_each(|p| p.restart());
    let restarted = Instant::now();

    // 3. A new client gets its first number within the limit.
    let probe = test_keys::all_test_keys()[0][0].clone();
    let new_client = cluster.new_client().with_deadline(TEST_TIMEOUT);
    let begin = history.now_ns();
    let numbers = new_client
        .namespace(probe.namespace)
        .next(probe.key.clone())
        .await;
    let (took, end) = (restarted.elapsed(), history.now_ns());
    let n = numbers.expect("a number after the restart");
    history.record_number(&probe, begin, end, &n);
    outcome.add_call(took);
    outcome.note(format!("first number {took:.2?} after the last start"));
    assert!(took <= FIRST_NUMBER_LIMIT, "{took:?}");

    // 4. The load continues.
    cluster.wait_until_assigned(2).await;
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    let summary = load.stop().await;
    outcome.add_load("load", &summary);
    outcome.note(format!(
        "answered before {before}, after {}",
        summary.answered - before
    ));

    // 5. The history of both lives holds.
    cluster.assert_none_ended();
    let report = history.check();
    assert!(report.answered_calls() >= 2 * CALLS_PER_PHASE && report.ordered_pairs > 50_000);
    outcome
}
