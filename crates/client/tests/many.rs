//! Calls about many keys, new namespaces, and operators' calls.

mod fake;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fake::{Node, World, add_namespace, client, dead, listen, table};
use seqsvr_client::{Alter, Code, Key, NextItem, Options, Reason};
use seqsvr_core::namespace::Spec;
use seqsvr_proto::error::Fault;

#[tokio::test]
async fn items_are_independent() {
    let ([la, lb], [a, b]) = listen().await;
    let gone = dead().await;
    let owner = |slot: u16| match slot {
        0 => gone.clone(),
        s if s.is_multiple_of(2) => a.clone(),
        _ => b.clone(),
    };
    let routes = table(5, |slot| Some((owner(slot), 1)));
    let world = Arc::new(World::default());
    let (na, nb) = (
        Node::start(la, &world, &routes),
        Node::start(lb, &world, &routes),
    );
    let client = client(&[&a, &b]).with_deadline(Duration::from_secs(1));
    client.routes().await.unwrap();

    let mut items: Vec<NextItem> = (0..200).map(|i| NextItem::new(i * 100_000)).collect();
    let keys = (0..50).map(|i| Key::from(format!("k{i}")));
    items.extend(keys.map(NextItem::new));
    items.push(NextItem {
        count: 0,
        ..NextItem::new(1u64)
    });
    items.push(NextItem::new(1u64 << 40));
    items.push(NextItem::new(""));
    for node in [&na, &nb] {
        let flaky = (0..100).map(|i| (i * 100_000).to_string());
        node.script.lock().flaky = flaky.collect();
    }

    let begin = Instant::now();
    let results = client.next_many("", &items).await;
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(results.len(), items.len());
    let known = client.routes().await.unwrap();
    let mut orphans = 0;
    for (item, result) in items.iter().zip(&results) {
        if item.count == 0 || item.key == Key::Uid(1 << 40) || item.key == Key::from("") {
            assert_eq!(result.as_ref().unwrap_err().code, Code::InvalidArgument);
            continue;
        }
        let name = if matches!(item.key, Key::Uid(_)) {
            "default"
        } else {
            "keys"
        };
        let (_, slot) = known
            .place(known.namespace(name).unwrap(), item.key.as_ref())
            .unwrap();
        if slot.0 == 0 {
            let error = result.as_ref().unwrap_err();
            assert_eq!(error.code, Code::DeadlineExceeded);
            assert!(error.to_string().contains("tries"), "{error}");
            orphans += 1;
        } else {
            assert_eq!(result.as_ref().unwrap().first, 1, "{:?}", item.key);
        }
    }
    assert!((1..60).contains(&orphans), "{orphans}");
    // The client did not retry the items that had an answer.
    assert!(world.numbers.lock().values().all(|last| *last == 1));
}

