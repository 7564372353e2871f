//! Overload: items that would have to wait beyond the limit are rejected with a retry hint.
//!
//! The stores are stopped, so that items wait. Items in memory are served, and one connection
//! leaves room for others.

use std::time::Duration;

use seqsvr_client::{Client, Code, Key, NextItem, Reason};
use seqsvr_proto::v1::{NextManyRequest, NextManyResponse};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, expect_rejection, new_caller, next_request, read_counter, start_alloc,
    wait_until_assigned,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tonic::Request;

const ITEMS: u64 = 100;

/// Returns a batch with one uid of each of 100 sections.
fn batch_request(first: u64) -> NextManyRequest {
    NextManyRequest {
        uids: (0..ITEMS).map(|i| (first + i) * 100_000).collect(),
        ..NextManyRequest::default()
    }
}

/// Asserts that all items were rejected with a retry hint. Returns the error text.
fn assert_all_rejected(answer: &NextManyResponse) -> &str {
    assert_eq!(answer.errors.len() as u64, ITEMS);
    for error in &answer.errors {
        assert_eq!(
            (Code::from_i32(error.code), error.reason()),
            (Code::ResourceExhausted, Reason::Overloaded)
        );
        assert!(error.retry_after_ms > 0, "{error:?}");
    }
    &answer.errors[0].message
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_items_over_limit_are_rejected_and_loaded_ones_served() {
    // 1. An AllocSvr has one loaded section, and no store runs.
    // A long lease: the loaded section is served while no store runs.
    let mut cluster = InProcessCluster::start(1, 10 * LEASE).await;
    let alloc = start_alloc(seqsvr_alloc::Options {
        batch_items_max: ITEMS as usize,
        queued_items_max: 4 * ITEMS as usize,
        ..cluster.alloc_options("a1")
    })
    .await;
    let allocs = [alloc.clone()];
    wait_until_assigned(&allocs).await;
    let mut caller = new_caller(&alloc).await;
    caller.next(next_request("", 7)).await.unwrap();
    cluster.stop_stores().await;

    // 2. Each of four connections uses its whole share; its items wait for a store.
    let timeout = Duration::from_secs(6);
    let mut waiting = Vec::new();
    let mut connections = vec![caller.clone()];
    for n in 1..=4 {
        if n > 1 {
            connections.push(new_caller(&alloc).await);
        }
        let mut connection = connections[n as usize - 1].clone();
        let mut request = Request::new(batch_request(n * 1_000));
        request.set_timeout(timeout);
        waiting.push(tokio::spawn(
            async move { connection.next_many(request).await },
        ));
        wait_until("places taken", TEST_TIMEOUT, async || {
            (read_counter(&alloc, "queued_items").await == n * ITEMS).then_some(())
        })
        .await;
        if n == 1 {
            let more = caller
                .next_many(batch_request(9_000))
                .await
                .unwrap()
                .into_inner();
            let text = assert_all_rejected(&more);
            assert!(text.contains("of this connection"), "{text}");
        }
    }

    // 3. A fifth connection finds no place: its items are rejected with a hint.
    let mut fifth = new_caller(&alloc).await;
    let more = fifth
        .next_many(batch_request(9_000))
        .await
        .unwrap()
        .into_inner();
    let text = assert_all_rejected(&more);
    assert!(text.contains("--queued-items-max"), "{text}");
    let (code, reason, _) = expect_rejection(fifth.next(next_request("", 900_000_000)).await);
    assert_eq!(
        (code, reason),
        (Code::ResourceExhausted, Reason::Overloaded)
    );
    // An unknown name would have to wait for a newer table.
    let (code, ..) = expect_rejection(fifth.next(next_request("nosuch", 1)).await);
    assert_eq!(code, Code::ResourceExhausted);

    // 4. Loaded items are served, alone and next to others.
    fifth.next(next_request("", 7)).await.unwrap();
    let mut mixed = batch_request(9_000);
    mixed.uids[5] = 7;
    let answer = fifth.next_many(mixed).await.unwrap().into_inner();
    assert_eq!(answer.firsts[5], 3);
    assert_eq!(answer.errors.len() as u64, ITEMS - 1);

    // 5. The waiting items end at their deadline, and their places are free again.
    for call in waiting {
        match call.await.unwrap() {
            Ok(answer) => {
                let errors = answer.into_inner().errors;
                assert!(errors.iter().all(|e| e.reason() == Reason::WindowExhausted));
            }
            // On a busy machine the caller's end may give up before the answer arrives.
            Err(status) => assert_eq!(status.code(), Code::Cancelled, "{status:?}"),
        }
    }
    wait_until("places given back", TEST_TIMEOUT, async || {
        (read_counter(&alloc, "queued_items").await == 0).then_some(())
    })
    .await;
    assert!(read_counter(&alloc, "queue_rejections").await >= 4);
    cluster.stop(&[]).await;
}

/// More batches at once than permitted: the client retries after the hint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_retries_after_the_hint() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let alloc = start_alloc(seqsvr_alloc::Options {
        batch_items_max: ITEMS as usize,
        queued_items_max: 1,
        ..cluster.alloc_options("a1")
    })
    .await;
    let allocs = [alloc.clone()];
    wait_until_assigned(&allocs).await;
    let client = Client::new(
        seqsvr_client::ClientOptions::new([alloc.local_addr().to_string()])
            .with_items_max(ITEMS as usize),
    );
    let client = client.unwrap().with_deadline(TEST_TIMEOUT);
    let items: Vec<NextItem> = (0..5 * ITEMS)
        .map(|i| NextItem::new(Key::Uid(i * 100_000)))
        .collect();
    for answer in client.default_namespace().next_batch(&items).await {
        assert_eq!(answer.unwrap().first, 1);
    }
    assert!(
        read_counter(&alloc, "queue_rejections").await > 0,
        "no item had to wait"
    );
    cluster.stop(&allocs).await;
}
