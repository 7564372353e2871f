//! A server of another cluster has the address of one of the client's: its numbers are not used.

mod fake;

use std::sync::Arc;
use std::time::Duration;

use fake::{Node, World, client, dead, listen, table};
use seqsvr_client::{Client, Options};
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
    // The same address, now of another cluster, which has none of the first one's numbers.
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

/// Schedule: a client outlives its cluster, whose table names an AllocSvr that is gone. The servers
/// that answer belong to another cluster, and each call waits for the dead one. The error must say
/// so, or the caller waits without end.
#[tokio::test]
async fn a_dead_owner_does_not_hide_that_the_cluster_is_gone() {
    let ([first, second], [one, two]) = listen().await;
    let gone = dead().await;
    let world = Arc::new(World::default());
    let routes = table(5, |_| Some((gone.clone(), 1)));
    let nodes = [first, second].map(|listener| Node::start(listener, &world, &routes));
    let client = Client::new(Options {
        seed: Some(1),
        deadline: Duration::from_secs(1),
        ..Options::new([one, two])
    });
    let client = client.unwrap();
    nodes
        .iter()
        .for_each(|node| node.script.lock().names = ClusterTag::of(OWN));
    client.routes().await.unwrap();
    for node in &nodes {
        let mut script = node.script.lock();
        script.names = ClusterTag::of(OTHER);
        script.breaks = true;
    }
    let error = client.next("", 1, 1).await.unwrap_err();
    assert_eq!(error.reason, Reason::ClusterMismatch, "{error}");
    for part in ["2 of 3 servers", &gone, "new client"] {
        assert!(error.to_string().contains(part), "{error} lacks {part}");
    }
}