#[tokio::test]
async fn a_slow_owner_does_not_hold_up_the_retries_of_others() {
    let ([la, lb], [a, b]) = listen().await;
    let owner = |slot: u16| {
        if slot.is_multiple_of(2) {
            a.clone()
        } else {
            b.clone()
        }
    };
    let routes = table(5, |slot| Some((owner(slot), 1)));
    let world = Arc::new(World::default());
    let (na, nb) = (
        Node::start(la, &world, &routes),
        Node::start(lb, &world, &routes),
    );
    let client = client(&[&a]);
    client.routes().await.unwrap();
    let items: Vec<NextItem> = (0..100).map(|i| NextItem::new(i * 100_000)).collect();
    na.script.lock().flaky = (0..100).map(|i| (i * 100_000).to_string()).collect();
    nb.script.lock().delay = Duration::from_millis(600);
    let call = tokio::spawn(async move { client.next_many("", &items).await });
    // a's items all fail once and are answered while b still sleeps.
    let begin = Instant::now();
    while world.numbers.lock().is_empty() && begin.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let of_b = |key: &str| {
        let place = routes.place(&routes.namespaces()[0], Key::parse(key).as_ref());
        place.unwrap().1.0 % 2 == 1
    };
    let early: Vec<String> = world.numbers.lock().keys().map(|k| k.1.clone()).collect();
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
    assert_eq!(nb.many.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_moved_slot_is_followed_item_by_item() {
    let ([la, lb], [a, b]) = listen().await;
    let before = table(5, |_| Some((a.clone(), 1)));
    let after = table(6, |slot| {
        Some(if slot < 8 {
            (b.clone(), 2)
        } else {
            (a.clone(), 1)
        })
    });
    let world = Arc::new(World::default());
    let (na, _nb) = (
        Node::start(la, &world, &before),
        Node::start(lb, &world, &after),
    );
    let client = client(&[&a]);
    client.routes().await.unwrap();
    *na.table.lock() = after;
    let items: Vec<NextItem> = (0..100).map(|i| NextItem::new(i * 100_000)).collect();
    let results = client.next_many("", &items).await;
    let epochs: Vec<u64> = results.iter().map(|r| r.as_ref().unwrap().epoch).collect();
    assert!(epochs.contains(&1) && epochs.contains(&2));
    assert_eq!(na.many.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn batches_above_the_limits_are_split() {
    let ([la], [a]) = listen().await;
    let node = Node::start(la, &Arc::default(), &table(5, |_| Some((a.clone(), 1))));
    let client = client(&[&a]);
    let items: Vec<NextItem> = (0..25_000u64).map(NextItem::new).collect();
    assert!(client.next_many("", &items).await.iter().all(Result::is_ok));
    // A frame takes 1,024 items.
    assert_eq!(node.many.load(Ordering::SeqCst), 25);
    let big = |uid: u64| NextItem {
        count: 100_000,
        ..NextItem::new(uid)
    };
    let items: Vec<NextItem> = (0..150).map(big).collect();
    assert!(client.next_many("", &items).await.iter().all(Result::is_ok));
    // And 10 million numbers.
    assert_eq!(node.many.load(Ordering::SeqCst), 27);
    assert!(client.next_many::<u64>("", &[]).await.is_empty());
}

#[tokio::test]
async fn an_unknown_namespace_may_be_new() {
    let ([la], [a]) = listen().await;
    let node = Node::start(la, &Arc::default(), &table(5, |_| Some((a.clone(), 1))));
    let client = client(&[&a]);
    client.next("", 7u64, 1).await.unwrap();
    let error = client.next("moments", 7u64, 1).await.unwrap_err();
    assert_eq!(
        (error.code, error.reason),
        (Code::NotFound, Reason::NoSuchNamespace)
    );
    assert!(error.to_string().contains("moments"), "{error}");
    let fetched = node.fetched.lock().len();
    assert!((2..=4).contains(&fetched), "{fetched}");
    let many = client.next_many("moments", &[NextItem::new(7u64)]).await;
    assert_eq!(many[0].as_ref().unwrap_err().code, Code::NotFound);
    add_namespace(&mut node.table.lock(), "moments");
    assert_eq!(client.next("moments", 7u64, 1).await.unwrap().first, 1);
}

#[tokio::test]
async fn operators_calls() {
    let ([la], [a]) = listen().await;
    let _node = Node::start(la, &Arc::default(), &table(5, |_| Some((a.clone(), 1))));
    let gone = dead().await;
    let client = client(&[&gone, &a]);
    let admin = client.admin();
    let spec = Spec {
        name: "moments".into(),
        ..Spec::default_dense()
    };
    let created = admin.create_namespace(&spec).await.unwrap();
    assert_eq!(
        (created.spec.name.as_str(), created.version),
        ("moments", 6)
    );
    assert_eq!(client.next("moments", 7u64, 1).await.unwrap().first, 1);
    assert_eq!(admin.list_namespaces().await.unwrap().len(), 3);
    assert_eq!(admin.cluster_status().await.unwrap().lease_ms, 3000);
    assert_eq!(admin.node_status(&a).await.unwrap().address, a);
    let error = admin
        .alter_namespace("none", Alter::default())
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    let bad = Spec {
        name: "no good name".into(),
        ..spec
    };
    assert_eq!(
        admin.create_namespace(&bad).await.unwrap_err().code,
        Code::InvalidArgument
    );
    let hurried = client.with_deadline(Duration::from_millis(300));
    let error = hurried.admin().node_status(&gone).await.unwrap_err();
    assert!(error.to_string().contains(&gone), "{error}");
}

#[test]
fn bad_addresses_are_refused_at_once() {
    for servers in [vec![], vec!["127.0.0.1:99999"], vec!["a:1", ""]] {
        let error = seqsvr_client::Client::new(Options::new(servers))
            .err()
            .unwrap();
        assert_eq!(error.code, Code::InvalidArgument, "{error}");
    }
}

#[tokio::test]
async fn an_items_hint_is_kept_and_a_refusal_without_one_is_final() {
    let ([la], [a]) = listen().await;
    let node = Node::start(la, &Arc::default(), &table(5, |_| Some((a.clone(), 1))));
    let client = client(&[&a]);
    client.routes().await.unwrap();
    let busy = Fault::new(Reason::TooMany, "too many wait");
    node.script.lock().refused = [
        ("100000".to_owned(), busy.clone().with_retry_after_ms(200)),
        ("200000".to_owned(), busy),
    ]
    .into();
    let items = [100_000u64, 200_000, 300_000].map(NextItem::new);
    let begin = Instant::now();
    let results = client.next_many("", &items).await;
    assert!(begin.elapsed() >= Duration::from_millis(200));
    assert_eq!(results[0].as_ref().unwrap().first, 1);
    let error = results[1].as_ref().unwrap_err();
    assert_eq!(
        (error.reason, error.code),
        (Reason::TooMany, Code::ResourceExhausted)
    );
    assert_eq!(results[2].as_ref().unwrap().first, 1);
    assert_eq!(node.many.load(Ordering::Relaxed), 1);
    assert_eq!(node.seen.lock().len(), 1, "one more try, of one item");
}
