//! Routing: to the owner, after moves, without an owner, around dead and silent servers.

mod fake;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fake::{FakeAlloc, SharedNumbers, bind_listeners, new_client, routing_table, unused_address};
use seqsvr_client::{Code, Key, NextOptions, Reason};
use seqsvr_proto::error::RpcError;
use tokio::net::TcpListener;

/// Returns uids in different sections, so that they spread over the slots.
fn spread_uids() -> impl Iterator<Item = u64> {
    (0..64).map(|i| i * 100_000)
}

#[tokio::test]
async fn request_goes_to_owner_of_its_key() {
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let routes = routing_table(5, |slot| {
        Some((
            if slot.is_multiple_of(2) {
                address_a.clone()
            } else {
                address_b.clone()
            },
            3,
        ))
    });
    let shared = Arc::new(SharedNumbers::default());
    let nodes = [
        FakeAlloc::start(listener_a, &shared, &routes),
        FakeAlloc::start(listener_b, &shared, &routes),
    ];
    let client = new_client(&[&address_a]);
    for uid in spread_uids() {
        let numbers = client.next("", uid, 2).await.unwrap();
        assert_eq!((numbers.first, numbers.last, numbers.epoch), (1, 2, 3));
        assert_eq!(numbers.iter().collect::<Vec<_>>(), [1, 2]);
    }
    let number = client.next("", "alice", 1).await.unwrap();
    assert_eq!(number.first, 1);
    // As many requests as calls: none went to the wrong node.
    let seen: Vec<usize> = nodes.iter().map(|n| n.next_requests.lock().len()).collect();
    assert_eq!(seen[0] + seen[1], 65);
    assert!(seen[0] > 10 && seen[1] > 10, "{seen:?}");

    assert_eq!(
        client.raise_to("", 0u64, 50, false).await.unwrap().value,
        50
    );
    assert_eq!(client.next("", 0u64, 1).await.unwrap().first, 51);
    assert_eq!(client.current("", 0u64).await.unwrap().value, 51);
    let current = client
        .current_many("", &[Key::Uid(0), Key::Uid(100_000)])
        .await;
    let values: Vec<u64> = current.into_iter().map(|c| c.unwrap().value).collect();
    assert_eq!(values, [51, 2]);
}

#[tokio::test]
async fn moved_slot_costs_one_redirect() {
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let before = routing_table(5, |_| Some((address_a.clone(), 1)));
    let after = routing_table(6, |_| Some((address_b.clone(), 2)));
    let shared = Arc::new(SharedNumbers::default());
    let (alloc_a, alloc_b) = (
        FakeAlloc::start(listener_a, &shared, &before),
        FakeAlloc::start(listener_b, &shared, &after),
    );
    let client = new_client(&[&address_a]);
    assert_eq!(client.next("", 7u64, 1).await.unwrap().epoch, 1);
    *alloc_a.table.lock() = after.clone();
    let second = client.next("", 7u64, 1).await.unwrap();
    assert_eq!((second.first, second.epoch), (2, 2));
    assert_eq!(
        (
            alloc_a.next_requests.lock().len(),
            alloc_b.next_requests.lock().len()
        ),
        (2, 1)
    );
    client.next("", 7u64, 1).await.unwrap();
    assert_eq!(
        (
            alloc_a.next_requests.lock().len(),
            alloc_b.next_requests.lock().len()
        ),
        (2, 2)
    );
    assert_eq!(
        alloc_a.fetched_bases.lock().len(),
        1,
        "the delta was enough"
    );
    assert_eq!(*client.trouble().borrow(), None);
}

#[tokio::test]
async fn request_carries_last_epoch_and_floor_of_caller() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let routes = routing_table(5, |_| Some((address_a.clone(), 4)));
    let node = FakeAlloc::start(listener_a, &Arc::default(), &routes);
    let client = new_client(&[&address_a]);
    for _ in 0..2 {
        client.next("", 7u64, 1).await.unwrap();
    }
    let options = NextOptions {
        floor: Some(2),
        ..NextOptions::default()
    };
    assert_eq!(client.next_with(7u64, options).await.unwrap().first, 3);
    let seen = node.next_requests.lock();
    let guards: Vec<_> = seen
        .iter()
        .map(|r| (r.epoch, r.floor, r.table_version))
        .collect();
    assert_eq!(
        guards,
        [(None, None, 5), (Some(4), None, 5), (Some(4), Some(2), 5)]
    );
}

