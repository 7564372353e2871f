//! Routing: requests go to the owner, also after moves, and tables are fetched when needed.

mod fake;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fake::{FakeAlloc, SharedNumbers, bind_listeners, new_client, routing_table, unused_address};
use seqsvr_client::{ErrorKind, Key, NextItem};

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
        let numbers = client.default_namespace().next_n(uid, 2).await.unwrap();
        assert_eq!((numbers.first, numbers.last, numbers.epoch), (1, 2, 3));
        assert_eq!(numbers.iter().collect::<Vec<_>>(), [1, 2]);
    }
    let number = client.default_namespace().next("alice").await.unwrap();
    assert_eq!(number.first, 1);
    // As many requests as calls: none went to the wrong node.
    let seen: Vec<usize> = nodes.iter().map(|n| n.next_requests.lock().len()).collect();
    assert_eq!(seen[0] + seen[1], 65);
    assert!(seen[0] > 10 && seen[1] > 10, "{seen:?}");

    assert_eq!(
        client
            .default_namespace()
            .raise_to(0u64, 50)
            .await
            .unwrap()
            .value,
        50
    );
    assert_eq!(
        client.default_namespace().next(0u64).await.unwrap().first,
        51
    );
    assert_eq!(
        client
            .default_namespace()
            .current(0u64)
            .await
            .unwrap()
            .value,
        51
    );
    let current = client
        .default_namespace()
        .current_batch(&[Key::Uid(0), Key::Uid(100_000)])
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
    assert_eq!(
        client.default_namespace().next(7u64).await.unwrap().epoch,
        1
    );
    *alloc_a.table.lock() = after.clone();
    let second = client.default_namespace().next(7u64).await.unwrap();
    assert_eq!((second.first, second.epoch), (2, 2));
    assert_eq!(
        (
            alloc_a.next_requests.lock().len(),
            alloc_b.next_requests.lock().len()
        ),
        (2, 1)
    );
    client.default_namespace().next(7u64).await.unwrap();
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
    assert_eq!(*client.wait_status().borrow(), None);
}

#[tokio::test]
async fn request_carries_last_epoch_and_floor_of_caller() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let routes = routing_table(5, |_| Some((address_a.clone(), 4)));
    let node = FakeAlloc::start(listener_a, &Arc::default(), &routes);
    let client = new_client(&[&address_a]);
    for _ in 0..2 {
        client.default_namespace().next(7u64).await.unwrap();
    }
    let item = NextItem::new(7).with_floor(2);
    let third = client.default_namespace().next_item(&item).await.unwrap();
    assert_eq!(third.first, 3);
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
    let item = NextItem::new(7).with_floor(100);
    let client = new_client(&[&address_a]);
    let error = client
        .default_namespace()
        .next_item(&item)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
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
    client.default_namespace().next(7u64).await.unwrap();
    node.script.lock().sends_gap = false;
    *node.table.lock() = routing_table(9, |_| Some((address_a.clone(), 1)));
    client.default_namespace().next(7u64).await.unwrap();
    client.default_namespace().next(7u64).await.unwrap();
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
    client.default_namespace().next(7u64).await.unwrap();
    node.script.lock().table_cluster = Some(0xbad);
    let error = client.default_namespace().next(7u64).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::ClusterMismatch);
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
            tokio::spawn(async move { client.default_namespace().next(uid).await.unwrap().first })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), 1);
    }
    assert_eq!(node.fetched_bases.lock().len(), 1);
}

/// Schedule: one server sends a table of a version far above, which names it as the owner of every
/// slot. Taken, it would stay: the tables of all others are older.
#[tokio::test]
async fn table_of_far_higher_version_needs_two_servers() {
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let owner = |slot: u16| match slot.is_multiple_of(2) {
        true => address_a.clone(),
        false => address_b.clone(),
    };
    let routes = routing_table(5, |slot| Some((owner(slot), 1)));
    let far = routing_table(1 << 62, |_| Some((address_a.clone(), 2)));
    let (alloc_a, alloc_b) = (
        FakeAlloc::start(listener_a, &Arc::default(), &routes),
        FakeAlloc::start(listener_b, &Arc::default(), &routes),
    );
    let client = new_client(&[&address_b]);
    let version = async || client.routes().await.unwrap().version();
    client.default_namespace().next(0u64).await.unwrap();
    assert_eq!(version().await, 5);
    *alloc_a.table.lock() = far.clone();
    for uid in spread_uids() {
        client.default_namespace().next(uid).await.unwrap();
    }
    assert_eq!(version().await, 5, "no other server has confirmed it");
    assert!(alloc_b.next_requests.lock().len() > 10, "B is still used");
    let fetches = |alloc: &FakeAlloc| alloc.fetched_bases.lock().len();
    assert_eq!(
        (fetches(&alloc_a), fetches(&alloc_b)),
        (0, 2),
        "one request to B"
    );
    *alloc_b.table.lock() = far;
    for uid in spread_uids() {
        client.default_namespace().next(uid).await.unwrap();
    }
    assert_eq!(version().await, 1 << 62);
}

