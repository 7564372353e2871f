//! A whole data directory put back from an older copy. Nothing in it shows that; the leader that it
//! acknowledged to finds it. A follower that was only restarted, however often, is never accused.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqsvr_proto::v1::raft_client::RaftClient;
use seqsvr_proto::v1::{RaftHeader, RaftRequest, RaftSnapshotChunk};
use seqsvr_raft::{GroupMember, Options, RaftNode, RaftRole};
use tokio::task::JoinHandle;
use tonic::Code;

use crate::disk::run;
use crate::support::running_node::{
    CLUSTER, RunningNode, leader, session_batch, start_cluster, wait_until, wait_until_equal,
    write_session,
};

fn copy_tree(from: &Path, to: &Path) {
    run("cp", &["-a", from.to_str().unwrap(), to.to_str().unwrap()]).unwrap();
}

/// Takes a follower out of the list.
async fn take_follower(nodes: &mut Vec<RunningNode>) -> RunningNode {
    let at = (leader(nodes).await + 1) % nodes.len();
    nodes.remove(at)
}

/// Waits until the leader has seen all its entries at the last of `nodes`, and that node has
/// applied them.
async fn wait_until_caught_up(nodes: &[RunningNode]) {
    let (led, last) = (leader(nodes).await, nodes.len() - 1);
    let id = nodes[last].options.node;
    let goal = nodes[led].node.counters().last_log_index;
    wait_until("the follower has it all", || {
        let matched = nodes[led].node.matched_indexes().get(&id).copied();
        matched >= Some(goal) && nodes[last].node.counters().applied_index >= goal
    })
    .await;
}

async fn transfer_leadership(nodes: &[RunningNode], to: u64) {
    let led = leader(nodes).await;
    // The transfer may fail, or another node may lead already: the caller only needs a new term.
    let _ = nodes[led].node.transfer_leader(Some(to)).await;
    leader(nodes).await;
}

fn highest_term(nodes: &[RunningNode]) -> u64 {
    let terms = nodes.iter().map(|n| n.node.counters().term);
    terms.max().unwrap()
}

/// Returns a node's answers to each kind of call of Raft, all of them with a right header.
async fn call_each_method(member: &GroupMember) -> Vec<tonic::Status> {
    let header = || {
        Some(RaftHeader {
            cluster: CLUSTER.0.to_be_bytes().to_vec().into(),
            target: member.id,
            target_incarnation: member.incarnation,
            sender: 9,
            sender_incarnation: None,
            sender_process: 0,
        })
    };
    let request = || RaftRequest {
        header: header(),
        body: bytes::Bytes::from_static(b"not read by a node that rejects the call"),
        ..RaftRequest::default()
    };
    let chunk = RaftSnapshotChunk {
        header: header(),
        ..RaftSnapshotChunk::default()
    };
    let address = format!("http://{}", member.address);
    let mut client = RaftClient::connect(address).await.unwrap();
    vec![
        client.append(request()).await.unwrap_err(),
        client.vote(request()).await.unwrap_err(),
        client.pre_vote(request()).await.unwrap_err(),
        client.transfer_leader(request()).await.unwrap_err(),
        client
            .install_snapshot(tokio_stream::iter([chunk]))
            .await
            .unwrap_err(),
    ]
}

/// Checks that the node stopped by itself and says why; it answers no call of Raft, above all no
/// vote.
async fn assert_stopped_for_log_loss(node: &RunningNode) {
    let failed = node.node.watch_failure();
    wait_until("it says why it stops", || failed.borrow().is_some()).await;
    let reason = failed.borrow().clone().unwrap();
    println!("last line: {reason}");
    let log = node.options.data_dir.join("log").display().to_string();
    for part in [&log, "older copy or lost its end", "under a new id"] {
        assert!(reason.contains(part), "no {part:?} in: {reason}");
    }
    assert!(!reason.contains('\n'), "more than one line: {reason}");
    wait_until("it takes no further part", || {
        node.node.leadership().borrow().role == RaftRole::Stopped
    })
    .await;
    for status in call_each_method(&node.member()).await {
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert!(status.message().contains("older copy"), "{status}");
    }
}

