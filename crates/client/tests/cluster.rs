//! A server of another cluster has the address of one of the client's: none of its numbers is used.

mod fake;

use std::sync::Arc;

use fake::{Node, World, client, listen, table};
use seqsvr_core::id::ClusterId;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::v1::Reason;

/// The cluster of the fake's tables.
const OWN: ClusterId = ClusterId(1);
const OTHER: ClusterId = ClusterId(2);

#[tokio::test]
async fn numbers_of_another_cluster_are_never_used() {
    let ([listener], [address]) = listen().await;
    let world = Arc::new(World::default());
    let node = Node::start(listener, &world, &table(5, |_| Some((address.clone(), 1))));
    node.script.lock().names = ClusterTag::of(OWN);
    let client = client(&[&address]);
    assert_eq!(client.next("", 1, 1).await.unwrap().first, 1);
    // The same address, now of another cluster, which knows nothing of the first one's numbers.
    {
        let mut script = node.script.lock();
        script.names = ClusterTag::of(OTHER);
        script.breaks = true;
    }
    world.numbers.lock().clear();
    for key in [1, 2] {
        let error = client.next("", key, 1).await.unwrap_err();
        assert_eq!(error.reason, Reason::ClusterMismatch, "{error}");
        let text = error.to_string();
        for part in [
            "every server",
            &address,
            &ClusterTag::of(OTHER).to_string(),
            "new client",
        ] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }
    let raised = client.raise_to("", 3, 100, false).await.unwrap_err();
    assert_eq!(raised.reason, Reason::ClusterMismatch);
    let many = client.next_many("", &[1_u64, 2]).await;
    assert!(many.iter().all(Result::is_err));
}

#[tokio::test]
async fn a_reply_to_a_unary_call_is_checked_too() {
    let ([listener], [address]) = listen().await;
    let world = Arc::new(World::default());
    let node = Node::start(listener, &world, &table(5, |_| Some((address.clone(), 1))));
    node.script.lock().names = ClusterTag::of(OTHER);
    let client = client(&[&address]);
    // The client learns its cluster from the table.
    let error = client.raise_to("", 3, 100, false).await.unwrap_err();
    assert_eq!(error.reason, Reason::ClusterMismatch, "{error}");
}

#[tokio::test]
async fn other_servers_of_the_clients_cluster_are_asked_instead() {
    let ([first, second], [stray, good]) = listen().await;
    let world = Arc::new(World::default());
    let stray_node = Node::start(first, &world, &table(5, |_| Some((stray.clone(), 1))));
    stray_node.script.lock().names = ClusterTag::of(OTHER);
    let good_node = Node::start(second, &world, &table(6, |_| Some((good.clone(), 2))));
    good_node.script.lock().names = ClusterTag::of(OWN);
    let client = client(&[&stray, &good]);
    for expected in 1..=20 {
        assert_eq!(client.next("", 1, 1).await.unwrap().first, expected);
    }
    assert_eq!(client.routes().await.unwrap().version(), 6);
}

#[tokio::test]
async fn a_server_that_names_no_cluster_is_served_by() {
    let ([listener], [address]) = listen().await;
    let world = Arc::new(World::default());
    let _node = Node::start(listener, &world, &table(5, |_| Some((address.clone(), 1))));
    let client = client(&[&address]);
    assert_eq!(client.next("", 1, 1).await.unwrap().first, 1);
}
