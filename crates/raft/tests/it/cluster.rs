//! Three nodes: election, loss of a follower and of the leader, catching up by log and by snapshot.

use std::time::Duration;

use seqsvr_core::state::State;
use seqsvr_raft::{ConfirmError, ProposeError, RaftRole};

use crate::support::running_node::{
    RunningNode, leader, session_batch, start_cluster, start_cluster_with_slots, wait_for_level,
    wait_until, wait_until_equal, write_session,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_survive_loss_of_follower_and_of_leader() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, |_| {}).await;
    let names: Vec<String> = (0..30).map(|i| format!("n{i}")).collect();
    for name in &names[..10] {
        write_session(&nodes, name).await;
    }

    let at = leader(&nodes).await;
    let (led, address) = (nodes[at].options.node, nodes[at].options.address.clone());
    let follower = (at + 1) % 3;
    wait_until("the follower knows the leader", || {
        let seen = nodes[follower].node.leadership().borrow().clone();
        seen.role == RaftRole::Follower && seen.leader == Some((led, address.clone()))
    })
    .await;
    let hint = Some((led, address));
    assert_eq!(
        nodes[follower].node.propose(session_batch("x")).await,
        Err(ProposeError::NotLeader {
            leader: hint.clone()
        })
    );
    assert_eq!(
        nodes[follower].node.confirm_leadership().await,
        Err(ConfirmError::NotLeader { leader: hint })
    );
    assert_eq!(nodes[follower].node.members().len(), 3);

    let gone = nodes.remove(follower).kill().await;
    for name in &names[10..20] {
        write_session(&nodes, name).await;
    }
    nodes.push(RunningNode::restart(gone).await.unwrap());
    wait_until_equal(&nodes, names[..20].iter().map(String::as_str)).await;

    let at = leader(&nodes).await;
    let term = nodes[at].node.counters().term;
    let gone = nodes.remove(at).kill().await;
    let lost = tokio::time::Instant::now();
    leader(&nodes).await;
    println!("a new leader is ready after {:?}", lost.elapsed());
    for name in &names[20..] {
        write_session(&nodes, name).await;
    }
    assert!(nodes[leader(&nodes).await].node.counters().term > term);
    nodes.push(RunningNode::restart(gone).await.unwrap());
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;

    let mut all = Vec::new();
    for node in nodes {
        all.push(node.kill().await);
    }
    let mut nodes = Vec::new();
    for options in all {
        nodes.push(RunningNode::restart(options).await.unwrap());
    }
    write_session(&nodes, "after").await;
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follower_behind_purged_log_receives_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    // As many slots as there may be, so that the snapshot takes several chunks.
    let mut nodes = start_cluster_with_slots(dir.path(), 3, 16_384, |o| {
        o.snapshot_interval_entries = 40;
        o.keep_entries = 5;
        o.log_file_bytes = 16 << 10;
    })
    .await;
    write_session(&nodes, "first").await;
    let follower = (leader(&nodes).await + 1) % 3;
    let gone = nodes.remove(follower).kill().await;
    let names: Vec<String> = (0..300).map(|i| format!("n{i}")).collect();
    for name in &names {
        write_session(&nodes, name).await;
    }
    wait_until("both purge", || {
        nodes.iter().all(|n| n.node.counters().purged_index > 100)
    })
    .await;
    for node in &nodes {
        let files = std::fs::read_dir(node.options.data_dir.join("snapshots"))
            .unwrap()
            .count();
        assert!(files <= 2, "{files} snapshot files kept");
        let sizes = std::fs::read_dir(node.options.data_dir.join("snapshots")).unwrap();
        let sizes = sizes.map(|f| f.unwrap().metadata().unwrap().len());
        assert!(
            sizes.max() > Some(128 << 10),
            "it fits into one chunk or two"
        );
    }
    nodes.push(RunningNode::restart(gone).await.unwrap());
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;
    let counters = nodes[2].node.counters();
    assert!(counters.snapshots_installed >= 1, "{counters:?}");
    wait_for_level(&nodes).await;

    // The installed snapshot and the later entries are durable there.
    let state = nodes[2].node.with_state(State::clone);
    let options = nodes.remove(2).kill().await;
    nodes.push(RunningNode::restart(options).await.unwrap());
    wait_until("the state is back", || {
        nodes[2].node.with_state(State::clone) == state
    })
    .await;
    write_session(&nodes, "last").await;
    wait_until_equal(&nodes, ["last"].into_iter()).await;
}

