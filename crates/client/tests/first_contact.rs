//! First contact with several servers: which cluster a client belongs to.
//!
//! Schedule: a backup is restored on two hosts, and each cluster has an AllocSvr. A caller has both
//! addresses. Each cluster gives the same numbers, so the order of the answers must decide nothing.

mod fake;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fake::{
    FakeAlloc, SharedNumbers, bind_listeners, new_client, new_seeded_client, routing_table,
    table_of_cluster, unused_address,
};
use seqsvr_client::ErrorKind;
use seqsvr_core::ids::ClusterId;
use seqsvr_proto::cluster_tag::ClusterTag;
use tokio::net::TcpListener;
use tokio::sync::watch;

const ONE: ClusterId = ClusterId(1);
const TWO: ClusterId = ClusterId(2);

/// Starts an AllocSvr of this cluster that owns every slot.
fn start_alloc(listener: TcpListener, address: &str, cluster: ClusterId) -> FakeAlloc {
    let table = routing_table(5, |_| Some((address.to_owned(), 1)));
    let table = table_of_cluster(cluster, &table);
    let node = FakeAlloc::start(listener, &Arc::<SharedNumbers>::default(), &table);
    node.script.lock().cluster_tag = ClusterTag::from_cluster_id(cluster);
    node
}

#[tokio::test]
async fn servers_of_two_clusters_give_no_number_and_are_named() {
    let ([first, second], [one, two]) = bind_listeners().await;
    let nodes = [
        start_alloc(first, &one, ONE),
        start_alloc(second, &two, TWO),
    ];
    for seed in 0..8 {
        let client = new_seeded_client(&[&one, &two], seed);
        let number = client.default_namespace().next(1).await.unwrap_err();
        let raised = client.default_namespace().raise_to(1, 9).await.unwrap_err();
        let listed = client.admin().list_namespaces().await.unwrap_err();
        for error in [number, raised, listed] {
            assert_eq!(error.kind(), ErrorKind::ClusterMismatch, "{error}");
            assert!(!error.is_retryable());
            for (address, cluster) in [(&one, ONE), (&two, TWO)] {
                let line = format!("{address} -> cluster {cluster}");
                assert!(error.to_string().contains(&line), "{error} lacks {line}");
            }
        }
    }
    for node in &nodes {
        assert!(node.shared.numbers.lock().is_empty());
        assert!(node.admin_clusters.lock().is_empty());
    }
}

/// A machine that swallows packets: its port accepts connections, and nothing answers on them. In
/// half of the runs the client would have chosen it, and waited for the time of one attempt.
#[tokio::test]
async fn silent_server_delays_first_call_by_less_than_one_attempt() {
    let ([first, _silent], [address, silent]) = bind_listeners().await;
    let _node = start_alloc(first, &address, ONE);
    for seed in 0..4 {
        let client = new_seeded_client(&[&silent, &address], seed);
        let began = Instant::now();
        client.default_namespace().next(1).await.unwrap();
        let took = began.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

/// Three of four servers are dead: the addresses of a client are hints where to begin.
#[tokio::test]
async fn one_server_decides_if_all_others_are_dead() {
    let ([listener], [address]) = bind_listeners().await;
    let _node = start_alloc(listener, &address, ONE);
    let dead = [
        unused_address().await,
        unused_address().await,
        unused_address().await,
    ];
    let client = new_client(&[&dead[0], &dead[1], &address, &dead[2]]);
    client.default_namespace().next(1).await.unwrap();
    assert_eq!(client.routes().await.unwrap().cluster(), ONE);
}

#[tokio::test]
async fn server_that_names_another_cluster_later_is_never_used() {
    let ([first, second, third], [a, b, stray]) = bind_listeners().await;
    let _nodes = [start_alloc(first, &a, ONE), start_alloc(second, &b, ONE)];
    let stray_node = start_alloc(third, &stray, TWO);
    let (open, gate) = watch::channel(false);
    stray_node.script.lock().routes_gate = Some(gate);
    let client = new_client(&[&stray, &a, &b]);
    client.default_namespace().next(1).await.unwrap();
    open.send(true).unwrap();
    // A namespace that the table lacks is requested from one server after the other.
    for _ in 0..20 {
        let unknown = client.namespace("unknown").next(1).await.unwrap_err();
        assert_ne!(unknown.kind(), ErrorKind::Internal, "{unknown}");
        client.default_namespace().next(1).await.unwrap();
        client.admin().list_namespaces().await.unwrap();
    }
    let fetches = stray_node.fetched_bases.lock().len();
    assert!(fetches > 1, "it got another request: {fetches}");
    assert!(stray_node.shared.numbers.lock().is_empty());
    assert_eq!(client.routes().await.unwrap().cluster(), ONE);
}

#[tokio::test]
async fn admin_calls_name_the_cluster_of_the_client() {
    let ([first, second], [one, two]) = bind_listeners().await;
    let nodes = [
        start_alloc(first, &one, ONE),
        start_alloc(second, &two, ONE),
    ];
    new_seeded_client(&[&one, &two], 1)
        .admin()
        .list_namespaces()
        .await
        .unwrap();
    let named = nodes
        .map(|node| node.admin_clusters.lock().clone())
        .concat();
    assert_eq!(named, [ClusterTag::from_cluster_id(ONE)]);
}

/// With one server there is no more to compare, so there is no more to send.
#[tokio::test]
async fn client_of_one_server_sends_one_request_for_its_table() {
    let ([listener], [address]) = bind_listeners().await;
    let node = start_alloc(listener, &address, ONE);
    let client = new_client(&[&address, &address]);
    client.admin().list_namespaces().await.unwrap();
    assert_eq!(node.fetched_bases.lock().len(), 0);
    client.default_namespace().next(1).await.unwrap();
    assert_eq!(node.fetched_bases.lock().len(), 1);
}
