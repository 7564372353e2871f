//! Finds a node whose state differs from the others', whether it follows or leads.

use std::collections::BTreeSet;

use seqsvr_core::state::State;

use super::*;
use crate::state::applied_state::AppliedState;
use crate::state::checkpoints::CHECKPOINT_ENTRIES;
use crate::state::sled_rows::SledRows;
use crate::tests::running_node::{
    RunningNode, leader, session_batch, start_cluster, wait_until, wait_until_equal,
    wait_until_unlocked, write_session,
};

/// Changes a row without Raft, like a fault of memory or disk that no checksum detects.
fn change_row_on_disk(options: &Options) {
    let storage = open_storage(options).unwrap();
    let (directory, incarnation) = (storage.directory.clone(), storage.identity.incarnation);
    let durable = storage.log.durable_end();
    drop(storage);
    let (rows, applied) = SledRows::open(&directory, incarnation, durable, |_| Ok(None)).unwrap();
    let mut state = applied.state.clone();
    let mut touched = BTreeSet::new();
    state.apply(1, &session_batch("never-opened"), &mut touched);
    let changed =
        AppliedState::new(state, applied.last_applied, applied.membership.clone()).unwrap();
    let batch = rows.prepare_batch(&changed, touched).unwrap();
    rows.commit_batch(batch).unwrap();
}

async fn wait_for_last_line(node: &RunningNode) -> String {
    let failed = node.node.watch_failure();
    wait_until("the node that differs ends", || failed.borrow().is_some()).await;
    failed.borrow().clone().unwrap()
}

async fn run_diverged(leads: bool) {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, |_| {}).await;
    write_session(&nodes, "a").await;
    wait_until_equal(&nodes, ["a"].into_iter()).await;
    let at = (leader(&nodes).await + 1) % 3;
    let options = nodes.remove(at).kill().await;
    wait_until_unlocked(&options.data_dir).await;
    change_row_on_disk(&options);
    nodes.push(RunningNode::restart(options.clone()).await.unwrap());
    let strange = |n: &RunningNode| {
        n.node
            .with_state(|s| s.find_session("never-opened").is_some())
    };
    assert_eq!(nodes.iter().filter(|n| strange(n)).count(), 1);
    while leads && nodes[leader(&nodes).await].options.node != options.node {
        let at = leader(&nodes).await;
        // The transfer may fail, or another node may lead already.
        let _ = nodes[at].node.transfer_leader(Some(options.node)).await;
    }
    // Writes up to the next entry at which states are compared.
    for i in 0..2 * CHECKPOINT_ENTRIES {
        if nodes[2].node.watch_failure().borrow().is_some() {
            break;
        }
        let at = leader(&nodes).await;
        let write = nodes[at].node.propose(session_batch(&format!("n{i}")));
        // The leader may be the node that ends.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(3), write).await;
    }
    let line = wait_for_last_line(&nodes[2]).await;
    for part in ["differs from that of a majority", "under a new id"] {
        assert!(line.contains(part), "no {part:?} in: {line}");
    }
    // The others continue, with equal states.
    let gone = nodes.pop().unwrap();
    gone.kill().await;
    write_session(&nodes, "after").await;
    wait_until_equal(&nodes, ["a", "after"].into_iter()).await;
    let states: Vec<State> = nodes
        .iter()
        .map(|n| n.node.with_state(State::clone))
        .collect();
    assert_eq!(states[0], states[1]);
    assert!(
        nodes
            .iter()
            .all(|n| n.node.watch_failure().borrow().is_none())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follower_with_diverged_state_stops() {
    run_diverged(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_with_diverged_state_stops() {
    run_diverged(true).await;
}
