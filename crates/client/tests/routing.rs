//! Routing: to the owner, after moves, without an owner, around dead and silent servers.

mod fake;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fake::{Node, World, client, dead, listen, table};
use seqsvr_client::{Code, Key, NextOptions, Reason};
use seqsvr_proto::error::Fault;
use tokio::net::TcpListener;

/// Returns uids in different sections, so that they spread over the slots.
fn uids() -> impl Iterator<Item = u64> {
    (0..64).map(|i| i * 100_000)
}

#[tokio::test]
async fn each_key_goes_to_its_owner() {
    let ([la, lb], [a, b]) = listen().await;
    let routes = table(5, |slot| {
        Some((
            if slot.is_multiple_of(2) {
                a.clone()
            } else {
                b.clone()
            },
            3,
        ))
    });
    let world = Arc::new(World::default());
    let nodes = [
        Node::start(la, &world, &routes),
        Node::start(lb, &world, &routes),
    ];
    let client = client(&[&a]);
    for uid in uids() {
        let numbers = client.next("", uid, 2).await.unwrap();
        assert_eq!((numbers.first, numbers.last, numbers.epoch), (1, 2, 3));
        assert_eq!(numbers.iter().collect::<Vec<_>>(), [1, 2]);
    }
    let number = client.next("", "alice", 1).await.unwrap();
    assert_eq!(number.first, 1);
    // As many requests as calls: none went to the wrong node.
    let seen: Vec<usize> = nodes.iter().map(|n| n.seen.lock().len()).collect();
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
async fn a_moved_slot_costs_one_redirect() {
    let ([la, lb], [a, b]) = listen().await;
    let before = table(5, |_| Some((a.clone(), 1)));
    let after = table(6, |_| Some((b.clone(), 2)));
    let world = Arc::new(World::default());
    let (na, nb) = (
        Node::start(la, &world, &before),
        Node::start(lb, &world, &after),
    );
    let client = client(&[&a]);
    assert_eq!(client.next("", 7u64, 1).await.unwrap().epoch, 1);
    *na.table.lock() = after.clone();
    let second = client.next("", 7u64, 1).await.unwrap();
    assert_eq!((second.first, second.epoch), (2, 2));
    assert_eq!((na.seen.lock().len(), nb.seen.lock().len()), (2, 1));
    client.next("", 7u64, 1).await.unwrap();
    assert_eq!((na.seen.lock().len(), nb.seen.lock().len()), (2, 2));
    assert_eq!(na.fetched.lock().len(), 1, "the delta was enough");
    assert_eq!(*client.trouble().borrow(), None);
}

#[tokio::test]
async fn epoch_is_remembered_and_floor_is_the_callers() {
    let ([la], [a]) = listen().await;
    let routes = table(5, |_| Some((a.clone(), 4)));
    let node = Node::start(la, &Arc::default(), &routes);
    let client = client(&[&a]);
    for _ in 0..2 {
        client.next("", 7u64, 1).await.unwrap();
    }
    let options = NextOptions {
        floor: Some(2),
        ..NextOptions::default()
    };
    assert_eq!(client.next_with(7u64, options).await.unwrap().first, 3);
    let seen = node.seen.lock();
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
async fn numbers_not_above_the_floor_are_refused() {
    let ([la], [a]) = listen().await;
    let routes = table(5, |_| Some((a.clone(), 4)));
    let _node = Node::start(la, &Arc::default(), &routes);
    // The fake ignores floors, as a broken server would.
    let options = NextOptions {
        floor: Some(100),
        ..NextOptions::default()
    };
    let error = client(&[&a]).next_with(7u64, options).await.unwrap_err();
    assert_eq!(error.code, Code::Internal);
}

#[tokio::test]
async fn a_slot_without_an_owner_is_waited_for() {
    let ([la], [a]) = listen().await;
    let free = table(5, |_| None);
    let node = Node::start(la, &Arc::default(), &free);
    let client = client(&[&a]);
    let mut trouble = client.trouble();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.next("", 7u64, 1).await }
    });
    let told = trouble
        .wait_for(|t| t.is_some())
        .await
        .unwrap()
        .clone()
        .unwrap();
    assert!(
        told.contains("has no owner yet (takeover in progress)"),
        "{told}"
    );
    *node.table.lock() = table(6, |_| Some((a.clone(), 1)));
    assert_eq!(call.await.unwrap().unwrap().first, 1);
    assert_eq!(*client.trouble().borrow(), None);
}

#[tokio::test]
async fn a_dead_server_among_the_given_is_passed_over() {
    let ([la], [a]) = listen().await;
    let routes = table(5, |_| Some((a.clone(), 1)));
    let _node = Node::start(la, &Arc::default(), &routes);
    let (x, y) = (dead().await, dead().await);
    for _ in 0..5 {
        assert_eq!(
            client(&[&x, &y, &a])
                .next("", 7u64, 1)
                .await
                .map(|n| n.epoch)
                .unwrap(),
            1
        );
    }
}

#[tokio::test]
async fn a_dead_owner_is_left_for_its_successor() {
    let ([lb], [b]) = listen().await;
    let gone = dead().await;
    let node = Node::start(lb, &Arc::default(), &table(5, |_| Some((gone.clone(), 1))));
    let client = client(&[&b]);
    let mut trouble = client.trouble();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.next("", 7u64, 1).await }
    });
    trouble.wait_for(|t| t.is_some()).await.unwrap();
    *node.table.lock() = table(6, |_| Some((b.clone(), 2)));
    assert_eq!(call.await.unwrap().unwrap().epoch, 2);
}

