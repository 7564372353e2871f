//! Stores that return under an id that another store has now, and two stores under one id.

use prost::Message;
use seqsvr_proto::v1::raft_client::RaftClient;
use seqsvr_proto::v1::{RaftHeader, RaftRejection, RaftRejectionReason, RaftRequest};
use seqsvr_raft::{GroupMember, MemberError, Options, RaftRole};
use tempfile::TempDir;

use crate::format_level::{add_at_leader, wait_for_level};
use crate::support::cuttable_links::CuttableLinks;
use crate::support::running_node::{
    CLUSTER, RunningNode, bind_loopback, leader, wait_until, wait_until_equal, write_session,
};

const LAST_LINE: &str = "another process has this id";

/// Returns a node's answer to a pre-vote of this sender; None: it lets the sender in.
async fn send_vote(
    to: &GroupMember,
    sender: u64,
    sender_incarnation: Option<u64>,
) -> Option<RaftRejectionReason> {
    let address = format!("http://{}", to.address);
    let mut client = RaftClient::connect(address).await.unwrap();
    let request = RaftRequest {
        header: Some(RaftHeader {
            cluster: CLUSTER.0.to_be_bytes().to_vec().into(),
            target: to.id,
            target_incarnation: to.incarnation,
            sender,
            sender_incarnation,
            sender_process: 0,
        }),
        body: bytes::Bytes::from_static(b"not a call"),
        acked_end_index: 0,
        checkpoint: None,
    };
    let status = client.vote(request).await.unwrap_err();
    let rejection = RaftRejection::decode(status.details()).unwrap();
    (rejection.reason != 0).then(|| rejection.reason())
}

struct ReplacedLeaderSetup {
    dir: TempDir,
    links: CuttableLinks,
    nodes: Vec<RunningNode>,
}

impl ReplacedLeaderSetup {
    /// Makes three nodes, all but the third of format level 1 at most.
    async fn start() -> ReplacedLeaderSetup {
        let mut stage = ReplacedLeaderSetup {
            dir: tempfile::tempdir().unwrap(),
            links: CuttableLinks::default(),
            nodes: Vec::new(),
        };
        for id in 1..=3 {
            let level_max = if id == 3 { 2 } else { 1 };
            let name = id.to_string();
            let node = stage
                .start_store(id, &name, |o| o.level_max = level_max)
                .await;
            stage.nodes.push(node);
        }
        let members = stage.nodes.iter().map(RunningNode::member).collect();
        let made = stage.nodes[0]
            .node
            .create_cluster(members, CLUSTER, 3_000, 64)
            .await;
        made.unwrap();
        stage
    }

    async fn start_store(
        &self,
        id: u64,
        dir: &str,
        tune: impl FnOnce(&mut Options),
    ) -> RunningNode {
        let (listener, address) = bind_loopback().await;
        let transport = self.links.transport_of(&address);
        let mut options = Options::new(id, address, self.dir.path().join(dir));
        tune(&mut options);
        let started = RunningNode::start_in(options, listener, transport).await;
        started.unwrap()
    }

    /// Cuts off store 3 as leader and removes it; another directory joins as store 3 and leads.
    /// Returns the old store 3. The new one has the format level given.
    async fn replace_the_leader(&mut self, level_max: u32) -> RunningNode {
        let to_three = async |nodes: &[RunningNode]| {
            transfer_until_leader(nodes, 3).await;
        };
        to_three(&self.nodes).await;
        write_session(&self.nodes, "before").await;
        wait_until_equal(&self.nodes, ["before"].into_iter()).await;
        let old = self.nodes.remove(2);
        self.links.cut(&old.options.address);
        write_session(&self.nodes, "without").await;
        let at = leader(&self.nodes).await;
        self.nodes[at].node.remove_member(3).await.unwrap();
        let new = self
            .start_store(3, "new-3", |o| o.level_max = level_max)
            .await;
        self.nodes.push(new);
        add_at_leader(&self.nodes[..2], &self.nodes[2].member()).await;
        write_session(&self.nodes, "with-the-new-one").await;
        to_three(&self.nodes).await;
        let (old_term, term) = (term(&old), term(&self.nodes[2]));
        assert!(old_term < term, "{old_term} {term}");
        old
    }
}

fn term(node: &RunningNode) -> u64 {
    node.node.counters().term
}

/// Hands the leadership over until the node of that id leads.
async fn transfer_until_leader(nodes: &[RunningNode], id: u64) {
    loop {
        let at = leader(nodes).await;
        if nodes[at].options.node == id {
            return;
        }
        // The transfer may fail, or another node may lead already.
        let _ = nodes[at].node.transfer_leader(Some(id)).await;
    }
}

