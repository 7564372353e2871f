//! The slow path runs on a separate runtime.
//!
//! The test blocks that runtime: numbers in memory must still be issued and leases renewed.

use std::sync::mpsc;
use std::time::Duration;

use seqsvr_alloc::{AllocEnvironment, AllocServer};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, new_caller, new_client, new_runtime, next_request, read_counter,
    wait_until_assigned,
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
    // Blocks its only thread until the test releases it.
    let (give_back, taken) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    background.spawn(async move {
        begun.send(()).unwrap();
        let _ = taken.recv();
    });
    has_begun.recv().unwrap();
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
    drop(give_back);
    assert_eq!(waits.await.unwrap().unwrap().first, 1);
    cluster.stop(&allocs).await;
    background.shutdown_timeout(Duration::ZERO);
}