/// Schedule: a follower acknowledges entries; its directory is put back from a copy made before
/// that, log and rows together; the leader continues. The follower's vote could help to elect a
/// leader without what it acknowledged.
async fn run_older_copy(another_term: bool) {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, |_| {}).await;
    for i in 0..20 {
        write_session(&nodes, &format!("early{i}")).await;
    }
    let follower = take_follower(&mut nodes).await;
    let options = follower.kill().await;
    let (data, copy) = (&options.data_dir, dir.path().join("copy"));
    copy_tree(data, &copy);
    nodes.push(RunningNode::restart(options.clone()).await.unwrap());
    if another_term {
        let before = highest_term(&nodes);
        while highest_term(&nodes) == before || leader(&nodes).await == 2 {
            let to = (leader(&nodes).await + 1) % 2;
            transfer_leadership(&nodes, nodes[to].options.node).await;
        }
    }
    for i in 0..20 {
        write_session(&nodes, &format!("late{i}")).await;
    }
    wait_until_caught_up(&nodes).await;
    let led_in = highest_term(&nodes);
    nodes.pop().unwrap().kill().await;
    std::fs::remove_dir_all(data).unwrap();
    copy_tree(&copy, data);
    let mut options = options.clone();
    options.moved_data_dir = true;

    let older = RunningNode::restart(options.clone()).await.unwrap();
    assert_stopped_for_log_loss(&older).await;
    // No other node is affected: the same leader leads in the same term, and writes continue.
    for i in 0..20 {
        write_session(&nodes, &format!("after{i}")).await;
    }
    wait_until_equal(&nodes, ["early19", "late19", "after19"].into_iter()).await;
    assert_eq!(highest_term(&nodes), led_in, "the leader changed");
    assert!(
        nodes
            .iter()
            .all(|n| n.node.watch_failure().borrow().is_none())
    );
    // After a restart the result is the same, as long as that leader leads.
    older.kill().await;
    let again = RunningNode::restart(options).await.unwrap();
    assert_stopped_for_log_loss(&again).await;
    write_session(&nodes, "last").await;
    again.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_copy_of_data_dir_is_detected_by_leader() {
    run_older_copy(false).await;
}

/// The copy does not even have the term it acknowledged in: it has lost its vote as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_copy_from_earlier_term_is_detected_by_leader() {
    run_older_copy(true).await;
}

/// Writes at `node` one entry after the other, for as long as it leads.
fn spawn_writer(node: RaftNode, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    tokio::spawn(async move {
        while !stop.load(Ordering::Relaxed) {
            if node.propose(session_batch("again")).await.is_err() {
                break;
            }
        }
    })
}

/// Restarts a follower `rounds` times under writes, with a new leader in between; returns how many
/// snapshots were installed.
async fn run_restarts(rounds: u64, tune: impl Fn(&mut Options)) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, tune).await;
    let mut installed = 0;
    for round in 0..rounds {
        let stop = Arc::new(AtomicBool::new(false));
        let led = leader(&nodes).await;
        let leading = nodes[led].node.clone();
        let writes = spawn_writer(leading.clone(), stop.clone());
        let follower = take_follower(&mut nodes).await.kill().await;
        // Every other time it misses more than a purging leader keeps.
        let missed = leading.counters().last_log_index + (round % 2) * 100;
        wait_until("the others go on", || {
            writes.is_finished() || leading.counters().last_log_index >= missed
        })
        .await;
        nodes.push(RunningNode::restart(follower).await.unwrap());
        if round % 4 == 3 {
            transfer_leadership(&nodes, nodes[2].options.node).await;
        }
        wait_until_caught_up(&nodes).await;
        stop.store(true, Ordering::Relaxed);
        writes.await.unwrap();
        installed += nodes[2].node.counters().snapshots_installed;
        for node in &nodes {
            let failed = node.node.watch_failure().borrow().clone();
            assert_eq!(failed, None, "round {round}, node {}", node.options.node);
        }
    }
    let name = "after-all";
    write_session(&nodes, name).await;
    wait_until_equal(&nodes, [name].into_iter()).await;
    installed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_follower_is_never_stopped_for_log_loss() {
    run_restarts(20, |_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_follower_with_snapshots_is_never_stopped_for_log_loss() {
    let installed = run_restarts(20, |o| {
        o.snapshot_interval_entries = 40;
        o.keep_entries = 5;
        o.log_file_bytes = 16 << 10;
    })
    .await;
    assert!(installed > 0, "no snapshot was sent");
}
