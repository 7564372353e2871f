//! Calls about many keys, new namespaces, and operators' calls.

mod fake;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fake::{
    FakeAlloc, SharedNumbers, add_namespace, bind_listeners, new_client, routing_table,
    unused_address,
};
use seqsvr_client::{ClientOptions, Code, Key, NamespaceChange, NextItem, Reason};
use seqsvr_core::namespace::NamespaceSpec;
use seqsvr_proto::error::RpcError;

#[tokio::test]
async fn batch_items_succeed_or_fail_independently() {
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let gone = unused_address().await;
    let owner = |slot: u16| match slot {
        0 => gone.clone(),
        s if s.is_multiple_of(2) => address_a.clone(),
        _ => address_b.clone(),
    };
    let routes = routing_table(5, |slot| Some((owner(slot), 1)));
    let shared = Arc::new(SharedNumbers::default());
    let (alloc_a, alloc_b) = (
        FakeAlloc::start(listener_a, &shared, &routes),
        FakeAlloc::start(listener_b, &shared, &routes),
    );
    let client = new_client(&[&address_a, &address_b]).with_deadline(Duration::from_secs(1));
    client.routes().await.unwrap();

    let mut keys: Vec<Key> = (0..200).map(|i| Key::Uid(i * 100_000)).collect();
    keys.extend((0..50).map(|i| Key::from(format!("k{i}"))));
    let good_keys = keys.len();
    keys.extend([Key::Uid(1 << 40), Key::from(""), Key::Uid(1)]);
    let mut items: Vec<NextItem> = keys.iter().cloned().map(NextItem::new).collect();
    let last = items.pop().unwrap();
    items.push(last.with_count(0));
    for node in [&alloc_a, &alloc_b] {
        let flaky = (0..100).map(|i| (i * 100_000).to_string());
        node.script.lock().failing_once = flaky.collect();
    }

    let begin = Instant::now();
    let results = client.default_namespace().next_batch(&items).await;
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(results.len(), items.len());
    let known = client.routes().await.unwrap();
    let mut orphans = 0;
    for (i, (key, result)) in keys.iter().zip(&results).enumerate() {
        if i >= good_keys {
            assert_eq!(result.as_ref().unwrap_err().code(), Code::InvalidArgument);
            continue;
        }
        let name = if matches!(key, Key::Uid(_)) {
            "default"
        } else {
            "keys"
        };
        let (_, slot) = known
            .locate(known.namespace(name).unwrap(), key.as_ref())
            .unwrap();
        if slot.0 == 0 {
            let error = result.as_ref().unwrap_err();
            assert_eq!(error.code(), Code::DeadlineExceeded);
            assert!(error.to_string().contains("attempts"), "{error}");
            orphans += 1;
        } else {
            assert_eq!(result.as_ref().unwrap().first, 1, "{key:?}");
        }
    }
    assert!((1..60).contains(&orphans), "{orphans}");
    // The client did not retry the items that had an answer.
    assert!(shared.numbers.lock().values().all(|last| *last == 1));
}

