//! The StoreSvr leader is killed under load, then a follower: no call fails.
//!
//! Fault: SIGKILL of one store of three at a time. Measured: failed calls (none allowed), and the
//! time until another store leads.

use std::time::{Duration, Instant};

use super::Outcome;
use crate::cluster::Cluster;
use crate::history::History;
use crate::load::{Load, UNTIL_STOPPED};
use crate::subject;
use crate::wait::until;

const EACH: u64 = 5_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// Kills and restarts the leader, then a follower. No call may fail.
pub async fn store_killed() -> Outcome {
    let mut outcome = Outcome::default();
    let mut cluster = Cluster::start(3, 2, 3_000).await;
    let (callers, client) = super::callers(&cluster, &cluster.alloc_addresses);
    subject::make_third(&client).await;
    let history = History::create(cluster.dir());
    let load = Load::start(&history, subject::all(), &callers, 12, UNTIL_STOPPED);
    load.answer_more(EACH, PATIENCE).await;

    let leader = cluster.leader().await;
    let killed = Instant::now();
    cluster.stores[leader].kill();
    cluster.stores[leader].reap();
    let answered = load.answered();
    let other = until("another leader", PATIENCE, async || {
        let now = cluster.leader().await;
        (now != leader).then_some(now)
    })
    .await;
    let elected = killed.elapsed();
    outcome.note(format!(
        "leader {} killed; {} leads, seen after {elected:.2?}, {} calls answered meanwhile",
        leader + 1,
        other + 1,
        load.answered() - answered
    ));
    load.answer_more(EACH, PATIENCE).await;
    outcome.inside += load.answered() - answered;
    restart(&mut cluster, leader, &mut outcome).await;
    load.answer_more(EACH, PATIENCE).await;

    let raises = cluster.counter(&cluster.alloc_addresses, "raises").await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    cluster.stores[follower].kill();
    cluster.stores[follower].reap();
    let answered = load.answered();
    load.answer_more(EACH, PATIENCE).await;
    outcome.inside += load.answered() - answered;
    let raises = cluster.counter(&cluster.alloc_addresses, "raises").await - raises;
    outcome.note(format!(
        "follower {} killed; {raises} raises without it",
        follower + 1
    ));
    assert!(raises > 0, "the store was not needed");
    restart(&mut cluster, follower, &mut outcome).await;
    load.answer_more(EACH, PATIENCE).await;

    let summary = load.stop().await;
    outcome.add("load", &summary);
    assert_eq!(summary.failed, 0, "{:?}", summary.failures);
    cluster.assert_none_ended();
    let report = history.check();
    assert_eq!(report.answered(), summary.answered);
    assert!(report.answered() >= 5 * EACH && report.ordered_pairs > 50_000);
    outcome
}

/// Restarts a killed store and waits until it has applied what the leader has applied by now.
async fn restart(cluster: &mut Cluster, store: usize, outcome: &mut Outcome) {
    let applied = async |cluster: &Cluster, store: usize| {
        let address = std::slice::from_ref(&cluster.store_addresses[store]);
        cluster.counter(address, "raft_applied_index").await
    };
    let goal = applied(cluster, cluster.leader().await).await;
    let restarted = Instant::now();
    cluster.stores[store].restart();
    until("the restarted store to catch up", PATIENCE, async || {
        (applied(cluster, store).await >= goal).then_some(())
    })
    .await;
    outcome.note(format!(
        "store {} is back after {:.2?}, at entry {goal}",
        store + 1,
        restarted.elapsed()
    ));
}