#[tokio::test]
async fn a_silent_owner_costs_a_fraction_of_the_deadline() {
    let ([silent, lb], [a, b]) = listen().await;
    // The listener accepts, as the kernel does for a stopped process, and never sends anything.
    let _silent: TcpListener = silent;
    let node = Node::start(lb, &Arc::default(), &table(5, |_| Some((a.clone(), 1))));
    let client = client(&[&b]);
    client.routes().await.unwrap();
    *node.table.lock() = table(6, |_| Some((b.clone(), 2)));
    let begin = Instant::now();
    assert_eq!(client.next("", 7u64, 1).await.unwrap().epoch, 2);
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn the_deadline_holds_and_servers_are_told() {
    let ([la], [a]) = listen().await;
    let node = Node::start(la, &Arc::default(), &table(5, |_| Some((a.clone(), 1))));
    let client = client(&[&a]).with_deadline(Duration::from_millis(800));
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
        error.to_string().contains(&format!("no answer from {a}")),
        "{error}"
    );
    let told = node.timeouts.lock()[0].clone();
    let micros: u64 = told.trim_end_matches('u').parse().unwrap();
    assert!(told.ends_with('u') && micros <= 200_000, "{told}");
}

#[tokio::test]
async fn all_dead_ends_in_time_and_names_them() {
    let (x, y) = (dead().await, dead().await);
    let client = client(&[&x, &y]).with_deadline(Duration::from_secs(1));
    let mut trouble = client.trouble();
    let told = tokio::spawn(async move {
        trouble
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
    let told = told.await.unwrap();
    assert!(
        told.starts_with("no AllocSvr reachable at 127.0.0.1:"),
        "{told}"
    );
    assert_eq!(*client.trouble().borrow(), None);
}

#[tokio::test]
async fn a_gap_brings_the_full_table() {
    let ([la], [a]) = listen().await;
    let node = Node::start(la, &Arc::default(), &table(5, |_| Some((a.clone(), 1))));
    let client = client(&[&a]);
    node.script.lock().gap = true;
    client.next("", 7u64, 1).await.unwrap();
    node.script.lock().gap = false;
    *node.table.lock() = table(9, |_| Some((a.clone(), 1)));
    client.next("", 7u64, 1).await.unwrap();
    client.next("", 7u64, 1).await.unwrap();
    assert_eq!(*node.fetched.lock(), [0, 0]);
    assert_eq!(client.routes().await.unwrap().version(), 9);
}

#[tokio::test]
async fn another_clusters_numbers_are_refused() {
    let ([la], [a]) = listen().await;
    let node = Node::start(la, &Arc::default(), &table(5, |_| Some((a.clone(), 1))));
    let client = client(&[&a]);
    client.next("", 7u64, 1).await.unwrap();
    node.script.lock().cluster = Some(0xbad);
    let error = client.next("", 7u64, 1).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.code, Code::FailedPrecondition);
    assert!(
        text.contains("bad") && text.contains(&a) && text.contains("cluster"),
        "{text}"
    );
    node.script.lock().cluster = None;
    assert_eq!(
        client.routes().await.unwrap().cluster(),
        seqsvr_core::id::ClusterId(1)
    );
}

#[tokio::test]
async fn hints_are_kept_and_refusals_are_final() {
    let ([la], [a]) = listen().await;
    let node = Node::start(la, &Arc::default(), &table(5, |_| Some((a.clone(), 1))));
    let client = client(&[&a]);
    let hint = Fault::new(Reason::TooMany, "queue full").with_retry_after_ms(150);
    node.script.lock().faults = vec![hint.clone(), hint];
    let begin = Instant::now();
    client.next("", 7u64, 1).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(300));
    for reason in [
        Reason::TooMany,
        Reason::SequenceExhausted,
        Reason::Invalid,
        Reason::FloorUnknown,
    ] {
        let tries = node.seen.lock().len();
        node.script.lock().faults = vec![Fault::new(reason, "do this instead")];
        let error = client.next("", 7u64, 1).await.unwrap_err();
        assert_eq!((error.reason, node.seen.lock().len()), (reason, tries + 1));
        assert!(error.to_string().contains("do this instead"), "{error}");
    }
}

#[tokio::test]
async fn wrong_input_sends_nothing() {
    let ([la], [a]) = listen().await;
    let node = Node::start(la, &Arc::default(), &table(5, |_| Some((a.clone(), 1))));
    let client = client(&[&a]);
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
    assert!(node.seen.lock().is_empty());
}

#[tokio::test]
async fn concurrent_first_calls_share_one_fetch() {
    let ([la], [a]) = listen().await;
    let node = Node::start(la, &Arc::default(), &table(5, |_| Some((a.clone(), 1))));
    let client = client(&[&a]);
    let calls: Vec<_> = (0..200u64)
        .map(|uid| {
            let client = client.clone();
            tokio::spawn(async move { client.next("", uid, 1).await.unwrap().first })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), 1);
    }
    assert_eq!(node.fetched.lock().len(), 1);
}
