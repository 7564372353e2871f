//! A whole data directory put back from an older copy. Nothing in it shows that; the leader that it
//! acknowledged to finds it. A follower that was only restarted, however often, is never accused.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqsvr_proto::v1::raft_client::RaftClient;
use seqsvr_proto::v1::{RaftHeader, RaftRequest, RaftSnapshotChunk};
use seqsvr_raft::{Member, Node, Options, Role};
use tokio::task::JoinHandle;
use tonic::Code;

use crate::common::{CLUSTER, Running, agree, cluster, leader, session, until, write};
use crate::disk::run;

fn copy_tree(from: &Path, to: &Path) {
    run("cp", &["-a", from.to_str().unwrap(), to.to_str().unwrap()]).unwrap();
}

/// Takes a follower out of the list.
async fn take_follower(nodes: &mut Vec<Running>) -> Running {
    let at = (leader(nodes).await + 1) % nodes.len();
    nodes.remove(at)
}

/// Waits until the leader has seen all its entries at the last of `nodes`, and that node has
/// applied them.
async fn caught_up(nodes: &[Running]) {
    let (led, last) = (leader(nodes).await, nodes.len() - 1);
    let id = nodes[last].options.node;
    let goal = nodes[led].node.counters().last_log_index;
    until("the follower has it all", || {
        let matched = nodes[led].node.matched().get(&id).copied();
        matched >= Some(goal) && nodes[last].node.counters().applied_index >= goal
    })
    .await;
}

async fn hand_over(nodes: &[Running], to: u64) {
    let led = leader(nodes).await;
    // The transfer may fail, or another node may lead already: the caller only needs a new term.
    let _ = nodes[led].node.transfer_leader(Some(to)).await;
    leader(nodes).await;
}

fn term(nodes: &[Running]) -> u64 {
    let terms = nodes.iter().map(|n| n.node.counters().term);
    terms.max().unwrap()
}

/// Returns a node's answers to each kind of call of Raft, all of them with a right header.
async fn answers(member: &Member) -> Vec<tonic::Status> {
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
        body: bytes::Bytes::from_static(b"never read by who refuses"),
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
async fn is_out(node: &Running) {
    let failed = node.node.failed();
    until("it says why it stops", || failed.borrow().is_some()).await;
    let reason = failed.borrow().clone().unwrap();
    println!("last line: {reason}");
    let log = node.options.data_dir.join("log").display().to_string();
    for part in [&log, "older copy or lost its end", "under a new id"] {
        assert!(reason.contains(part), "no {part:?} in: {reason}");
    }
    assert!(!reason.contains('\n'), "more than one line: {reason}");
    until("it takes no further part", || {
        node.node.leadership().borrow().role == Role::Stopped
    })
    .await;
    for status in answers(&node.member()).await {
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert!(status.message().contains("older copy"), "{status}");
    }
}

/// Schedule: a follower acknowledges entries; its directory is put back from a copy made before
/// that, log and rows together; the leader continues. The follower's vote could help to elect a
/// leader without what it acknowledged.
async fn older_copy(another_term: bool) {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path(), 3, |_| {}).await;
    for i in 0..20 {
        write(&nodes, &format!("early{i}")).await;
    }
    let follower = take_follower(&mut nodes).await;
    let options = follower.kill().await;
    let (data, copy) = (&options.data_dir, dir.path().join("copy"));
    copy_tree(data, &copy);
    nodes.push(Running::restart(options.clone()).await.unwrap());
    if another_term {
        let before = term(&nodes);
        while term(&nodes) == before || leader(&nodes).await == 2 {
            let to = (leader(&nodes).await + 1) % 2;
            hand_over(&nodes, nodes[to].options.node).await;
        }
    }
    for i in 0..20 {
        write(&nodes, &format!("late{i}")).await;
    }
    caught_up(&nodes).await;
    let led_in = term(&nodes);
    nodes.pop().unwrap().kill().await;
    std::fs::remove_dir_all(data).unwrap();
    copy_tree(&copy, data);
    let mut options = options.clone();
    options.moved_data_dir = true;

    let older = Running::restart(options.clone()).await.unwrap();
    is_out(&older).await;
    // No other node is affected: the same leader leads in the same term, and writes continue.
    for i in 0..20 {
        write(&nodes, &format!("after{i}")).await;
    }
    agree(&nodes, ["early19", "late19", "after19"].into_iter()).await;
    assert_eq!(term(&nodes), led_in, "the leader changed");
    assert!(nodes.iter().all(|n| n.node.failed().borrow().is_none()));
    // After a restart the result is the same, as long as that leader leads.
    older.kill().await;
    let again = Running::restart(options).await.unwrap();
    is_out(&again).await;
    write(&nodes, "last").await;
    again.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_is_found_by_the_leader_it_acknowledged_to() {
    older_copy(false).await;
}

/// The copy does not even have the term it acknowledged in: it has lost its vote as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_of_an_earlier_term_is_found_by_the_leader_it_acknowledged_to() {
    older_copy(true).await;
}

/// Writes at `node` one entry after the other, for as long as it leads.
fn writer(node: Node, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    tokio::spawn(async move {
        while !stop.load(Ordering::Relaxed) {
            if node.propose(session("again")).await.is_err() {
                break;
            }
        }
    })
}

/// Restarts a follower `rounds` times under writes, with a new leader in between; returns how many
/// snapshots were installed.
async fn restarts(rounds: u64, tune: impl Fn(&mut Options)) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path(), 3, tune).await;
    let mut installed = 0;
    for round in 0..rounds {
        let stop = Arc::new(AtomicBool::new(false));
        let led = leader(&nodes).await;
        let leading = nodes[led].node.clone();
        let writes = writer(leading.clone(), stop.clone());
        let follower = take_follower(&mut nodes).await.kill().await;
        // Every other time it misses more than a purging leader keeps.
        let missed = leading.counters().last_log_index + (round % 2) * 100;
        until("the others go on", || {
            writes.is_finished() || leading.counters().last_log_index >= missed
        })
        .await;
        nodes.push(Running::restart(follower).await.unwrap());
        if round % 4 == 3 {
            hand_over(&nodes, nodes[2].options.node).await;
        }
        caught_up(&nodes).await;
        stop.store(true, Ordering::Relaxed);
        writes.await.unwrap();
        installed += nodes[2].node.counters().snapshots_installed;
        for node in &nodes {
            let failed = node.node.failed().borrow().clone();
            assert_eq!(failed, None, "round {round}, node {}", node.options.node);
        }
    }
    let name = "after-all";
    write(&nodes, name).await;
    agree(&nodes, [name].into_iter()).await;
    installed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_is_only_restarted_is_never_accused() {
    restarts(20, |_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_is_sent_snapshots_is_never_accused() {
    let installed = restarts(20, |o| {
        o.snapshot_every_entries = 40;
        o.keep_entries = 5;
        o.log_file_bytes = 16 << 10;
    })
    .await;
    assert!(installed > 0, "no snapshot was sent");
}
