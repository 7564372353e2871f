//! The StoreSvr leader is killed under load, then a follower: no call fails.
//!
//! Fault: SIGKILL of one store of three at a time. Measured: failed calls (none allowed), and the
//! time until another store leads.

use std::time::{Duration, Instant};

use seqsvr_test_support::history::History;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::test_keys;
use seqsvr_test_support::wait::wait_until;

use crate::scenario::ScenarioOutcome;

const CALLS_PER_PHASE: u64 = 5_000;
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Kills and restarts the leader, then a follower. No call may fail.
pub async fn store_killed() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Load all sequences through every kind of caller.
    let mut cluster = ProcessCluster::start(3, 2, 3_000).await;
    let (callers, client) = crate::scenario::new_callers(&cluster, &cluster.alloc_addresses);
    test_keys::create_third_namespace(&client).await;
    let history = History::create(cluster.dir());
    let load = RecordedLoad::start(
        &history,
        test_keys::all_test_keys(),
        &callers,
        12,
        UNTIL_STOPPED,
    );
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;

    // 2. Kill the leader. Another store must lead, and calls are answered without it.
    let leader = cluster.leader().await;
    let killed = Instant::now();
    cluster.kill_store(leader);
    let answered = load.answered_calls();
    let other = wait_until("another leader", TEST_TIMEOUT, async || {
        let now = cluster.leader().await;
        (now != leader).then_some(now)
    })
    .await;
    let elected = killed.elapsed();
    outcome.note(format!(
        "leader {} killed; {} leads, seen after {elected:.2?}, {} calls answered until then",
        leader + 1,
        other + 1,
        load.answered_calls() - answered
    ));
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    outcome.calls_during_fault += load.answered_calls() - answered;

    // 3. The killed store catches up.
    restart_store(&mut cluster, leader, &mut outcome).await;
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;

    // 4. Kill a follower. Raises succeed without it.
    let raises = cluster
        .sum_counter(&cluster.alloc_addresses, "raises")
        .await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    cluster.kill_store(follower);
    let answered = load.answered_calls();
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    outcome.calls_during_fault += load.answered_calls() - answered;
    let raises = cluster
        .sum_counter(&cluster.alloc_addresses, "raises")
        .await
        - raises;
    outcome.note(format!(
        "follower {} killed; {raises} raises without it",
        follower + 1
    ));
    assert!(raises > 0, "the store was not needed");

    // 5. The killed follower catches up.
    restart_store(&mut cluster, follower, &mut outcome).await;
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;

    // 6. No call failed, and the history holds.
    let summary = load.stop().await;
    outcome.add_load("load", &summary);
    summary.assert_none_failed();
    cluster.assert_none_ended();
    let report = history.check();
    assert_eq!(report.answered_calls(), summary.answered);
    assert!(report.answered_calls() >= 5 * CALLS_PER_PHASE && report.ordered_pairs > 50_000);
    outcome
}

/// Restarts a killed store and notes how long it took to catch up.
async fn restart_store(cluster: &mut ProcessCluster, store: usize, outcome: &mut ScenarioOutcome) {
    let restarted = Instant::now();
    cluster.restart_store(store).await;
    outcome.note(format!(
        "store {} is back after {:.2?}",
        store + 1,
        restarted.elapsed()
    ));
}
