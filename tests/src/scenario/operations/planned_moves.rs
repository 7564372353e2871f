//! Operators drain, stop, add and move AllocSvrs under load.
//!
//! No fault is injected. Measured: no call fails, and no sequence rises above the highest used
//! number of its section.

use std::time::{Duration, Instant};

use crate::scenario::ScenarioOutcome;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use seqsvr_test_support::history::History;
use seqsvr_test_support::process::run_command;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::skip_probe::SkipProbe;
use seqsvr_test_support::test_keys;
use seqsvr_test_support::wait::wait_until;

/// Calls during each operation.
const CALLS_PER_PHASE: u64 = 1_000;
const TEST_TIMEOUT: Duration = Duration::from_secs(90);
const MOVES: usize = 200;

/// Runs a drain, a SIGTERM, the start of a third AllocSvr that gets its share, and 200 random
/// moves.
pub async fn planned_moves() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Load all sequences, and probe for skipped numbers.
    let mut cluster = ProcessCluster::start(3, 3, 3_000).await;
    // Plain callers do not call a3, which is stopped later.
    let plain_addresses = cluster.alloc_addresses[..2].to_vec();
    let (callers, client) = crate::scenario::new_callers(&cluster, &plain_addresses);
    test_keys::create_third_namespace(&client).await;
    let history = History::create(cluster.dir());
    let load = RecordedLoad::start(
        &history,
        test_keys::all_test_keys(),
        &callers,
        6,
        UNTIL_STOPPED,
    );
    let probe = SkipProbe::start(&history, &client).await;
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    let admin = client.admin();
    let slots = async |name: &str| {
        let status = admin.cluster_status().await.ok()?;
        let session = status.sessions.into_iter().find(|s| s.name == name);
        Some((session?.slots, status.free_slots, status.moves_planned))
    };

    // 2. Drain a3, and undo the drain.
    let (began, before) = (Instant::now(), load.answered_calls());
    let server = cluster.alloc_addresses[0].clone();
    let drained = run_command(&[
        "slot",
        "drain",
        "a3",
        "--timeout",
        "60s",
        "--server",
        &server,
    ])
    .await;
    assert!(drained.status.success(), "{drained:?}");
    assert_eq!(slots("a3").await.expect("it lives").0, 0);
    outcome.note(format!("a3 drained in {:.2?}", began.elapsed()));
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    let undone = run_command(&["slot", "drain", "a3", "--cancel", "--server", &server]).await;
    assert!(undone.status.success(), "{undone:?}");
    wait_for_even_share(&slots, "a3").await;
    outcome.note(format!(
        "a3 has its share again after {:.2?}",
        began.elapsed()
    ));
    outcome.calls_during_fault += load.answered_calls() - before;

    // 3. Stop a3 by SIGTERM.
    let (began, before) = (Instant::now(), load.answered_calls());
    let status = cluster.allocs[2].stop(TEST_TIMEOUT).await;
    assert!(status.success(), "{status}");
    outcome.note(format!("a3 ended {:.2?} after SIGTERM", began.elapsed()));
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    outcome.calls_during_fault += load.answered_calls() - before;

    // 4. Restart a3: it gets its share.
    let (began, before) = (Instant::now(), load.answered_calls());
    cluster.allocs[2].restart();
    wait_for_even_share(&slots, "a3").await;
    outcome.note(format!(
        "a3 joined and has its share after {:.2?}",
        began.elapsed()
    ));
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    outcome.calls_during_fault += load.answered_calls() - before;

    // 5. Move random slots by hand.
    let (began, before) = (Instant::now(), load.answered_calls());
    let mut rng = SmallRng::seed_from_u64(before);
    for i in 0..MOVES {
        let (slot, to) = (rng.random_range(0..1_024), rng.random_range(1..=3));
        let moved = admin.move_slot(slot, &format!("a{to}")).await;
        moved.unwrap_or_else(|e| panic!("move {i}, of slot {slot} to a{to}: {e}"));
    }
    outcome.note(format!("{MOVES} moves in {:.2?}", began.elapsed()));
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    outcome.calls_during_fault += load.answered_calls() - before;
    let moves = cluster
        .sum_counter(&cluster.alloc_addresses, "slots_moved")
        .await;
    assert!(moves >= MOVES as u64 / 2, "{moves} moves were made");

    // 6. No call failed, no window was skipped, and the history holds.
    let summary = load.stop().await;
    outcome.add_load("load", &summary);
    summary.assert_none_failed();
    assert_no_window_skipped(probe, &mut outcome).await;
    cluster.assert_none_ended();
    let report = history.check();
    assert!(report.ordered_pairs > 50_000);
    outcome
}

/// Waits until an AllocSvr has its share and no further move is planned.
async fn wait_for_even_share(slots: &impl AsyncFn(&str) -> Option<(u32, u32, u32)>, name: &str) {
    wait_until("even shares", TEST_TIMEOUT, async || {
        let (owned, free, planned) = slots(name).await?;
        (owned >= 300 && free == 0 && planned == 0).then_some(())
    })
    .await;
}

/// Ends the probe. Skipped numbers may be those discarded by a check that failed after they were
/// taken, never a window.
pub(super) async fn assert_no_window_skipped(probe: SkipProbe, outcome: &mut ScenarioOutcome) {
    let (answered, skipped) = probe.stop().await;
    outcome.calls += answered;
    outcome.note(format!("probe: {answered} numbers, {skipped} skipped"));
    assert!(answered >= 1_000, "the probe made {answered} calls only");
    assert!(
        skipped <= 100,
        "{skipped} numbers were skipped: a high-water mark was lost"
    );
}
