//! The format level rises once every member supports the new one, and not before.

use std::time::Duration;

use seqsvr_raft::{GroupMember, Options};
use tokio::time::Instant;

use crate::support::running_node::{
    RunningNode, leader, start_cluster, start_node, wait_until, wait_until_equal, write_session,
};

fn at_level_1(options: &mut Options) {
    options.level_max = 1;
}

fn at_level_2(options: &mut Options) {
    options.level_max = 2;
}

/// Keeps only a few entries, so that a new node receives a snapshot.
fn keep_few_entries(options: &mut Options) {
    options.snapshot_interval_entries = 20;
    options.keep_entries = 5;
    options.log_file_bytes = 16 << 10;
}

/// Waits until every node has this level and this `next_store`.
pub(crate) async fn wait_for_level(nodes: &[RunningNode], level: u32, next_store: Option<u64>) {
    let row = |n: &RunningNode| n.node.with_state(|s| (s.format_level(), s.next_store()));
    wait_until("the level on all nodes", || {
        nodes.iter().all(|n| row(n) == (level, next_store))
    })
    .await;
}

/// Adds a node at the current leader.
pub(crate) async fn add_at_leader(nodes: &[RunningNode], member: &GroupMember) {
    let at = leader(nodes).await;
    let added = nodes[at]
        .node
        .add_member(member.id, &member.address, member.incarnation);
    added.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_raises_format_level_and_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, keep_few_entries).await;
    wait_for_level(&nodes, 2, Some(4)).await;
    for i in 0..50 {
        write_session(&nodes, &format!("n{i}")).await;
    }
    // By snapshot, with an id that leaves some out: those below it are used up as well.
    nodes.push(start_node(dir.path(), 7, keep_few_entries).await);
    add_at_leader(&nodes[..3], &nodes[3].member()).await;
    wait_for_level(&nodes, 2, Some(8)).await;
    assert!(nodes[3].node.counters().snapshots_installed > 0);
    let mut again = Vec::new();
    for node in nodes {
        again.push(node.restart_with(|_| ()).await);
    }
    wait_for_level(&again, 2, Some(8)).await;
    write_session(&again, "after").await;
    wait_until_equal(&again, ["n0", "n49", "after"].into_iter()).await;
}

/// Schedule: a rolling upgrade. The last store of the older build keeps the level down and takes
/// part; the level rises once it runs the newer build.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_of_older_level_holds_format_level_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, at_level_1).await;
    write_session(&nodes, "old").await;
    for i in 0..3 {
        // Time in which a leader would have checked the level several times.
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            write_session(&nodes, &format!("at-{i}")).await;
        }
        let level = |n: &RunningNode| n.node.with_state(|s| s.format_level());
        assert!(nodes.iter().all(|n| level(n) == 1));
        let one = nodes.remove(0);
        nodes.push(one.restart_with(at_level_2).await);
        write_session(&nodes, &format!("with-{i}")).await;
    }
    wait_for_level(&nodes, 2, Some(4)).await;
    wait_until_equal(&nodes, ["old", "with-0", "with-2"].into_iter()).await;
}