/// Schedule: one server sends a table whose version is little above the true one and that names a
/// process that is gone as the owner. All tables of the others are older.
#[tokio::test]
async fn table_of_one_server_is_left_once_calls_contradict_it() {
    const LIE: u64 = 5 + 1_000_000;
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let gone = unused_address().await;
    let owner = |slot: u16| match slot.is_multiple_of(2) {
        true => address_a.clone(),
        false => address_b.clone(),
    };
    let routes = routing_table(5, |slot| Some((owner(slot), 1)));
    let shared = Arc::new(SharedNumbers::default());
    let alloc_a = FakeAlloc::start(listener_a, &shared, &routes);
    let alloc_b = FakeAlloc::start(listener_b, &shared, &routes);
    let client = new_client(&[&address_b]);
    let version = async || client.routes().await.unwrap().version();
    client.default_namespace().next(0u64).await.unwrap();
    assert_eq!(version().await, 5);
    // A sends it with one answer; the owner that it names for B's slots does not answer.
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    for uid in spread_uids() {
        let (_, slot, _) = client.default_namespace().route(uid).await.unwrap();
        match slot.0.is_multiple_of(2) {
            true => of_a.push(uid),
            false => of_b.push(uid),
        }
    }
    let liar = |slot: u16| match slot.is_multiple_of(2) {
        true => address_a.clone(),
        false => gone.clone(),
    };
    *alloc_a.table.lock() = routing_table(LIE, |slot| Some((liar(slot), 2)));
    client.default_namespace().next(of_a[0]).await.unwrap();
    assert_eq!(version().await, LIE);
    *alloc_a.table.lock() = routes.clone();
    let mut uids = of_b.into_iter().cycle();
    wait_until("the true table", async || {
        let uid = uids.next().unwrap();
        client.default_namespace().next(uid).await.unwrap();
        version().await == 5
    })
    .await;
    // Each call goes to its owner again.
    let requests = || {
        let seen = [&alloc_a, &alloc_b].map(|node| node.next_requests.lock().len());
        seen[0] + seen[1]
    };
    let before = requests();
    for uid in spread_uids() {
        client.default_namespace().next(uid).await.unwrap();
    }
    assert_eq!(requests() - before, spread_uids().count());
}

/// A jump is taken from one server if no other one answers: the client may have slept for long.
#[tokio::test]
async fn far_table_is_taken_while_no_other_server_answers() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let gone = unused_address().await;
    let routes = routing_table(5, |_| Some((address_a.clone(), 1)));
    let alloc_a = FakeAlloc::start(listener_a, &Arc::default(), &routes);
    let client = new_client(&[&address_a, &gone]);
    client.default_namespace().next(0u64).await.unwrap();
    let far = 5 + (1 << 20) + 1;
    *alloc_a.table.lock() = routing_table(far, |_| Some((address_a.clone(), 2)));
    wait_until("the new table", async || {
        client.default_namespace().next(0u64).await.unwrap();
        client.routes().await.unwrap().version() == far
    })
    .await;
}

/// Schedule: a server answers once with an epoch that no store has issued. Every later call of the
/// slot would carry it, and its owners would reject each.
#[tokio::test]
async fn epoch_of_one_server_is_dropped_when_a_confirmed_owner_contradicts_it() {
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let shared = Arc::new(SharedNumbers::default());
    let before = routing_table(5, |_| Some((address_a.clone(), 1)));
    let after = routing_table(6, |_| Some((address_b.clone(), 2)));
    let alloc_a = FakeAlloc::start(listener_a, &shared, &before);
    let alloc_b = FakeAlloc::start(listener_b, &shared, &after);
    alloc_b.script.lock().checks_guards = true;
    let client = new_client(&[&address_a]);
    let numbers = client.default_namespace();
    alloc_a.script.lock().answer_epoch = Some(1_000_000);
    assert_eq!(numbers.next(7u64).await.unwrap().epoch, 1_000_000);
    *alloc_a.table.lock() = after;
    let second = numbers.next(7u64).await.unwrap();
    assert_eq!((second.first, second.epoch), (2, 2));
    let epochs = |node: &FakeAlloc| -> Vec<_> {
        let seen = node.next_requests.lock();
        seen.iter().map(|request| request.epoch).collect()
    };
    assert_eq!(epochs(&alloc_b), [Some(1_000_000), Some(2)]);

    // A floor that is wrong costs no epoch.
    let item = NextItem::new(7).with_floor(100);
    let error = numbers.next_item(&item).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FloorAhead);
    numbers.next(7u64).await.unwrap();
    assert_eq!(epochs(&alloc_b)[2..], [Some(2), Some(2)]);

    // An epoch that the table names as well stays: the cluster has lost it.
    *alloc_b.table.lock() = routing_table(6, |_| Some((address_b.clone(), 1)));
    let error = numbers.next(7u64).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FloorAhead);
    assert_eq!(epochs(&alloc_b).last(), Some(&Some(2)));
}

async fn wait_until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(Instant::now() < until, "{what}");
    }
}