#[tokio::test]
async fn numbers_not_above_floor_are_rejected() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let routes = routing_table(5, |_| Some((address_a.clone(), 4)));
    let _node = FakeAlloc::start(listener_a, &Arc::default(), &routes);
    // The fake ignores floors, as a broken server would.
    let options = NextOptions {
        floor: Some(100),
        ..NextOptions::default()
    };
    let error = new_client(&[&address_a])
        .next_with(7u64, options)
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::Internal);
}

#[tokio::test]
async fn call_to_slot_without_owner_waits() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let free = routing_table(5, |_| None);
    let node = FakeAlloc::start(listener_a, &Arc::default(), &free);
    let client = new_client(&[&address_a]);
    let mut wait_status = client.trouble();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.next("", 7u64, 1).await }
    });
    let status = wait_status
        .wait_for(|t| t.is_some())
        .await
        .unwrap()
        .clone()
        .unwrap();
    assert!(
        status.contains("has no owner yet (takeover in progress)"),
        "{status}"
    );
    *node.table.lock() = routing_table(6, |_| Some((address_a.clone(), 1)));
    assert_eq!(call.await.unwrap().unwrap().first, 1);
    assert_eq!(*client.trouble().borrow(), None);
}

#[tokio::test]
async fn dead_configured_server_is_skipped() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let routes = routing_table(5, |_| Some((address_a.clone(), 1)));
    let _node = FakeAlloc::start(listener_a, &Arc::default(), &routes);
    let (x, y) = (unused_address().await, unused_address().await);
    for _ in 0..5 {
        assert_eq!(
            new_client(&[&x, &y, &address_a])
                .next("", 7u64, 1)
                .await
                .map(|n| n.epoch)
                .unwrap(),
            1
        );
    }
}

#[tokio::test]
async fn dead_owner_is_replaced_by_its_successor() {
    let ([listener_b], [address_b]) = bind_listeners().await;
    let gone = unused_address().await;
    let node = FakeAlloc::start(
        listener_b,
        &Arc::default(),
        &routing_table(5, |_| Some((gone.clone(), 1))),
    );
    let client = new_client(&[&address_b]);
    let mut wait_status = client.trouble();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.next("", 7u64, 1).await }
    });
    wait_status.wait_for(|t| t.is_some()).await.unwrap();
    *node.table.lock() = routing_table(6, |_| Some((address_b.clone(), 2)));
    assert_eq!(call.await.unwrap().unwrap().epoch, 2);
}

#[tokio::test]
async fn unresponsive_owner_costs_a_fraction_of_the_deadline() {
    let ([silent, listener_b], [address_a, address_b]) = bind_listeners().await;
    // The listener accepts, as the kernel does for a stopped process, and never sends anything.
    let _silent: TcpListener = silent;
    let node = FakeAlloc::start(
        listener_b,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_b]);
    client.routes().await.unwrap();
    *node.table.lock() = routing_table(6, |_| Some((address_b.clone(), 2)));
    let begin = Instant::now();
    assert_eq!(client.next("", 7u64, 1).await.unwrap().epoch, 2);
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn call_ends_at_deadline_and_servers_receive_it() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]).with_deadline(Duration::from_millis(800));
    client.routes().await.unwrap();
    node.script.lock().delay = Duration::from_secs(30);
    let begin = Instant::now();
    let error = client.next("", 7u64, 1).await.unwrap_err();
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(
        (error.code, error.reason),
        (Code::DeadlineExceeded, Reason::Unreachable)
    );
    assert!(error.tries >= 3, "{error}");
    assert!(
        error
            .to_string()
            .contains(&format!("no answer from {address_a}")),
        "{error}"
    );
    let status = node.grpc_timeouts.lock()[0].clone();
    let micros: u64 = status.trim_end_matches('u').parse().unwrap();
    assert!(status.ends_with('u') && micros <= 200_000, "{status}");
}

