//! Every process is restarted in turn, as in an upgrade: no call fails.
//!
//! No fault is injected. In an acceptance run the new processes are a rebuilt binary. A cluster of
//! the newest build of format level 1 is upgraded as well, and one of any earlier build if its
//! binary is given.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seqsvr_client::{Client, ClientOptions, FamilyLimits, Reason};
use seqsvr_core::state::FORMAT_LEVEL_MAX;
use seqsvr_test_support::history::History;
use seqsvr_test_support::in_process::create_family;
use seqsvr_test_support::process::{ServerProcess, release_binary, upgrade_binary};
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::skip_probe::SkipProbe;
use seqsvr_test_support::test_keys;
use seqsvr_test_support::wait::wait_until;

use super::family_ids::{orders, take_rising};
use crate::scenario::ScenarioOutcome;

const CALLS_PER_PHASE: u64 = 1_000;
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Environment variable with the path of an earlier release binary of the present format level.
const PREVIOUS_BINARY: &str = "SEQSVR_PREVIOUS_BINARY";

/// Restarts three stores and three AllocSvrs in turn: SIGTERM, exit, start, wait until the cluster
/// is complete.
pub async fn rolling_restart() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();
    let (from, to) = match std::env::var_os(PREVIOUS_BINARY) {
        Some(previous) => {
            let previous: &'static Path = Box::leak(PathBuf::from(previous).into_boxed_path());
            (previous, release_binary())
        }
        None => (release_binary(), upgrade_binary()),
    };
    let target = match from == to {
        true => "the same build",
        false => {
            let (old, new) = (std::fs::read(from), std::fs::read(to));
            assert!(old.unwrap() != new.unwrap(), "a copy is no rebuilt binary");
            "another build"
        }
    };

    // 1. Load all sequences, and probe for skipped numbers.
    let mut cluster = ProcessCluster::start_with_binary(from, 3, 3).await;
    let (callers, client) = crate::scenario::new_retrying_callers(&cluster);
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
    let before = load.answered_calls();
    let began = Instant::now();

    // 2. Restart each store; it catches up.
    for store in 0..3 {
        restart_with_binary(&mut cluster.stores[store], to).await;
        cluster.wait_until_caught_up(store).await;
        load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    }

    // 3. Restart each AllocSvr; it gets its share.
    for alloc in 0..3 {
        restart_with_binary(&mut cluster.allocs[alloc], to).await;
        cluster.wait_until_assigned(3).await;
        load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    }
    outcome.calls_during_fault = load.answered_calls() - before;
    outcome.note(format!(
        "six processes restarted to {target} in {:.1?}",
        began.elapsed()
    ));

    // 4. No call failed, no window was skipped, and the history holds.
    let summary = load.stop().await;
    outcome.add_load("load", &summary);
    summary.assert_none_failed();
    super::planned_moves::assert_no_window_skipped(probe, &mut outcome).await;
    cluster.assert_none_ended();
    let report = history.check();
    assert!(report.ordered_pairs > 50_000);
    outcome
}

/// Upgrades a cluster of format level 1, see `upgrade_level`.
pub async fn level_1_upgrade() -> ScenarioOutcome {
    upgrade_level(1, "SEQSVR_LEVEL_1_BINARY", "d3f8c75").await
}

/// Upgrades a cluster of format level 2, see `upgrade_level`.
pub async fn level_2_upgrade() -> ScenarioOutcome {
    upgrade_level(2, "SEQSVR_LEVEL_2_BINARY", "9fafefaa").await
}