#[tokio::test]
async fn batch_retries_do_not_wait_for_slow_owner() {
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let owner = |slot: u16| {
        if slot.is_multiple_of(2) {
            address_a.clone()
        } else {
            address_b.clone()
        }
    };
    let routes = routing_table(5, |slot| Some((owner(slot), 1)));
    let shared = Arc::new(SharedNumbers::default());
    let (alloc_a, alloc_b) = (
        FakeAlloc::start(listener_a, &shared, &routes),
        FakeAlloc::start(listener_b, &shared, &routes),
    );
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    let items: Vec<NextItem> = (0..100).map(|i| NextItem::new(i * 100_000)).collect();
    alloc_a.script.lock().failing_once = (0..100).map(|i| (i * 100_000).to_string()).collect();
    alloc_b.script.lock().delay = Duration::from_millis(600);
    let call = tokio::spawn(async move { client.default_namespace().next_batch(&items).await });
    // a's items all fail once and are answered while b still sleeps.
    let begin = Instant::now();
    while shared.numbers.lock().is_empty() && begin.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let of_b = |key: &str| {
        let place = routes.locate(&routes.namespaces()[0], Key::parse(key).as_ref());
        place.unwrap().1.0 % 2 == 1
    };
    let early: Vec<String> = shared.numbers.lock().keys().map(|k| k.1.clone()).collect();
    assert!(
        !early.is_empty() && !early.iter().any(|key| of_b(key)),
        "{early:?}"
    );
    assert!(
        call.await
            .unwrap()
            .iter()
            .all(|r| r.as_ref().is_ok_and(|n| n.first == 1))
    );
    assert_eq!(alloc_b.batch_calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn batch_with_moved_slot_retries_only_its_items() {
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let before = routing_table(5, |_| Some((address_a.clone(), 1)));
    let after = routing_table(6, |slot| {
        Some(if slot < 8 {
            (address_b.clone(), 2)
        } else {
            (address_a.clone(), 1)
        })
    });
    let shared = Arc::new(SharedNumbers::default());
    let (alloc_a, _alloc_b) = (
        FakeAlloc::start(listener_a, &shared, &before),
        FakeAlloc::start(listener_b, &shared, &after),
    );
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    *alloc_a.table.lock() = after;
    let items: Vec<NextItem> = (0..100).map(|i| NextItem::new(i * 100_000)).collect();
    let results = client.default_namespace().next_batch(&items).await;
    let epochs: Vec<u64> = results.iter().map(|r| r.as_ref().unwrap().epoch).collect();
    assert!(epochs.contains(&1) && epochs.contains(&2));
    assert_eq!(alloc_a.batch_calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn batch_above_limits_is_split() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    let items: Vec<NextItem> = (0..25_000u64).map(NextItem::new).collect();
    assert!(
        client
            .default_namespace()
            .next_batch(&items)
            .await
            .iter()
            .all(Result::is_ok)
    );
    // A frame takes 1,024 items.
    assert_eq!(node.batch_calls.load(Ordering::SeqCst), 25);
    let big = |uid: u64| NextItem::new(uid).with_count(100_000);
    let items: Vec<NextItem> = (0..150).map(big).collect();
    assert!(
        client
            .default_namespace()
            .next_batch(&items)
            .await
            .iter()
            .all(Result::is_ok)
    );
    // And 10 million numbers.
    assert_eq!(node.batch_calls.load(Ordering::SeqCst), 27);
    assert!(
        client
            .default_namespace()
            .next_batch::<u64>(&[])
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn unknown_namespace_is_looked_up_before_failing() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    client.default_namespace().next(7u64).await.unwrap();
    let error = client.namespace("moments").next(7u64).await.unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (Code::NotFound, Reason::NamespaceNotFound)
    );
    assert!(error.to_string().contains("moments"), "{error}");
    let fetched = node.fetched_bases.lock().len();
    assert!((2..=4).contains(&fetched), "{fetched}");
    let many = client
        .namespace("moments")
        .next_batch(&[NextItem::new(7u64)])
        .await;
    assert_eq!(many[0].as_ref().unwrap_err().code(), Code::NotFound);
    add_namespace(&mut node.table.lock(), "moments");
    assert_eq!(
        client.namespace("moments").next(7u64).await.unwrap().first,
        1
    );
}

#[tokio::test]
async fn admin_calls_reach_a_server() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let _node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let gone = unused_address().await;
    let client = new_client(&[&gone, &address_a]);
    let admin = client.admin();
    let spec = NamespaceSpec {
        name: "moments".into(),
        ..NamespaceSpec::default_dense()
    };
    let created = admin.create_namespace(&spec).await.unwrap();
    assert_eq!(
        (created.spec.name.as_str(), created.version),
        ("moments", 6)
    );
    assert_eq!(
        client.namespace("moments").next(7u64).await.unwrap().first,
        1
    );
    assert_eq!(admin.list_namespaces().await.unwrap().len(), 3);
    assert_eq!(admin.cluster_status().await.unwrap().lease_ms, 3000);
    let status = admin.node_status(&address_a).await.unwrap();
    assert_eq!((status.address, status.counters.len()), (address_a, 256));
    let error = admin
        .alter_namespace("none", NamespaceChange::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    let bad = NamespaceSpec {
        name: "no good name".into(),
        ..spec
    };
    assert_eq!(
        admin.create_namespace(&bad).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    let hurried = client.with_deadline(Duration::from_millis(300));
    let error = hurried.admin().node_status(&gone).await.unwrap_err();
    assert!(error.to_string().contains(&gone), "{error}");
}

#[test]
fn client_with_bad_address_is_rejected() {
    for servers in [vec![], vec!["127.0.0.1:99999"], vec!["a:1", ""]] {
        let error = seqsvr_client::Client::new(ClientOptions::new(servers))
            .err()
            .unwrap();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
}

#[tokio::test]
async fn batch_item_with_retry_hint_is_retried_and_without_is_final() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    client.routes().await.unwrap();
    let busy = RpcError::new(Reason::Overloaded, "too many wait");
    node.script.lock().rejecting_once = [
        ("100000".to_owned(), busy.clone().with_retry_after_ms(200)),
        ("200000".to_owned(), busy),
    ]
    .into();
    let items = [100_000u64, 200_000, 300_000].map(NextItem::new);
    let begin = Instant::now();
    let results = client.default_namespace().next_batch(&items).await;
    assert!(begin.elapsed() >= Duration::from_millis(200));
    assert_eq!(results[0].as_ref().unwrap().first, 1);
    let error = results[1].as_ref().unwrap_err();
    assert_eq!(
        (error.reason(), error.code()),
        (Reason::Overloaded, Code::ResourceExhausted)
    );
    assert_eq!(results[2].as_ref().unwrap().first, 1);
    assert_eq!(node.batch_calls.load(Ordering::Relaxed), 1);
    assert_eq!(
        node.next_requests.lock().len(),
        1,
        "one more try, of one item"
    );
}