#[tokio::test]
async fn call_without_live_server_ends_in_time_and_names_servers() {
    let (x, y) = (unused_address().await, unused_address().await);
    let client = new_client(&[&x, &y]).with_deadline(Duration::from_secs(1));
    let mut wait_status = client.trouble();
    let status = tokio::spawn(async move {
        wait_status
            .wait_for(|t| t.is_some())
            .await
            .unwrap()
            .clone()
            .unwrap()
    });
    let begin = Instant::now();
    let error = client.next("", 7u64, 1).await.unwrap_err();
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    let text = error.to_string();
    assert!(
        text.contains(&x) && text.contains(&y) && text.contains("refused"),
        "{text}"
    );
    assert_eq!(
        (error.code, error.reason),
        (Code::DeadlineExceeded, Reason::Unreachable)
    );
    assert!(
        error.tries > 3 && error.gave_up_after.is_some(),
        "{error:?}"
    );
    let status = status.await.unwrap();
    assert!(
        status.starts_with("no AllocSvr reachable at 127.0.0.1:"),
        "{status}"
    );
    assert_eq!(*client.trouble().borrow(), None);
}

#[tokio::test]
async fn table_delta_that_does_not_fit_causes_full_fetch() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    node.script.lock().sends_gap = true;
    client.next("", 7u64, 1).await.unwrap();
    node.script.lock().sends_gap = false;
    *node.table.lock() = routing_table(9, |_| Some((address_a.clone(), 1)));
    client.next("", 7u64, 1).await.unwrap();
    client.next("", 7u64, 1).await.unwrap();
    assert_eq!(*node.fetched_bases.lock(), [0, 0]);
    assert_eq!(client.routes().await.unwrap().version(), 9);
}

#[tokio::test]
async fn routing_table_of_another_cluster_is_rejected() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    client.next("", 7u64, 1).await.unwrap();
    node.script.lock().table_cluster = Some(0xbad);
    let error = client.next("", 7u64, 1).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.code, Code::FailedPrecondition);
    assert!(
        text.contains("bad") && text.contains(&address_a) && text.contains("cluster"),
        "{text}"
    );
    node.script.lock().table_cluster = None;
    assert_eq!(
        client.routes().await.unwrap().cluster(),
        seqsvr_core::ids::ClusterId(1)
    );
}

#[tokio::test]
async fn retry_hint_is_respected_and_other_rejections_are_final() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    let hint = RpcError::new(Reason::TooMany, "queue full").with_retry_after_ms(150);
    node.script.lock().next_errors = vec![hint.clone(), hint];
    let begin = Instant::now();
    client.next("", 7u64, 1).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(300));
    for reason in [
        Reason::TooMany,
        Reason::SequenceExhausted,
        Reason::Invalid,
        Reason::FloorUnknown,
    ] {
        let tries = node.next_requests.lock().len();
        node.script.lock().next_errors = vec![RpcError::new(reason, "do this instead")];
        let error = client.next("", 7u64, 1).await.unwrap_err();
        assert_eq!(
            (error.reason, node.next_requests.lock().len()),
            (reason, tries + 1)
        );
        assert!(error.to_string().contains("do this instead"), "{error}");
    }
}

#[tokio::test]
async fn invalid_input_sends_nothing() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    for (namespace, key, count) in [
        ("", Key::Uid(1), 0),
        ("", Key::Uid(1), 100_001),
        ("", Key::Uid(1 << 32), 1),
        ("default", Key::from("alice"), 1),
        ("", Key::from(""), 1),
        ("", Key::from("x".repeat(129)), 1),
    ] {
        let error = client.next(namespace, key, count).await.unwrap_err();
        assert_eq!(
            (error.code, error.reason),
            (Code::InvalidArgument, Reason::Invalid),
            "{error}"
        );
    }
    assert!(node.next_requests.lock().is_empty());
}

#[tokio::test]
async fn concurrent_first_calls_share_one_table_fetch() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    let calls: Vec<_> = (0..200u64)
        .map(|uid| {
            let client = client.clone();
            tokio::spawn(async move { client.next("", uid, 1).await.unwrap().first })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), 1);
    }
    assert_eq!(node.fetched_bases.lock().len(), 1);
}
