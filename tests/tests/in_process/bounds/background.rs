//! The slow path, the lease, and Raft run on runtimes of their own.
//!
//! The tests block the runtimes of other work: numbers in memory must still be issued, leases
//! renewed, and no store may be elected.

use std::time::{Duration, Instant};

use seqsvr_alloc::{AllocEnvironment, AllocServer};
use seqsvr_test_support::in_process::{
    BlockedThreads, InProcessCluster, LEASE, new_caller, new_client, new_runtime, next_request,
    read_counter, wait_until_assigned,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

/// Lease renewals that must succeed during that time: more than one lease's worth.
const RENEWALS: u64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_background_runtime_keeps_memory_served_and_lease_renewed() {
    // 1. An AllocSvr with a background runtime of its own serves.
    let cluster = InProcessCluster::start(1, LEASE).await;
    let background = new_runtime(1);
    let environment = AllocEnvironment {
        background: Some(background.handle().clone()),
        ..AllocEnvironment::system()
    };
    let started = AllocServer::start_in(cluster.alloc_options("a1"), environment).await;
    let allocs = [started.unwrap()];
    let alloc = &allocs[0];
    wait_until_assigned(&allocs).await;
    let mut plain = new_caller(alloc).await;
    let client = new_client(&allocs).with_deadline(TEST_TIMEOUT);
    let first = plain
        .next(next_request("", 5))
        .await
        .unwrap()
        .into_inner()
        .first;

    // 2. Block that runtime: calls from memory are answered, and the lease is renewed.
    let blocked = BlockedThreads::block(&background, 1);
    let other = client.clone();
    let waits = tokio::spawn(async move { other.default_namespace().next(90_000_000).await });
    let before = read_counter(alloc, "lease_renewals").await;
    let sessions = read_counter(alloc, "sessions_opened").await;
    let mut last = first;
    wait_until("keep-alives", TEST_TIMEOUT, async || {
        let one = tokio::time::timeout(LEASE / 3, plain.next(next_request("", 5))).await;
        let one = one.expect("at once").unwrap().into_inner().first;
        let two = tokio::time::timeout(LEASE / 3, client.default_namespace().next(5)).await;
        let two = two.expect("at once").unwrap().first;
        assert_eq!((one, two), (last + 1, last + 2));
        last = two;
        assert!(alloc.has_lease());
        (read_counter(alloc, "lease_renewals").await >= before + RENEWALS).then_some(())
    })
    .await;
    assert!(
        !waits.is_finished(),
        "a section was opened without a thread"
    );
    assert_eq!(read_counter(alloc, "sessions_opened").await, sessions);

    // 3. Release it: the call for a new section is answered.
    drop(blocked);
    assert_eq!(waits.await.unwrap().unwrap().first, 1);
    cluster.stop(&allocs).await;
    background.shutdown_timeout(Duration::ZERO);
}

/// Schedule: calls keep all threads busy that answer calls, at the AllocSvr and at the stores, for
/// longer than the lease and the takeover wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_call_threads_end_no_lease_and_no_leadership() {
    // 1. An AllocSvr with a runtime for the lease and one for everything else serves.
    let cluster = InProcessCluster::start(3, LEASE).await;
    let (calls, lease) = (new_runtime(1), new_runtime(1));
    let environment = AllocEnvironment {
        lease: Some(lease.handle().clone()),
        ..AllocEnvironment::system()
    };
    let starting = AllocServer::start_in(cluster.alloc_options("a1"), environment);
    let allocs = [calls.spawn(starting).await.unwrap().unwrap()];
    let alloc = &allocs[0];
    wait_until_assigned(&allocs).await;
    let leader = cluster.leader().await;
    let read_term = async || cluster.store_counters(leader).await["raft_term"];
    let (term, renewals) = (
        read_term().await,
        read_counter(alloc, "lease_renewals").await,
    );

    // 2. Block both runtimes of calls: the lease holds all the time.
    let blocked = (
        BlockedThreads::block(&calls, 1),
        cluster.block_call_threads(),
    );
    let until = Instant::now() + 2 * LEASE;
    while Instant::now() < until {
        assert!(alloc.has_lease(), "no lease");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    // 3. Release them: it was renewed in the meantime, in the same session and term.
    drop(blocked);
    let renewed = read_counter(alloc, "lease_renewals").await - renewals;
    assert!(renewed >= 4, "renewed {renewed} times");
    assert_eq!(read_counter(alloc, "sessions_opened").await, 1);
    assert_eq!(read_term().await, term, "another election");
    assert_eq!(cluster.leader().await, leader);
    cluster.stop(&allocs).await;
    for runtime in [calls, lease] {
        runtime.shutdown_timeout(Duration::ZERO);
    }
}
