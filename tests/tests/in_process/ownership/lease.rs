//! Owners whose clock or link fails: an owner that may be stale does not answer, and even one whose
//! lease never ends by its clock issues no number twice.
//!
//! Fault: the test's clock jumps or stops, and the links to the stores are cut.

use std::collections::BTreeSet;
use std::time::Duration;

use seqsvr_client::{Code, Reason};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::NextRequest;
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, create_namespace, dense_namespace, expect_rejection, mark_forwarded,
    new_caller, new_client, next_request, read_counter, start_controlled_alloc,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_past_its_lease_answers_nothing_until_renewed() {
    // 1. The owner serves.
    let cluster = InProcessCluster::start(1, LEASE).await;
    let (alloc, clock, link) = start_controlled_alloc(&cluster, "a1").await;
    let mut plain = new_caller(&alloc).await;
    let last = plain
        .next(next_request("", 5))
        .await
        .unwrap()
        .into_inner()
        .last;
    let handed_out = read_counter(&alloc, "numbers_issued").await;

    // 2. Cut its link and let its lease expire: it rejects every call and takes no number.
    link.cut();
    clock.jump(LEASE);
    assert!(!alloc.has_lease());
    for _ in 0..20 {
        let (code, reason, text) =
            expect_rejection(plain.next(mark_forwarded(next_request("", 5))).await);
        assert_eq!(
            (code, reason),
            (Code::Unavailable, Reason::NoLease),
            "{text}"
        );
    }
    assert_eq!(read_counter(&alloc, "numbers_issued").await, handed_out);
    assert_eq!(
        read_counter(&alloc, "numbers_discarded").await,
        0,
        "an expired lease discards no number"
    );

    // 3. Heal the link: it serves again, above the earlier numbers.
    link.heal();
    // The session may have ended by now: then a new one is opened, and the section with it.
    let next = plain.next(next_request("", 5)).await.unwrap().into_inner();
    assert!(next.first > last && alloc.has_lease());
    cluster.stop(&[alloc]).await;
}

/// The opposite schedule: the clock stops, so the lease of the old owner never ends by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_with_stopped_clock_repeats_no_number() {
    // 1. An owner serves.
    let cluster = InProcessCluster::start(1, Duration::from_secs(1)).await;
    let (old, clock, link) = start_controlled_alloc(&cluster, "old").await;
    let both = [old.clone()];
    create_namespace(&both, &dense_namespace("fenced", 10, 1_000, 100)).await;
    let mut stale = new_caller(&old).await;
    let request = || mark_forwarded(next_request("fenced", 3));
    // Loaded by a caller that may wait for it.
    let mut handed_out = BTreeSet::from([stale
        .next(next_request("fenced", 3))
        .await
        .unwrap()
        .into_inner()
        .last]);

    // 2. Cut its link and stop its clock: another owner takes over, and both serve.
    link.cut();
    clock.freeze();
    assert!(old.has_lease());
    let new = cluster.start_allocs(["new"]).await;
    let served = new_client(&new);
    let first = served.namespace("fenced").next(3).await.unwrap();
    assert!(old.has_lease(), "by its own clock");

    // 3. A caller that has seen the new owner's number never gets a lower one.
    let causal = NextRequest {
        floor: Some(first.last),
        epoch: Some(first.epoch),
        ..next_request("fenced", 3)
    };
    let mut timed_request = tonic::Request::new(causal.clone());
    timed_request.set_timeout(Duration::from_millis(500));
    let (code, _, text) = expect_rejection(stale.next(timed_request).await);
    assert_eq!(code, Code::Unavailable, "{text}");

    // 4. The old owner serves the rest of its window, and no number twice.
    let (mut old_count, mut new_count) = (0, 0);
    let mut lowest_new = first.first;
    assert!(handed_out.insert(first.first));
    let fenced = loop {
        let mut timed_request = tonic::Request::new(request());
        timed_request.set_timeout(Duration::from_secs(1));
        match stale.next(timed_request).await {
            Ok(answer) => {
                let n = answer.into_inner().first;
                assert!(handed_out.insert(n), "{n} was handed out twice");
                assert!(
                    n < lowest_new,
                    "the new owner starts above every older window"
                );
                old_count += 1;
            }
            Err(status) => break RpcError::from_status(&status),
        }
        let n = served.namespace("fenced").next(3).await.unwrap().first;
        assert!(handed_out.insert(n), "{n} was handed out twice");
        lowest_new = lowest_new.min(n);
        new_count += 1;
    };
    println!("stopped clock: old owner {old_count} numbers, new {new_count}, then: {fenced}");
    assert!(old_count > 0 && old_count < 100, "at most its window");
    assert_eq!(fenced.reason(), Reason::WindowExhausted);

    // 5. Heal the link and the clock: the old owner forwards.
    link.heal();
    clock.thaw();
    let last = wait_until("the old owner to forward", TEST_TIMEOUT, async || {
        let answer = stale.next(causal.clone()).await.ok()?;
        Some(answer.into_inner().first)
    })
    .await;
    assert!(handed_out.insert(last) && last > first.first);
    cluster.stop(&[old, new[0].clone()]).await;
}