/// Schedule: a quorum acknowledged a moment ago, so a lease would still say yes. The followers go,
/// and a caller requests a confirmation now: it must not be given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confirm_needs_round_that_started_after_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, |o| {
        // A lease as long as the leader's patience would cover all steps below.
        o.heartbeat_ms = 100;
        o.election_min_ms = 2_000;
        o.election_max_ms = 3_000;
    })
    .await;
    write_session(&nodes, "a").await;
    let at = leader(&nodes).await;
    nodes.swap(0, at);
    nodes[0].node.confirm_leadership().await.unwrap();
    for node in nodes.drain(1..) {
        node.kill().await;
    }
    let age = nodes[0].node.quorum_age().unwrap();
    assert!(age < Duration::from_secs(2), "lease over after {age:?}");
    let rejection = nodes[0].node.confirm_leadership().await;
    assert!(
        matches!(
            rejection,
            Err(ConfirmError::NoQuorum | ConfirmError::NotLeader { .. })
        ),
        "{rejection:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_confirms_return_current_index() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 3, |_| {}).await;
    write_session(&nodes, "a").await;
    let at = leader(&nodes).await;
    let before = nodes[at].node.watch_applied().borrow().index;
    let alone = tokio::time::Instant::now();
    for _ in 0..50 {
        nodes[at].node.confirm_leadership().await.unwrap();
    }
    println!("a confirmation takes {:?}", alone.elapsed() / 50);
    let many = (0..200).map(|_| nodes[at].node.confirm_leadership());
    for index in futures::future::join_all(many).await {
        assert!(index.unwrap() >= before);
    }
}

/// Pre-vote: a node that no other reaches checks whether it could win before it takes a new term.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn isolated_node_does_not_raise_its_term() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, |_| {}).await;
    write_session(&nodes, "a").await;
    wait_until_equal(&nodes, ["a"].into_iter()).await;
    let at = leader(&nodes).await;
    let alone = nodes.remove((at + 1) % 3);
    let mut gone = Vec::new();
    for node in nodes {
        gone.push(node.kill().await);
    }
    let term = alone.node.counters().term;
    // Not a wait for an event: the time that five elections would take.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(alone.node.counters().term, term);
    let rejection = alone.node.propose(session_batch("b")).await;
    assert!(matches!(rejection, Err(ProposeError::NotLeader { .. })));
    let mut nodes = vec![alone];
    for options in gone {
        nodes.push(RunningNode::restart(options).await.unwrap());
    }
    write_session(&nodes, "c").await;
    wait_until_equal(&nodes, ["a", "c"].into_iter()).await;
}

/// A call of `init` at one member while the others come up later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_with_unreachable_members_can_be_repeated() {
    use crate::support::running_node::{CLUSTER, LEASE_MS, SLOTS, start_node};
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(start_node(dir.path(), id, |_| {}).await);
    }
    let members: Vec<_> = nodes.iter().map(RunningNode::member).collect();
    let two = nodes.remove(2).kill().await;
    let three = nodes.remove(1).kill().await;
    let init = nodes[0]
        .node
        .create_cluster(members.clone(), CLUSTER, LEASE_MS, SLOTS);
    let early = tokio::time::timeout(Duration::from_secs(2), init).await;
    assert!(early.is_err(), "made without a quorum: {early:?}");
    nodes.push(RunningNode::restart(two).await.unwrap());
    nodes.push(RunningNode::restart(three).await.unwrap());
    let made = nodes[0]
        .node
        .create_cluster(members, CLUSTER, LEASE_MS, SLOTS)
        .await;
    made.unwrap();
    write_session(&nodes, "a").await;
    wait_until_equal(&nodes, ["a"].into_iter()).await;
    let adopted = |n: &RunningNode| n.node.identity().cluster == Some(CLUSTER);
    assert!(nodes.iter().all(adopted));
}
