//! The StoreSvr leader is killed under load, and then a follower: no caller sees an error.

use std::time::{Duration, Instant};

use seqsvr_tests::cluster::Cluster;
use seqsvr_tests::history::History;
use seqsvr_tests::load::{Load, UNTIL_STOPPED};
use seqsvr_tests::subject;
use seqsvr_tests::wait::until;

const EACH: u64 = 5_000;
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_when_a_store_is_killed() {
    let _alone = crate::ALONE.lock().await;
    let mut cluster = Cluster::start(3, 2, 3_000).await;
    let (callers, client) = crate::callers(&cluster, &cluster.alloc_addresses);
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
    println!(
        "leader {} killed; {} leads, seen after {elected:.2?}, {} calls answered meanwhile",
        leader + 1,
        other + 1,
        load.answered() - answered
    );
    load.answer_more(EACH, PATIENCE).await;
    restart(&mut cluster, leader).await;
    load.answer_more(EACH, PATIENCE).await;

    let raises = cluster.counter(&cluster.alloc_addresses, "raises").await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    cluster.stores[follower].kill();
    cluster.stores[follower].reap();
    load.answer_more(EACH, PATIENCE).await;
    let raises = cluster.counter(&cluster.alloc_addresses, "raises").await - raises;
    println!(
        "follower {} killed; {raises} raises without it",
        follower + 1
    );
    assert!(raises > 0, "the store was not needed");
    restart(&mut cluster, follower).await;
    load.answer_more(EACH, PATIENCE).await;

    let summary = load.stop().await;
    crate::tell("load", &summary);
    println!("longest call: {:.3?}", summary.longest.0);
    assert_eq!(summary.failed, 0, "{:?}", summary.failures);
    cluster.assert_none_ended();
    let report = history.check();
    assert_eq!(report.answered(), summary.answered);
    assert!(report.answered() >= 5 * EACH && report.ordered_pairs > 50_000);
}

/// Starts a killed store again and waits until it has applied what the leader had applied then.
async fn restart(cluster: &mut Cluster, store: usize) {
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
    println!(
        "store {} is back after {:.2?}, at entry {goal}",
        store + 1,
        restarted.elapsed()
    );
}
