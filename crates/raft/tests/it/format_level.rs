//! The format level rises once every member supports the new one, and not before.

use std::time::Duration;

use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_core::family::IdsCommand;
use seqsvr_core::state::FORMAT_LEVEL_MAX;
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

fn at_level_3(options: &mut Options) {
    options.level_max = 3;
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
    wait_for_level(&nodes, FORMAT_LEVEL_MAX, Some(4)).await;
    for i in 0..50 {
        write_session(&nodes, &format!("n{i}")).await;
    }
    // By snapshot, with an id that leaves some out: those below it are used up as well.
    nodes.push(start_node(dir.path(), 7, keep_few_entries).await);
    add_at_leader(&nodes[..3], &nodes[3].member()).await;
    wait_for_level(&nodes, FORMAT_LEVEL_MAX, Some(8)).await;
    assert!(nodes[3].node.counters().snapshots_installed > 0);
    let mut again = Vec::new();
    for node in nodes {
        again.push(node.restart_with(|_| ()).await);
    }
    wait_for_level(&again, FORMAT_LEVEL_MAX, Some(8)).await;
    write_session(&again, "after").await;
    wait_until_equal(&again, ["n0", "n49", "after"].into_iter()).await;
}

/// Schedule: a rolling upgrade. The last store of the older build keeps the level down and takes
/// part; the level rises once it runs the newer build. So it is with each level.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_of_older_level_holds_format_level_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, at_level_1).await;
    write_session(&nodes, "old").await;
    for old_level in [1, 2] {
        for i in 0..3 {
            // Time in which a leader would have checked the level several times.
            let deadline = Instant::now() + Duration::from_secs(2);
            while Instant::now() < deadline {
                write_session(&nodes, &format!("at-{old_level}-{i}")).await;
            }
            let level = |n: &RunningNode| n.node.with_state(|s| s.format_level());
            assert!(nodes.iter().all(|n| level(n) == old_level));
            let one = nodes.remove(0);
            nodes.push(one.restart_with(|o| o.level_max = old_level + 1).await);
            write_session(&nodes, &format!("with-{old_level}-{i}")).await;
        }
        wait_for_level(&nodes, old_level + 1, Some(4)).await;
    }
    let names = ["old", "with-1-0", "with-2-0", "with-2-2"];
    wait_until_equal(&nodes, names.into_iter()).await;
}

/// Schedule: a command of level 3 is committed at level 2, and a store of the older build rejects
/// its entry by the version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_of_newer_level_is_not_proposed() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 1, at_level_2).await;
    wait_for_level(&nodes, 2, Some(2)).await;
    let time = || Batch {
        commands: vec![Command::Ids(IdsCommand::AdvanceTime {
            now_ms: 7,
            resets: 0,
        })],
    };
    let error = nodes[0].node.propose(time()).await.unwrap_err();
    assert!(
        error.to_string().contains("needs format level 3"),
        "{error}"
    );
    let nodes = [nodes
        .into_iter()
        .next()
        .unwrap()
        .restart_with(at_level_3)
        .await];
    wait_for_level(&nodes, 3, Some(2)).await;
    assert_eq!(nodes[0].node.propose(time()).await.unwrap(), [Reply::Done]);
}
