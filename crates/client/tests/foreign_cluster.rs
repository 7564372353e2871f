//! A server of another cluster has the address of one of the client's: its numbers are not used.

mod fake;

use std::sync::Arc;
use std::time::Duration;

use fake::{FakeAlloc, SharedNumbers, bind_listeners, new_client, routing_table, unused_address};
use seqsvr_client::{Client, ClientOptions};
use seqsvr_core::ids::ClusterId;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::v1::Reason;

/// The cluster of the fake's tables.
const OWN: ClusterId = ClusterId(1);
const OTHER: ClusterId = ClusterId(2);

#[tokio::test]
async fn numbers_of_another_cluster_are_rejected() {
    let ([listener], [address]) = bind_listeners().await;
    let shared = Arc::new(SharedNumbers::default());
    let node = FakeAlloc::start(
        listener,
        &shared,
        &routing_table(5, |_| Some((address.clone(), 1))),
    );
    node.script.lock().cluster_tag = ClusterTag::from_cluster_id(OWN);
    let client = new_client(&[&address]);
    assert_eq!(client.default_namespace().next(1).await.unwrap().first, 1);
    // The same address, now of another cluster, which has none of the first one's numbers.
    {
        let mut script = node.script.lock();
        script.cluster_tag = ClusterTag::from_cluster_id(OTHER);
        script.breaks_pipe = true;
    }
    shared.numbers.lock().clear();
    for key in [1, 2] {
        let error = client.default_namespace().next(key).await.unwrap_err();
        assert_eq!(error.reason(), Reason::ClusterMismatch, "{error}");
        let text = error.to_string();
        for part in [
            "every server",
            &address,
            &ClusterTag::from_cluster_id(OTHER).to_string(),
            "new client",
        ] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }
    let raised = client
        .default_namespace()
        .raise_to(3, 100)
        .await
        .unwrap_err();
    assert_eq!(raised.reason(), Reason::ClusterMismatch);
    let many = client.default_namespace().next_batch(&[1_u64, 2]).await;
    assert!(many.iter().all(Result::is_err));
}

#[tokio::test]
async fn unary_reply_of_another_cluster_is_rejected() {
    let ([listener], [address]) = bind_listeners().await;
    let shared = Arc::new(SharedNumbers::default());
    let node = FakeAlloc::start(
        listener,
        &shared,
        &routing_table(5, |_| Some((address.clone(), 1))),
    );
    node.script.lock().cluster_tag = ClusterTag::from_cluster_id(OTHER);
    let client = new_client(&[&address]);
    // The client learns its cluster from the table.
    let error = client
        .default_namespace()
        .raise_to(3, 100)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::ClusterMismatch, "{error}");
}

#[tokio::test]
async fn foreign_server_is_avoided_if_another_server_answers() {
    let ([first, second], [stray, good]) = bind_listeners().await;
    let shared = Arc::new(SharedNumbers::default());
    let stray_node = FakeAlloc::start(
        first,
        &shared,
        &routing_table(5, |_| Some((stray.clone(), 1))),
    );
    stray_node.script.lock().cluster_tag = ClusterTag::from_cluster_id(OTHER);
    let good_node = FakeAlloc::start(
        second,
        &shared,
        &routing_table(6, |_| Some((good.clone(), 2))),
    );
    good_node.script.lock().cluster_tag = ClusterTag::from_cluster_id(OWN);
    let client = new_client(&[&stray, &good]);
    for expected in 1..=20 {
        assert_eq!(
            client.default_namespace().next(1).await.unwrap().first,
            expected
        );
    }
    assert_eq!(client.routes().await.unwrap().version(), 6);
}

#[tokio::test]
async fn server_without_cluster_tag_is_accepted() {
    let ([listener], [address]) = bind_listeners().await;
    let shared = Arc::new(SharedNumbers::default());
    let _node = FakeAlloc::start(
        listener,
        &shared,
        &routing_table(5, |_| Some((address.clone(), 1))),
    );
    let client = new_client(&[&address]);
    assert_eq!(client.default_namespace().next(1).await.unwrap().first, 1);
}

/// Schedule: a client outlives its cluster, whose table names an AllocSvr that is gone. The servers
/// that answer belong to another cluster, and each call waits for the dead one. The error must say
/// so, or the caller waits without end.
#[tokio::test]
async fn dead_owner_does_not_hide_cluster_mismatch() {
    let ([first, second], [one, two]) = bind_listeners().await;
    let gone = unused_address().await;
    let shared = Arc::new(SharedNumbers::default());
    let routes = routing_table(5, |_| Some((gone.clone(), 1)));
    let nodes = [first, second].map(|listener| FakeAlloc::start(listener, &shared, &routes));
    let client = Client::new(
        ClientOptions::new([one, two])
            .with_seed(1)
            .with_deadline(Duration::from_secs(1)),
    );
    let client = client.unwrap();
    nodes
        .iter()
        .for_each(|node| node.script.lock().cluster_tag = ClusterTag::from_cluster_id(OWN));
    client.routes().await.unwrap();
    for node in &nodes {
        let mut script = node.script.lock();
        script.cluster_tag = ClusterTag::from_cluster_id(OTHER);
        script.breaks_pipe = true;
    }
    let error = client.default_namespace().next(1).await.unwrap_err();
    assert_eq!(error.reason(), Reason::ClusterMismatch, "{error}");
    for part in ["2 of 3 servers", &gone, "new client"] {
        assert!(error.to_string().contains(part), "{error} lacks {part}");
    }
}