async fn wait_for_last_line(node: &RunningNode) -> String {
    let failed = node.node.watch_failure();
    wait_until("it says why it stops", || failed.borrow().is_some()).await;
    failed.borrow().clone().unwrap()
}

/// Schedule A of finding B1 at level 1, where an id may be used again: the stale leader's heartbeat
/// is answered with a higher committed vote that bears its own id. Without the rule about votes it
/// leads that term, unelected, and the others acknowledge what it appends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_leader_that_meets_its_own_id_stops() {
    let mut stage = ReplacedLeaderSetup::start().await;
    let old = stage.replace_the_leader(1).await;
    let before = term(&old);
    stage.links.restore(&old.options.address);
    let mut seen = old.node.leadership();
    let ended = seen.wait_for(|l| l.role == RaftRole::Stopped || l.term > before);
    let ended = ended.await.unwrap().clone();
    assert_eq!(ended.role, RaftRole::Stopped, "it leads again: {ended:?}");
    let line = wait_for_last_line(&old).await;
    assert!(
        line.contains(LAST_LINE) && line.contains("store 3"),
        "{line}"
    );
    assert!(!line.contains('\n'), "{line}");
    write_session(&stage.nodes, "after").await;
    wait_until_equal(&stage.nodes, ["before", "without", "after"].into_iter()).await;
}

/// Schedule A of finding B1 at level 2: the calls of the stale leader are rejected, because the
/// membership records another directory. It never receives the vote, never leads and confirms
/// nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_leader_is_rejected_by_its_incarnation() {
    let mut stage = ReplacedLeaderSetup::start().await;
    let old = stage.replace_the_leader(2).await;
    let mut nodes = Vec::new();
    for node in std::mem::take(&mut stage.nodes) {
        nodes.push(node.restart_with(|o| o.level_max = 2).await);
    }
    wait_for_level(&nodes, 2, Some(4)).await;
    transfer_until_leader(&nodes, 3).await;
    let (before, incarnation) = (term(&old), old.node.identity().incarnation);
    stage.links.restore(&old.options.address);
    for node in &nodes[..2] {
        let wrong = send_vote(&node.member(), 3, Some(incarnation)).await;
        assert_eq!(wrong, Some(RaftRejectionReason::WrongSender));
        let silent = send_vote(&node.member(), 3, None).await;
        assert_eq!(silent, Some(RaftRejectionReason::WrongSender));
        let right = nodes[2].node.identity().incarnation;
        assert_eq!(send_vote(&node.member(), 3, Some(right)).await, None);
    }
    // Not a wait for an event: the time in which its heartbeats would be answered.
    for i in 0..3 {
        assert!(old.node.confirm_leadership().await.is_err());
        write_session(&nodes, &format!("after-{i}")).await;
    }
    assert_eq!(term(&old), before);
    assert!(old.node.watch_failure().borrow().is_none());
    wait_until_equal(&nodes, ["before", "without", "after-2"].into_iter()).await;
}

/// The id of a removed store is not given again, to its own directory or another one; its calls are
/// rejected with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn id_of_removed_store_is_never_reused() {
    let stage = ReplacedLeaderSetup::start().await;
    let mut nodes = Vec::new();
    for node in stage.nodes {
        nodes.push(node.restart_with(|o| o.level_max = 2).await);
    }
    wait_for_level(&nodes, 2, Some(4)).await;
    transfer_until_leader(&nodes, 1).await;
    let removed = nodes.pop().unwrap();
    nodes[0].node.remove_member(3).await.unwrap();
    write_session(&nodes, "without").await;
    let own = removed.member();
    for (address, incarnation) in [
        (own.address.as_str(), own.incarnation),
        ("127.0.0.1:1", own.incarnation ^ 1),
    ] {
        match nodes[0].node.add_member(3, address, incarnation).await {
            Err(MemberError::Rejected(text)) => {
                let advice = format!("seqsvr member add 4={address}");
                assert!(text.contains("never reused"), "{text}");
                assert!(text.contains(&advice), "{text}");
            }
            other => panic!("not rejected: {other:?}"),
        }
    }
    wait_for_level(&nodes, 2, Some(4)).await;
    for node in &nodes {
        let reason = send_vote(&node.member(), 3, Some(own.incarnation)).await;
        assert_eq!(reason, Some(RaftRejectionReason::Removed));
    }
}
