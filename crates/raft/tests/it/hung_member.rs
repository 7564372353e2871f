//! A member whose calls hang is removed, and the group continues to work (openraft's issue 1810).

use std::time::Duration;

use seqsvr_raft::RaftNode;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::support::running_node::{
    RunningNode, TEST_TIMEOUT, leader, start_cluster, wait_until_equal, write_session,
};

/// Accepts connections at `address` and reads what comes, without an answer.
async fn hang_at(address: &str) -> tokio::task::JoinHandle<()> {
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(e) => assert!(tokio::time::Instant::now() < deadline, "{address}: {e}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
            });
        }
    })
}

/// Checks that a quorum confirms the leader.
async fn check_leadership(nodes: &[RunningNode]) {
    let node: &RaftNode = &nodes[leader(nodes).await].node;
    node.confirm_leadership().await.expect("a quorum answers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_member_can_be_removed_and_group_continues() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 4, |_| {}).await;
    write_session(&nodes, "before").await;
    let at = (leader(&nodes).await + 1) % nodes.len();
    let hung = nodes.remove(at).kill().await;
    let hanging = hang_at(&hung.address).await;
    // Calls to it are under way, and none of them is answered.
    for i in 0..20 {
        write_session(&nodes, &format!("while-{i}")).await;
    }
    let led = leader(&nodes).await;
    let removed =
        tokio::time::timeout(TEST_TIMEOUT, nodes[led].node.remove_member(hung.node)).await;
    removed.expect("the leader hangs").expect("removed");
    check_leadership(&nodes).await;
    let mut names: Vec<String> = Vec::new();
    for i in 0..20 {
        names.push(format!("after-{i}"));
        write_session(&nodes, &names[i]).await;
    }
    check_leadership(&nodes).await;
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;
    hanging.abort();
}
