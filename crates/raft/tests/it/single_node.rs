//! One node: start, init, write, read, restart.

use crate::support::running_node::{
    CLUSTER, LEASE_MS, RunningNode, SLOTS, session_batch, start_cluster, start_node,
    wait_for_level, wait_until, wait_until_equal, wait_until_unlocked, write_session,
};
use seqsvr_core::ids::ClusterId;
use seqsvr_core::state::State;
use seqsvr_net::TcpTransport;
use seqsvr_raft::{ConfirmError, Error, ProposeError, RaftNode};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_node_waits_for_init_then_survives_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let one = start_node(dir.path(), 1, |_| {}).await;
    assert_eq!(one.node.identity().cluster, None);
    assert!(one.node.members().is_empty());
    let rejection = one.node.propose(session_batch("early")).await;
    assert_eq!(rejection, Err(ProposeError::NotLeader { leader: None }));
    assert!(matches!(
        one.node.confirm_leadership().await,
        Err(ConfirmError::NotLeader { .. })
    ));

    let members = vec![one.member()];
    for _ in 0..2 {
        let made = one
            .node
            .create_cluster(members.clone(), CLUSTER, LEASE_MS, SLOTS)
            .await;
        made.unwrap();
    }
    let other = ClusterId(7);
    let rejection = one
        .node
        .create_cluster(members, other, LEASE_MS, SLOTS)
        .await;
    assert!(matches!(rejection, Err(Error::WrongCluster { .. })));

    let mut nodes = vec![one];
    wait_for_level(&nodes).await;
    write_session(&nodes, "a1").await;
    let index = nodes[0].node.confirm_leadership().await.unwrap();
    assert!(index >= 2);
    assert!(nodes[0].node.counters().log_syncs > 0);

    for round in 0..3 {
        let before = nodes[0].node.with_state(State::clone);
        let identity = nodes[0].node.identity();
        let options = nodes.remove(0).kill().await;
        nodes.push(RunningNode::restart(options).await.unwrap());
        assert_eq!(nodes[0].node.identity(), identity);
        wait_until("the state is back", || {
            nodes[0].node.with_state(State::clone) == before
        })
        .await;
        write_session(&nodes, &format!("b{round}")).await;
    }
    wait_until_equal(&nodes, ["a1", "b0", "b1", "b2"].into_iter()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_init_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let one = start_node(dir.path(), 1, |_| {}).await;
    let own = one.member();
    let mut stranger = own.clone();
    stranger.id = 2;
    let mut stale = own.clone();
    stale.incarnation ^= 1;
    let twice = {
        let mut m = own.clone();
        m.id = 3;
        vec![own.clone(), m]
    };
    for (members, lease_ms, slots) in [
        (vec![], LEASE_MS, SLOTS),
        (vec![stranger], LEASE_MS, SLOTS),
        (vec![stale], LEASE_MS, SLOTS),
        (twice, LEASE_MS, SLOTS),
        (vec![own.clone()], 1, SLOTS),
        (vec![own.clone()], LEASE_MS, 0),
    ] {
        let rejection = one
            .node
            .create_cluster(members, CLUSTER, lease_ms, slots)
            .await;
        assert!(matches!(rejection, Err(Error::Members(_))), "{rejection:?}");
    }
    assert_eq!(one.node.identity().cluster, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_dir_is_used_by_one_process_and_one_node() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 1, |_| {}).await;
    let options = nodes[0].options.clone();
    let second = RaftNode::open(options.clone(), Arc::new(TcpTransport)).await;
    assert!(matches!(second, Err(Error::Locked(_))));
    for node in nodes {
        node.kill().await;
    }
    let mut other = options;
    other.node = 2;
    wait_until_unlocked(&other.data_dir).await;
    let rejection = RaftNode::open(other, Arc::new(TcpTransport))
        .await
        .map(drop)
        .unwrap_err();
    assert!(matches!(
        rejection,
        Error::WrongNode {
            has: 1,
            requested: 2,
            ..
        }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_proposals_share_log_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 1, |_| {}).await;
    let before = nodes[0].node.counters();
    let many = (0..500).map(|i| {
        let node = nodes[0].node.clone();
        async move { node.propose(session_batch(&format!("s{i}"))).await }
    });
    for replies in futures::future::join_all(many).await {
        replies.unwrap();
    }
    let after = nodes[0].node.counters();
    assert_eq!(after.entries - before.entries, 500);
    let syncs = after.log_syncs - before.log_syncs;
    assert!(syncs < 250, "{syncs} syncs for 500 entries");
}

/// openraft keeps its way to the end of a stopped core in the first call that meets it. If that
/// call is dropped, the way is lost, and every later call panics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_call_during_shutdown_does_not_break_later_calls() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 1, |_| {}).await;
    write_session(&nodes, "a1").await;
    let node = &nodes[0].node;
    let mut given_up = Box::pin(node.shutdown());
    assert!(futures::poll!(&mut given_up).is_pending());
    drop(given_up);
    let rejection = node.propose(session_batch("late")).await;
    assert!(
        matches!(rejection, Err(ProposeError::Stopped(_))),
        "{rejection:?}"
    );
    let rejection = node.confirm_leadership().await;
    assert!(
        matches!(rejection, Err(ConfirmError::Stopped(_))),
        "{rejection:?}"
    );
    node.shutdown().await;
}
