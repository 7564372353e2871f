//! Finds a node whose state differs from the others', whether it follows or leads.

use std::collections::BTreeSet;

use seqsvr_core::state::State;

use super::common::{Running, agree, cluster, leader, nobody_holds, session, until, write};
use super::*;
use crate::applied::Applied;
use crate::checkpoints::CHECKPOINT_ENTRIES;
use crate::rows::Rows;

/// Changes a row without Raft, like a fault of memory or disk that no checksum detects.
fn tamper(options: &Options) {
    let storage = open_storage(options).unwrap();
    let (directory, incarnation) = (storage.directory.clone(), storage.identity.incarnation);
    let durable = storage.log.durable();
    drop(storage);
    let (rows, applied) = Rows::open(&directory, incarnation, durable, |_| Ok(None)).unwrap();
    let mut state = applied.state.clone();
    let mut touched = BTreeSet::new();
    state.apply(1, &session("nobody-opened-this"), &mut touched);
    let changed = Applied::new(state, applied.last_applied, applied.membership.clone()).unwrap();
    let step = rows.write(&changed, touched).unwrap();
    rows.commit(step).unwrap();
}

async fn last_line(node: &Running) -> String {
    let failed = node.node.failed();
    until("the node that differs ends", || failed.borrow().is_some()).await;
    failed.borrow().clone().unwrap()
}

async fn found(leads: bool) {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path(), 3, |_| {}).await;
    write(&nodes, "a").await;
    agree(&nodes, ["a"].into_iter()).await;
    let at = (leader(&nodes).await + 1) % 3;
    let options = nodes.remove(at).kill().await;
    nobody_holds(&options.data_dir).await;
    tamper(&options);
    nodes.push(Running::restart(options.clone()).await.unwrap());
    let strange = |n: &Running| {
        n.node
            .with_state(|s| s.session_named("nobody-opened-this").is_some())
    };
    assert_eq!(nodes.iter().filter(|n| strange(n)).count(), 1);
    while leads && nodes[leader(&nodes).await].options.node != options.node {
        let at = leader(&nodes).await;
        // The transfer may fail, or another node may lead already.
        let _ = nodes[at].node.transfer_leader(Some(options.node)).await;
    }
    // Writes up to the next entry at which states are compared.
    for i in 0..2 * CHECKPOINT_ENTRIES {
        if nodes[2].node.failed().borrow().is_some() {
            break;
        }
        let at = leader(&nodes).await;
        let write = nodes[at].node.propose(session(&format!("n{i}")));
        // The leader may be the node that ends.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(3), write).await;
    }
    let line = last_line(&nodes[2]).await;
    for part in ["differs from that of a majority", "under a new id"] {
        assert!(line.contains(part), "no {part:?} in: {line}");
    }
    // The others continue, with equal states.
    let gone = nodes.pop().unwrap();
    gone.kill().await;
    write(&nodes, "after").await;
    agree(&nodes, ["a", "after"].into_iter()).await;
    let states: Vec<State> = nodes
        .iter()
        .map(|n| n.node.with_state(State::clone))
        .collect();
    assert_eq!(states[0], states[1]);
    assert!(nodes.iter().all(|n| n.node.failed().borrow().is_none()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_differs_is_found() {
    found(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_differs_is_found() {
    found(true).await;
}
