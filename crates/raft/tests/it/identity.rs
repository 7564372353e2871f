//! Other clusters, other nodes and wiped directories are not let in.

use std::time::Duration;

use prost::Message;
use seqsvr_core::ids::ClusterId;
use seqsvr_proto::v1::raft_client::RaftClient;
use seqsvr_proto::v1::{RaftHeader, RaftRejection, RaftRejectionReason, RaftRequest};
use tonic::Code;

use crate::support::running_node::{
    CLUSTER, RunningNode, leader, start_cluster, start_node, wait_until, wait_until_equal,
    write_session,
};

/// Returns a node's answer to a call with this header.
async fn send_vote(
    address: &str,
    cluster: ClusterId,
    target: u64,
    target_incarnation: u64,
) -> Result<RaftRejection, tonic::Status> {
    let mut client = RaftClient::connect(format!("http://{address}"))
        .await
        .unwrap();
    let request = RaftRequest {
        header: Some(RaftHeader {
            cluster: cluster.0.to_be_bytes().to_vec().into(),
            target,
            target_incarnation,
            sender: 9,
            sender_incarnation: None,
            sender_process: 0,
        }),
        body: bytes::Bytes::from_static(b"not read by a node that rejects the call"),
        acked_end_index: 0,
        checkpoint: None,
    };
    let status = client.vote(request).await.unwrap_err();
    match status.code() {
        Code::FailedPrecondition => Ok(RaftRejection::decode(status.details()).unwrap()),
        _ => Err(status),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_for_another_node_or_cluster_is_rejected_with_reason() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 1, |_| {}).await;
    let own = nodes[0].member();
    let other = ClusterId(0xbad);
    for (cluster, target, incarnation, reason) in [
        (
            other,
            own.id,
            own.incarnation,
            RaftRejectionReason::WrongCluster,
        ),
        (CLUSTER, 7, own.incarnation, RaftRejectionReason::WrongNode),
        (
            CLUSTER,
            own.id,
            own.incarnation ^ 1,
            RaftRejectionReason::WrongIncarnation,
        ),
    ] {
        let rejection = send_vote(&own.address, cluster, target, incarnation).await;
        let rejection = rejection.unwrap();
        assert_eq!(rejection.reason(), reason);
        assert_eq!(
            (rejection.node, rejection.incarnation),
            (own.id, own.incarnation)
        );
    }
    // The right header passes; then the body is checked.
    let status = send_vote(&own.address, CLUSTER, own.id, own.incarnation).await;
    assert_eq!(status.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_node_adopts_cluster_only_from_caller_with_its_incarnation() {
    let dir = tempfile::tempdir().unwrap();
    let one = start_node(dir.path(), 1, |_| {}).await;
    let own = one.member();
    let rejection = send_vote(&own.address, CLUSTER, 1, own.incarnation ^ 1).await;
    assert_eq!(
        rejection.unwrap().reason(),
        RaftRejectionReason::WrongIncarnation
    );
    assert_eq!(one.node.identity().cluster, None);
    let status = send_vote(&own.address, CLUSTER, 1, own.incarnation).await;
    assert_eq!(status.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(one.node.identity().cluster, Some(CLUSTER));
    // Permanently, also across a restart.
    let options = one.kill().await;
    let one = RunningNode::restart(options).await.unwrap();
    assert_eq!(one.node.identity().cluster, Some(CLUSTER));
    let rejection = send_vote(&own.address, ClusterId(2), 1, own.incarnation).await;
    assert_eq!(
        rejection.unwrap().reason(),
        RaftRejectionReason::WrongCluster
    );
}

/// Schedule of finding B3: a node adopts a cluster by another's call and loses its power before its
/// vote is saved. When it is requested to make that cluster, it must not begin its log a second
/// time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_adopted_cluster_never_begins_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let one = start_node(dir.path(), 1, |_| {}).await;
    let own = one.member();
    let passed = send_vote(&own.address, CLUSTER, 1, own.incarnation).await;
    assert_eq!(passed.unwrap_err().code(), Code::InvalidArgument);
    let one = RunningNode::restart(one.kill().await).await.unwrap();
    assert_eq!(one.node.identity().cluster, Some(CLUSTER));
    let made = one.node.create_cluster(vec![own], CLUSTER, 3_000, 64).await;
    let text = made.unwrap_err().to_string();
    assert!(text.contains("from another store"), "{text}");
    assert!(one.node.members().is_empty());
    assert!(one.node.with_state(|s| s.cluster().is_none()));
}

/// Schedule: a store of a living cluster loses its directory, and `init` requests a cluster of it
/// alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wiped_voter_makes_no_cluster_while_it_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let one = start_node(dir.path(), 1, |_| {}).await;
    let own = one.member();
    let rejection = send_vote(&own.address, CLUSTER, 1, own.incarnation ^ 1).await;
    assert_eq!(
        rejection.unwrap().reason(),
        RaftRejectionReason::WrongIncarnation
    );
    for requested in [ClusterId(2), CLUSTER] {
        let made = one
            .node
            .create_cluster(vec![own.clone()], requested, 3_000, 64)
            .await;
        let text = made.unwrap_err().to_string();
        assert!(text.contains(&CLUSTER.to_string()), "{text}");
        assert_eq!(one.node.identity().cluster, None);
    }
    // Nor does it join one that another store makes, but its own takes it back.
    for (cluster, code, adopted) in [
        (ClusterId(2), Code::Unavailable, None),
        (CLUSTER, Code::InvalidArgument, Some(CLUSTER)),
    ] {
        let status = send_vote(&own.address, cluster, 1, own.incarnation).await;
        assert_eq!(status.unwrap_err().code(), code);
        assert_eq!(one.node.identity().cluster, adopted);
    }
    // Calls for another node say nothing about this one.
    let two = start_node(dir.path(), 2, |_| {}).await;
    let own = two.member();
    let rejection = send_vote(&own.address, CLUSTER, 7, own.incarnation).await;
    assert_eq!(rejection.unwrap().reason(), RaftRejectionReason::WrongNode);
    let made = two.node.create_cluster(vec![own], CLUSTER, 3_000, 64).await;
    made.unwrap();
}

/// Schedule: three voters; one is wiped and returns under its id; then the leader goes. If the
/// empty one could vote, it would form a quorum with the other follower, and that quorum need not
/// hold all acknowledged entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wiped_voter_stays_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, |_| {}).await;
    write_session(&nodes, "a").await;
    wait_until_equal(&nodes, ["a"].into_iter()).await;
    let at = leader(&nodes).await;
    let old = nodes[(at + 1) % 3].member();
    let wiped = nodes.remove((at + 1) % 3).kill().await;
    std::fs::remove_dir_all(&wiped.data_dir).unwrap();
    let wiped = RunningNode::restart(wiped).await.unwrap();
    assert_ne!(wiped.member().incarnation, old.incarnation);
    for i in 0..10 {
        write_session(&nodes, &format!("b{i}")).await;
    }
    let rejection = send_vote(&old.address, CLUSTER, old.id, old.incarnation).await;
    assert_eq!(
        rejection.unwrap().reason(),
        RaftRejectionReason::WrongIncarnation
    );
    let at = leader(&nodes).await;
    let gone = nodes.remove(at).kill().await;
    // The time of five elections: without a quorum of true members no node leads.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!nodes[0].is_ready_leader() && !wiped.is_ready_leader());
    assert_eq!(wiped.node.identity().cluster, None);
    assert!(wiped.node.members().is_empty());
    nodes.push(RunningNode::restart(gone).await.unwrap());
    write_session(&nodes, "c").await;
    wait_until_equal(&nodes, ["a", "b9", "c"].into_iter()).await;
    wait_until("the wiped one is still out", || {
        wiped.node.identity().cluster.is_none()
    })
    .await;
}
