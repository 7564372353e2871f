//! The same fault on all three stores at once.
//!
//! Fault: damage of stopped stores' directories, then failing disks (only as root). Checked: no
//! store serves, and after the repair no number repeats.

use seqsvr_test_support::history::History;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::test_keys;
use seqsvr_test_support::wait::wait_until;

use super::damage::{AUTHORITATIVE_DAMAGE, ROWS_DAMAGE, replace_by_copy};
use super::live_fault::LiveFault;
use super::{
    CALLS_DURING_FAULT, DiskFaultCluster, STORE_EXIT_TIMEOUT, TEST_TIMEOUT, wait_for_failed_exit,
};
use crate::scenario::{ScenarioOutcome, new_callers};

/// Calls between the faults.
const CALLS_BETWEEN_FAULTS: u64 = 2_000;

/// Applies each fault to all three stores at once: the cluster does not serve, and no number
/// repeats afterwards.
pub async fn disk_faults_of_all_stores() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Load a cluster whose stores have a disk each.
    let mut setup = DiskFaultCluster::start(&mut outcome).await;
    let (callers, _) = new_callers(&setup.cluster, &setup.cluster.alloc_addresses);
    let history = History::create(setup.cluster.dir());
    let run_load = async |setup: &mut DiskFaultCluster, outcome: &mut ScenarioOutcome| {
        setup.cluster.wait_until_assigned(2).await;
        let load = RecordedLoad::start(
            &history,
            test_keys::all_test_keys(),
            &callers,
            12,
            CALLS_BETWEEN_FAULTS,
        );
        let summary = load.wait_until_done().await;
        outcome.add_load("load between", &summary);
        summary.assert_none_failed();
    };
    run_load(&mut setup, &mut outcome).await;

    // 2. Damage the directories of all stopped stores: all refuse to start.
    for case in AUTHORITATIVE_DAMAGE {
        (0..3).for_each(|store| setup.cluster.kill_store(store));
        let mut last = String::new();
        for store in 0..3 {
            let data = setup.data_dir(store);
            replace_by_copy(&data, &setup.cluster.dir().join(format!("good-{store}")));
            let named_path = (case.damage)(&setup.damage_point(store));
            setup.cluster.stores[store].restart();
            last = wait_for_failed_exit(
                &mut setup.cluster.stores[store],
                &named_path,
                case.expected_texts,
            )
            .await;
        }
        outcome.note(format!("{} on all: {last}", case.name));
        for store in 0..3 {
            replace_by_copy(
                &setup.cluster.dir().join(format!("good-{store}")),
                &setup.data_dir(store),
            );
            setup.cluster.stores[store].restart();
        }
        run_load(&mut setup, &mut outcome).await;
    }

    // 3. Damage the rows of all stores: they rebuild them.
    for case in ROWS_DAMAGE {
        (0..3).for_each(|store| setup.cluster.kill_store(store));
        for store in 0..3 {
            (case.damage)(&setup.damage_point(store));
            setup.cluster.stores[store].restart();
        }
        outcome.note(format!("{} on all: rebuilt", case.name));
        run_load(&mut setup, &mut outcome).await;
    }

    // 4. Make the disks of all running stores fail.
    if !setup.disks.is_empty() {
        for fault in [LiveFault::Full, LiveFault::ReadOnly, LiveFault::Dead] {
            fail_disks_of_all_stores(&mut setup, &history, fault, &mut outcome).await;
            run_load(&mut setup, &mut outcome).await;
        }
    }

    // 5. The history holds.
    setup.cluster.assert_none_ended();
    let report = history.check();
    assert!(report.answered_calls() >= CALLS_BETWEEN_FAULTS * AUTHORITATIVE_DAMAGE.len() as u64);
    outcome
}

/// Makes all disks fail under load. Calls then fail, and earlier answers must stay true.
async fn fail_disks_of_all_stores(
    setup: &mut DiskFaultCluster,
    history: &History,
    fault: LiveFault,
    outcome: &mut ScenarioOutcome,
) {
    // 1. Load the cluster, and make all disks fail.
    let (callers, _) = new_callers(&setup.cluster, &setup.cluster.alloc_addresses);
    let load = RecordedLoad::start(
        history,
        test_keys::all_test_keys(),
        &callers,
        12,
        UNTIL_STOPPED,
    );
    load.wait_for_calls(CALLS_DURING_FAULT, TEST_TIMEOUT).await;
    setup.inject_fault(0..3, fault).await;

    // 2. At least two stores end and name their disk.
    // After two stores have ended there is no majority: the third has nothing left to write and may
    // stay.
    let mut ended = Vec::new();
    wait_until("two stores to end", STORE_EXIT_TIMEOUT, async || {
        ended = (0..3)
            .filter(|s| setup.cluster.stores[*s].has_ended())
            .collect();
        (ended.len() >= 2).then_some(())
    })
    .await;
    let mut last = String::new();
    for store in 0..3 {
        let data = setup.data_dir(store);
        if ended.contains(&store) {
            last = wait_for_failed_exit(
                &mut setup.cluster.stores[store],
                &data,
                &fault.error_texts(),
            )
            .await;
        } else {
            setup.cluster.kill_store(store);
        }
    }

    // 3. Record the calls; some failed.
    let summary = load.stop().await;
    outcome.calls += summary.answered;
    outcome.longest = outcome.longest.max(summary.longest.0);
    outcome.note(format!(
        "{fault:?} on all, {} ended by themselves, {} calls answered, {} failed: {last}",
        ended.len(),
        summary.answered,
        summary.failed
    ));

    // 4. Repair the disks, and restart.
    for store in 0..3 {
        fault.repair(&mut setup.disks[store]);
        setup.cluster.stores[store].restart();
    }
}
