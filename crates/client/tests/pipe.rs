//! The pipe: calls merged into frames, answers in parts and in any order, callers that go away,
//! servers that stop.

mod fake;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use fake::{FakeAlloc, SharedNumbers, bind_listeners, new_client, routing_table};
use futures::future::join_all;
use futures::poll;
use futures::stream::{FuturesUnordered, StreamExt};
use seqsvr_client::{Code, Key, NextItem};
use tokio::sync::watch;

/// Waits until `what` holds.
async fn wait_until(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it never came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn concurrent_calls_share_frames_and_one_pipe() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    let handle = client.default_namespace();
    let calls = (0..1_000u64).map(|uid| handle.next(uid % 10));
    let numbers = join_all(calls).await;
    let all: BTreeSet<(usize, u64)> = numbers
        .iter()
        .enumerate()
        .map(|(i, n)| (i % 10, n.as_ref().unwrap().first))
        .collect();
    assert_eq!(all.len(), 1_000, "one was given twice");
    assert!(all.iter().all(|(_, number)| (1..=100).contains(number)));
    assert_eq!(node.pipes_opened.load(SeqCst), 1);
    let frames = node.frames_received.load(SeqCst);
    assert!(frames < 20, "{frames} frames");
    // A call alone does not wait for others.
    let begin = Instant::now();
    for _ in 0..20 {
        client.default_namespace().next(7u64).await.unwrap();
    }
    assert_eq!(node.frames_received.load(SeqCst), frames + 20);
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn dropped_caller_does_not_affect_other_callers() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    node.script.lock().delay = Duration::from_millis(300);
    let spawn = |uid: u64| {
        let client = client.clone();
        tokio::spawn(async move { client.default_namespace().next(uid).await })
    };
    let (gone, stays): (Vec<_>, Vec<_>) = (0..50).map(|uid| (spawn(uid), spawn(uid))).unzip();
    wait_until(|| node.frames_received.load(SeqCst) > 0).await;
    gone.iter().for_each(|call| call.abort());
    for call in stays {
        assert!((1..=2).contains(&call.await.unwrap().unwrap().first));
    }
    node.script.lock().delay = Duration::ZERO;
    // What the others would have received is discarded, not given again.
    for uid in 0..50u64 {
        assert_eq!(client.default_namespace().next(uid).await.unwrap().first, 3);
    }
}

#[tokio::test]
async fn slow_item_of_frame_delays_no_other() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    let (now, second_part) = watch::channel(false);
    node.script.lock().second_part = Some(second_part);
    let handle = client.default_namespace();
    let mut calls: FuturesUnordered<_> = (0..10u64).map(|uid| handle.next(uid)).collect();
    calls.next().await.unwrap().unwrap();
    assert_eq!(node.frames_received.load(SeqCst), 1, "all in one frame");
    assert!(poll!(calls.next()).is_pending(), "the others wait");
    now.send_replace(true);
    while let Some(number) = calls.next().await {
        number.unwrap();
    }
    // A call of many waits for all of its own.
    let items: Vec<NextItem> = (0..10u64).map(NextItem::new).collect();
    let numbers = client.default_namespace().next_batch(&items).await;
    assert!(numbers.iter().all(|n| n.as_ref().unwrap().first == 2));
}

#[tokio::test]
async fn closing_pipe_gets_no_more_frames_and_loses_none() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    node.script.lock().closes_after = Some(3);
    for n in 1..=10 {
        assert_eq!(
            client.default_namespace().next(7u64).await.unwrap().first,
            n
        );
    }
    // Each pipe took three frames, the last of them together with the notice that the server stops.
    assert_eq!(node.pipes_opened.load(SeqCst), 4);
    assert_eq!(*client.wait_status().borrow(), None);
}

