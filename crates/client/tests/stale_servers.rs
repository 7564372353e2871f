//! Servers that answer and are wrong: cut off from the stores, or from the other stores.

mod fake;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fake::{
    FakeAlloc, SharedNumbers, add_namespace, bind_listeners, new_client, routing_table,
    unused_address,
};
use seqsvr_client::{Client, ClientOptions, NextItem, Reason};
use seqsvr_proto::error::RpcError;

/// Schedule: AllocSvr A is cut off from the stores, but not from clients. B takes its slots over. A
/// rejects each call, and its table stays old.
#[tokio::test]
async fn owner_without_lease_hides_no_successor() {
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let before = routing_table(5, |_| Some((address_a.clone(), 1)));
    let shared = Arc::new(SharedNumbers::default());
    let alloc_a = FakeAlloc::start(listener_a, &shared, &before);
    let alloc_b = FakeAlloc::start(listener_b, &shared, &before);
    let client = new_client(&[&address_a, &address_b]);
    let numbers = client.default_namespace();
    assert_eq!(numbers.next(7u64).await.unwrap().epoch, 1);
    alloc_a.script.lock().next_error = Some(RpcError::new(Reason::NoLease, "no lease"));
    *alloc_b.table.lock() = routing_table(6, |_| Some((address_b.clone(), 2)));
    assert_eq!(numbers.next(7u64).await.unwrap().epoch, 2);
    assert_eq!(alloc_a.next_requests.lock().len(), 2, "A was called once");
}

/// Schedule: as above, for a call about several keys.
#[tokio::test]
async fn owner_without_lease_hides_no_successor_from_batch() {
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let before = routing_table(5, |_| Some((address_a.clone(), 1)));
    let shared = Arc::new(SharedNumbers::default());
    let alloc_a = FakeAlloc::start(listener_a, &shared, &before);
    let alloc_b = FakeAlloc::start(listener_b, &shared, &before);
    let client = new_client(&[&address_a, &address_b]);
    let numbers = client.default_namespace();
    let items = [NextItem::new(7u64), NextItem::new(8u64)];
    for result in numbers.next_batch(&items).await {
        assert_eq!(result.unwrap().epoch, 1);
    }
    for key in ["7", "8"] {
        let no_lease = RpcError::new(Reason::NoLease, "no lease");
        let mut script = alloc_a.script.lock();
        script.rejecting_once.insert(key.to_owned(), no_lease);
    }
    *alloc_b.table.lock() = routing_table(6, |_| Some((address_b.clone(), 2)));
    for result in numbers.next_batch(&items).await {
        assert_eq!(result.unwrap().epoch, 2, "the retry went to B");
    }
}

/// Schedule: a namespace is new, and the table of one of two servers stays old.
#[tokio::test]
async fn server_with_old_table_hides_no_new_namespace() {
    for _ in 0..20 {
        let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
        let before = routing_table(5, |_| Some((address_b.clone(), 1)));
        let _alloc_a = FakeAlloc::start(listener_a, &Arc::default(), &before);
        let alloc_b = FakeAlloc::start(listener_b, &Arc::default(), &before);
        let options = ClientOptions::new([&*address_a, &*address_b]);
        let client = Client::new(options).unwrap();
        client.default_namespace().next(7u64).await.unwrap();
        add_namespace(&mut alloc_b.table.lock(), "moments");
        let number = client.namespace("moments").next(7u64).await;
        assert_eq!(number.unwrap().first, 1);
    }
}

/// Schedule: an operator names two StoreSvrs. One is cut off from the others, and names a leader
/// that is dead.
#[tokio::test]
async fn store_that_names_dead_leader_is_called_once() {
    let ([listener_a, listener_b], [address_a, address_b]) = bind_listeners().await;
    let routes = routing_table(5, |_| None);
    let cut_off = FakeAlloc::start(listener_a, &Arc::default(), &routes);
    let leader = FakeAlloc::start(listener_b, &Arc::default(), &routes);
    let dead = unused_address().await;
    let not_leader = RpcError::new(Reason::NotLeader, "this store does not lead");
    cut_off.script.lock().status_error = Some(not_leader.with_leader(Some(dead)));
    for calls in 1..=20 {
        let options = ClientOptions::new([&*address_a, &*address_b]);
        let client = Client::new(options).unwrap();
        assert_eq!(
            client.admin().cluster_status().await.unwrap().lease_ms,
            3000
        );
        assert_eq!(leader.status_requests.load(Ordering::SeqCst), calls);
        assert!(cut_off.status_requests.load(Ordering::SeqCst) <= calls);
    }
    assert!(cut_off.status_requests.load(Ordering::SeqCst) > 0);
}
