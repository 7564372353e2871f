//! Three stores: leader hints, spread of slots, shared log entries, and sessions across failures.
//!
//! Fault: the leader, a majority or an AllocSvr stops. Checked: no session ends by it but that of
//! the stopped AllocSvr.

use std::collections::HashMap;
use std::time::Instant;

use futures::future::join_all;
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::section_reply::Reply;
use seqsvr_proto::v1::{self, Reason};
use seqsvr_test_support::in_process::SLOTS;
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

use crate::fake_alloc::{FakeAlloc, open_command, raise_command};
use crate::store_cluster::start_cluster;

fn slots_by_name(table: &RoutingTable) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for owner in table.routes().filter_map(|(_, r)| r.owner.as_ref()) {
        *counts.entry(owner.name.clone()).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follower_names_the_leader() {
    let cluster = start_cluster(3).await;
    let leader = cluster.leader().await;
    let address = cluster.addresses[leader].to_string();
    for i in (0..3).filter(|i| *i != leader) {
        let mut store = cluster.store_client(i).await;
        wait_until("the leader's hint", TEST_TIMEOUT, async || {
            let request = v1::KeepAliveRequest {
                session: 1,
                table_version: 0,
                draining: false,
                cluster_tag: 0,
            };
            let fault = RpcError::from_status(&store.keep_alive(request).await.unwrap_err());
            assert_eq!(fault.reason(), Reason::NotLeader, "{fault}");
            (fault.detail.leader == address).then_some(())
        })
        .await;
    }
    let mut admin = cluster.admin_client(leader).await;
    let status = admin
        .cluster_status(v1::ClusterStatusRequest {})
        .await
        .unwrap();
    let status = status.into_inner();
    assert_eq!((status.stores.len(), status.free_slots), (3, SLOTS));
    assert_eq!(status.stores.iter().filter(|s| s.leader).count(), 1);
    // Init is repeated at another member: harmless.
    let request = cluster.init_request(7).await;
    cluster
        .store_client((leader + 1) % 3)
        .await
        .init(request)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simultaneous_raises_share_few_entries() {
    // 1. Two AllocSvrs open 5,000 sections each.
    let cluster = start_cluster(3).await;
    let allocs = [
        FakeAlloc::open_renewing("a1", &cluster.addresses)
            .await
            .unwrap(),
        FakeAlloc::open_renewing("a2", &cluster.addresses)
            .await
            .unwrap(),
    ];
    for alloc in &allocs {
        alloc
            .wait_for_table("an even spread", |t| {
                slots_by_name(t)
                    .values()
                    .filter(|n| **n == SLOTS as usize / 2)
                    .count()
                    == 2
            })
            .await;
    }
    let sections: Vec<(&FakeAlloc, Vec<v1::Fence>)> =
        allocs.iter().map(|a| (a, a.fences(5_000))).collect();
    // Every AllocSvr sends what it has in full Submits, all at the same time.
    let submit_all = async |make: fn(v1::Fence) -> v1::SectionCommand| {
        let submits = sections.iter().flat_map(|(alloc, fences)| {
            let chunks = fences
                .chunks(1_000)
                .map(|c| c.iter().copied().map(make).collect());
            chunks.map(|commands: Vec<_>| alloc.submit(commands))
        });
        let replies = join_all(submits).await;
        replies
            .into_iter()
            .flat_map(Result::unwrap)
            .collect::<Vec<_>>()
    };
    let opened = submit_all(open_command).await;
    assert!(
        opened
            .iter()
            .all(|r| matches!(r, Reply::Opened(o) if o.generation == 1))
    );

    // 2. Raise all of them at once. The leader may change during that time if the machine is busy,
    // so the counters of all stores count.
    let store_counters = || join_all((0..3).map(|store| cluster.store_counters(store)));
    let before = store_counters().await;
    let begun = Instant::now();
    let raised = submit_all(|fence| raise_command(fence, 1, 1_000)).await;
    let took = begun.elapsed();
    assert_eq!(raised.len(), 10_000);
    assert!(
        raised
            .iter()
            .all(|r| matches!(r, Reply::Raised(r) if r.max_seq == 1_000))
    );

    // 3. The raises shared few log entries.
    let after = store_counters().await;
    let grew = |name: &str| -> u64 {
        let stores = before.iter().zip(&after);
        stores
            .map(|(before, after)| after[name] - before[name])
            .sum()
    };
    println!(
        "10,000 raises at once: {} entries, {} log syncs on three stores, {took:?}",
        grew("proposer_raise_entries"),
        grew("raft_log_syncs"),
    );
    assert!(grew("proposer_raises") >= 10_000);
    assert!(grew("proposer_raise_entries") <= 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_loss_ends_no_session_and_dead_session_slots_move() {
    // 1. Three AllocSvrs own all slots.
    let mut cluster = start_cluster(3).await;
    let mut allocs = Vec::new();
    for name in ["a1", "a2", "a3"] {
        allocs.push(
            FakeAlloc::open_renewing(name, &cluster.addresses)
                .await
                .unwrap(),
        );
    }
    let owned = |t: &RoutingTable| slots_by_name(t).values().sum::<usize>() == SLOTS as usize;
    allocs[0].wait_for_table("all slots owned", owned).await;
    let before = slots_by_name(allocs[0].table.borrow().as_ref().unwrap());
    println!("spread {before:?}");
    let fence = allocs[0].fences(1)[0];
    allocs[0].submit(vec![open_command(fence)]).await.unwrap();

    // 2. Stop the leader: a raise succeeds, every session renews, and no slot moves.
    let leader = cluster.leader().await;
    cluster.stop_store(leader).await;
    let begun = Instant::now();
    let replies = allocs[0]
        .submit(vec![raise_command(fence, 1, 1_000)])
        .await
        .unwrap();
    assert!(matches!(&replies[0], Reply::Raised(r) if r.max_seq == 1_000));
    println!("raised {:?} after the leader was gone", begun.elapsed());
    // Every session renews at the new leader and none is ended, well past W.
    for alloc in &allocs {
        let mut renewed = alloc.renewed.clone();
        let later = begun + std::time::Duration::from_millis(1_500);
        let wait = renewed.wait_for(|at| at.is_some_and(|at| at > later));
        let waited = tokio::time::timeout(TEST_TIMEOUT, wait).await;
        assert!(waited.is_ok_and(|w| w.is_ok()), "a session ended");
    }
    assert_eq!(
        slots_by_name(allocs[0].table.borrow().as_ref().unwrap()),
        before
    );

    // 3. Stop an AllocSvr: its slots go to the others.
    allocs[2].kill();
    let dead = Instant::now();
    allocs[0]
        .wait_for_table("the dead one's slots", |t| {
            let now = slots_by_name(t);
            now.values().sum::<usize>() == SLOTS as usize
                && now.len() == 2
                && now.values().all(|n| *n == SLOTS as usize / 2)
        })
        .await;
    println!("slots moved {:?} after the death", dead.elapsed());

    // 4. Restart the store: it has the table, and its streams end with it.
    cluster.restart_store(leader).await;
    let mut back = cluster.store_client(leader).await;
    let known = allocs[0].table.borrow().as_ref().unwrap().version();
    let mut stream = back
        .watch(v1::WatchRequest {
            table_version: 0,
            cluster_tag: 0,
        })
        .await
        .unwrap()
        .into_inner();
    wait_until("the restarted store's table", TEST_TIMEOUT, async || {
        let message = stream.message().await.unwrap().unwrap();
        (message.version >= known).then_some(())
    })
    .await;
    // Streams end with their store, and an open stream does not delay the store.
    cluster.stop_store(leader).await;
    while let Ok(Some(_)) = stream.message().await {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_quorum_ends_no_session() {
    // 1. An AllocSvr owns all slots.
    let mut cluster = start_cluster(3).await;
    let alloc = FakeAlloc::open_renewing("a1", &cluster.addresses)
        .await
        .unwrap();
    let owned = |t: &RoutingTable| slots_by_name(t).values().sum::<usize>() == SLOTS as usize;
    alloc.wait_for_table("all slots owned", owned).await;
    let leader = cluster.leader().await;

    // 2. Stop two stores: no lease is granted, for much longer than W.
    let others: Vec<usize> = (0..3).filter(|i| *i != leader).collect();
    for i in &others {
        cluster.stop_store(*i).await;
    }
    let lost = Instant::now();
    // No lease is granted without a quorum, for much longer than W.
    let mut store = cluster.store_client(leader).await;
    let request = v1::KeepAliveRequest {
        session: alloc.session,
        table_version: 0,
        draining: false,
        cluster_tag: 0,
    };
    while lost.elapsed() < std::time::Duration::from_millis(2_000) {
        let status = store.keep_alive(request).await.unwrap_err();
        let reason = RpcError::from_status(&status).reason();
        assert!(
            matches!(reason, Reason::Unreachable | Reason::NotLeader),
            "{status}"
        );
    }

    // 3. Restart them: the session renews and keeps its slots.
    for i in others {
        cluster.restart_store(i).await;
    }
    let regained = Instant::now();
    let mut renewed = alloc.renewed.clone();
    let later = regained + std::time::Duration::from_millis(1_500);
    let wait = renewed.wait_for(|at| at.is_some_and(|at| at > later));
    let waited = tokio::time::timeout(TEST_TIMEOUT, wait).await;
    assert!(waited.is_ok_and(|w| w.is_ok()), "the session ended");
    assert_eq!(alloc.slots().len(), SLOTS as usize);
}