/// Upgrades a cluster of an older format level under load. A store returns to the older build while
/// the level is the old one, and families of ids are refused. The level rises once all stores run
/// the newer build, and the older build then refuses their directories.
///
/// The variable has the path of the newest release binary of that level, built from the commit.
async fn upgrade_level(old_level: u64, variable: &str, commit: &str) -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();
    let Some(old) = std::env::var_os(variable) else {
        outcome.note(format!(
            "skipped: {variable} names no binary of commit {commit}"
        ));
        return outcome;
    };
    let old: &'static Path = Box::leak(PathBuf::from(old).into_boxed_path());

    // 1. Load a cluster of the older build.
    let mut cluster = ProcessCluster::start_with_binary(old, 3, 2).await;
    let (callers, client) = crate::scenario::new_retrying_callers(&cluster);
    test_keys::create_third_namespace(&client).await;
    let history = History::create(cluster.dir());
    let load = RecordedLoad::start(
        &history,
        test_keys::all_test_keys(),
        &callers,
        6,
        UNTIL_STOPPED,
    );
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    let before = load.answered_calls();

    // 2. Upgrade two stores, with one return to the older build: the level stays.
    for (store, to) in [
        (0, release_binary()),
        (1, release_binary()),
        (1, old),
        (1, release_binary()),
    ] {
        restart_with_binary(&mut cluster.stores[store], to).await;
        cluster.wait_until_caught_up(store).await;
        load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    }
    // Families are refused, also by a leader that knows them.
    let admin = cluster.new_client().admin();
    wait_until("an upgraded leader", TEST_TIMEOUT, async || {
        // It may be the leader already.
        let _ = admin.transfer_leader(Some(1)).await;
        (cluster.leader().await == 0).then_some(())
    })
    .await;
    let upgraded = Client::new(ClientOptions::new([cluster.store_addresses[0].clone()]));
    let upgraded = upgraded.expect("a good address").admin();
    let refused = upgraded
        .create_family(&orders(), FamilyLimits::DEFAULT)
        .await;
    let refused = refused.expect_err("the level is too low");
    assert_eq!(refused.reason(), Reason::LevelTooLow, "{refused}");
    // Builds of level 1 do not report the level.
    assert!(
        read_format_levels(&cluster)
            .await
            .iter()
            .all(|level| *level == Some(old_level) || level.is_none())
    );

    // 3. Upgrade the last store: the level rises.
    restart_with_binary(&mut cluster.stores[2], release_binary()).await;
    let newest = u64::from(FORMAT_LEVEL_MAX);
    wait_until("the new level on all stores", TEST_TIMEOUT, async || {
        let levels = read_format_levels(&cluster).await;
        let is_newest = levels.iter().all(|level| *level == Some(newest));
        is_newest.then_some(())
    })
    .await;

    // 4. Upgrade the AllocSvrs.
    for alloc in 0..2 {
        restart_with_binary(&mut cluster.allocs[alloc], release_binary()).await;
        cluster.wait_until_assigned(2).await;
        load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    }
    outcome.calls_during_fault = load.answered_calls() - before;
    create_family(&admin, &orders()).await;
    let mut greatest = 0;
    take_rising(&client, &mut greatest).await;

    // 5. The older build refuses the directory of the new level, with the reason.
    let store = (cluster.leader().await + 1) % 3;
    restart_with_binary(&mut cluster.stores[store], old).await;
    let status = cluster.stores[store].wait_for_exit(TEST_TIMEOUT).await;
    let log = cluster.stores[store].log();
    let last_line = log.lines().last().unwrap_or_default();
    assert!(!status.success(), "{status}: {last_line}");
    assert!(
        last_line.contains(&format!("format version {newest} is unknown to this build")),
        "{last_line}"
    );

    // 6. The store continues with the newer build, no call failed, and the history holds.
    cluster.stores[store].set_binary(release_binary());
    cluster.stores[store].restart();
    cluster.wait_until_caught_up(store).await;
    take_rising(&client, &mut greatest).await;
    let summary = load.stop().await;
    outcome.add_load("load", &summary);
    summary.assert_none_failed();
    cluster.assert_none_ended();
    history.check();
    outcome
}

/// Returns the format level that each store reports.
async fn read_format_levels(cluster: &ProcessCluster) -> Vec<Option<u64>> {
    let admin = cluster.new_client().admin();
    let mut levels = Vec::new();
    for address in &cluster.store_addresses {
        let status = admin.node_status(address).await.ok();
        levels.push(status.and_then(|s| s.counters.get("raft_format_level").copied()));
    }
    levels
}

async fn restart_with_binary(process: &mut ServerProcess, to: &'static Path) {
    let status = process.stop(TEST_TIMEOUT).await;
    assert!(status.success(), "{status}");
    process.set_binary(to);
    process.restart();
}
