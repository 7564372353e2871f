//! The same fault on all three stores at once.
//!
//! Fault: damage of stopped stores' directories, then failing disks (only as root). Checked: no
//! store serves, and after the repair no number repeats.

use super::damage::{ROWS, TRUTH, copy};
use super::live::Live;
use super::{ENDS_WITHIN, INSIDE, PATIENCE, Stage, ends_saying};
use crate::history::History;
use crate::load::{Load, UNTIL_STOPPED};
use crate::scenario::{Outcome, callers as callers_of};
use crate::subject;
use crate::wait::until;

/// Calls between the faults.
const BETWEEN: u64 = 2_000;

/// Applies each fault to all three stores at once: the cluster does not serve, and no number
/// repeats afterwards.
pub async fn disks_of_all() -> Outcome {
    let mut outcome = Outcome::default();
    let mut stage = Stage::set(&mut outcome).await;
    let (callers, _) = callers_of(&stage.cluster, &stage.cluster.alloc_addresses);
    let history = History::create(stage.cluster.dir());
    let between = async |stage: &mut Stage, outcome: &mut Outcome| {
        stage.cluster.whole(2).await;
        let load = Load::start(&history, subject::all(), &callers, 12, BETWEEN);
        let summary = load.finish().await;
        outcome.add("load between", &summary);
        assert_eq!(summary.failed, 0, "{:?}", summary.failures);
    };
    between(&mut stage, &mut outcome).await;
    for case in TRUTH {
        (0..3).for_each(|store| stage.stop(store));
        let mut last = String::new();
        for store in 0..3 {
            let data = stage.data(store);
            copy(&data, &stage.cluster.dir().join(format!("good-{store}")));
            let named = (case.damage)(&stage.case(store));
            stage.cluster.stores[store].restart();
            last = ends_saying(&mut stage.cluster.stores[store], &named, case.says).await;
        }
        outcome.note(format!("{} on all: {last}", case.name));
        for store in 0..3 {
            copy(
                &stage.cluster.dir().join(format!("good-{store}")),
                &stage.data(store),
            );
            stage.cluster.stores[store].restart();
        }
        between(&mut stage, &mut outcome).await;
    }
    for case in ROWS {
        (0..3).for_each(|store| stage.stop(store));
        for store in 0..3 {
            (case.damage)(&stage.case(store));
            stage.cluster.stores[store].restart();
        }
        outcome.note(format!("{} on all: rebuilt", case.name));
        between(&mut stage, &mut outcome).await;
    }
    if !stage.disks.is_empty() {
        for live in [Live::Full, Live::ReadOnly, Live::Dead] {
            all_fail(&mut stage, &history, live, &mut outcome).await;
            between(&mut stage, &mut outcome).await;
        }
    }
    stage.cluster.assert_none_ended();
    let report = history.check();
    assert!(report.answered() >= BETWEEN * TRUTH.len() as u64);
    outcome
}

/// Makes all disks fail under load. Calls then fail, and earlier answers must stay true.
async fn all_fail(stage: &mut Stage, history: &History, live: Live, outcome: &mut Outcome) {
    let (callers, _) = callers_of(&stage.cluster, &stage.cluster.alloc_addresses);
    let load = Load::start(history, subject::all(), &callers, 12, UNTIL_STOPPED);
    load.answer_more(INSIDE, PATIENCE).await;
    stage.strike(0..3, live).await;
    // After two stores have ended there is no majority: the third has nothing left to write and may
    // stay.
    let mut ended = Vec::new();
    until("two stores to end", ENDS_WITHIN, async || {
        ended = (0..3)
            .filter(|s| stage.cluster.stores[*s].has_ended())
            .collect();
        (ended.len() >= 2).then_some(())
    })
    .await;
    let mut last = String::new();
    for store in 0..3 {
        let data = stage.data(store);
        if ended.contains(&store) {
            last = ends_saying(&mut stage.cluster.stores[store], &data, &live.says()).await;
        } else {
            stage.stop(store);
        }
    }
    let summary = load.stop().await;
    outcome.calls += summary.answered;
    outcome.longest = outcome.longest.max(summary.longest.0);
    outcome.note(format!(
        "{live:?} on all, {} ended by themselves, {} calls answered, {} failed: {last}",
        ended.len(),
        summary.answered,
        summary.failed
    ));
    for store in 0..3 {
        live.mend(&mut stage.disks[store]);
        stage.cluster.stores[store].restart();
    }
}