#[tokio::test]
async fn broken_pipe_is_replaced() {
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let shared = Arc::new(SharedNumbers::default());
    let before = routing_table(5, |_| Some((address_a.clone(), 1)));
    let after = routing_table(6, |_| Some((address_b.clone(), 2)));
    let alloc_a = FakeAlloc::start(listener_a, &shared, &before);
    let _alloc_b = FakeAlloc::start(listener_b, &shared, &after);
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    alloc_a.script.lock().delay = Duration::from_secs(60);
    let call = |uid: u64| {
        let client = client.clone();
        tokio::spawn(async move { client.default_namespace().next(uid).await })
    };
    let mut calls: Vec<_> = (0..100).map(call).collect();
    wait_until(|| alloc_a.frames_received.load(SeqCst) > 0).await;
    *alloc_a.table.lock() = after;
    alloc_a.script.lock().delay = Duration::ZERO;
    alloc_a.script.lock().breaks_pipe = true;
    calls.push(call(100));
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().epoch, 2);
    }
    assert_eq!(alloc_a.pipes_opened.load(SeqCst), 2);
}

#[tokio::test]
async fn malformed_answer_fails_only_its_frame() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    node.script.lock().drops_last_number = true;
    let items: Vec<NextItem> = (0..10u64).map(NextItem::new).collect();
    for result in client.default_namespace().next_batch(&items).await {
        assert_eq!(result.unwrap_err().code(), Code::Internal);
    }
    node.script.lock().drops_last_number = false;
    let again = client.default_namespace().next_batch(&items).await;
    assert!(again.iter().all(Result::is_ok));
    assert_eq!(node.pipes_opened.load(SeqCst), 1);
}

#[tokio::test]
async fn full_pipe_makes_callers_wait() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    node.script.lock().delay = Duration::from_millis(300);
    // Not a whole number of frames: what is left of the room at the end is less than the next frame
    // needs.
    let keys: Vec<Key> = (0..80_000u64).map(Key::Uid).collect();
    let handle = client.default_namespace();
    let (first, second) = tokio::join!(handle.current_batch(&keys), handle.current_batch(&keys));
    for current in first.iter().chain(&second) {
        current.as_ref().unwrap();
    }
    assert!(
        node.frames_received.load(SeqCst) <= 2 * 79,
        "frames were sent again"
    );
}

#[tokio::test]
async fn calls_to_unresponsive_server_end_at_their_own_deadline() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    node.script.lock().delay = Duration::from_secs(60);
    let call = |ms| {
        let client = client.with_deadline(Duration::from_millis(ms));
        async move {
            let begin = Instant::now();
            let error = client.default_namespace().next(7u64).await.unwrap_err();
            assert_eq!(error.code(), Code::DeadlineExceeded);
            assert!(error.to_string().contains("no answer from"), "{error}");
            begin.elapsed()
        }
    };
    let (short, long) = tokio::join!(call(300), call(1_200));
    assert!(short < Duration::from_millis(900), "{short:?}");
    assert!(long > Duration::from_millis(900), "{long:?}");
}

/// An answer that arrives after its caller gave up is ignored, also in parts.
#[tokio::test]
async fn answer_after_timeout_is_ignored() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    let (now, second_part) = watch::channel(false);
    node.script.lock().second_part = Some(second_part);
    let items: Vec<NextItem> = (0..10u64).map(NextItem::new).collect();
    let hurried = client.with_deadline(Duration::from_millis(200));
    let results = hurried.default_namespace().next_batch(&items).await;
    // The first item of each try arrived in time.
    assert_eq!(results[0].as_ref().unwrap().first, 1);
    assert!(
        results.iter().filter(|r| r.is_err()).count() > 2,
        "{results:?}"
    );
    now.send_replace(true);
    let numbers = client.default_namespace().next_batch(&items).await;
    assert!(numbers.iter().all(|n| n.as_ref().unwrap().first > 1));
    assert_eq!(node.pipes_opened.load(SeqCst), 1, "the pipe broke");
}
