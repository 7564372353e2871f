//! Stores that return under an id that another store has now, and two stores under one id.

use prost::Message;
use seqsvr_proto::v1::raft_client::RaftClient;
use seqsvr_proto::v1::{RaftHeader, RaftRefusal, RaftRefusalReason, RaftRequest};
use seqsvr_raft::{Member, MemberError, Options, Role};
use tempfile::TempDir;

use crate::common::{CLUSTER, Running, agree, leader, listen, until, write};
use crate::levels::{add, reached};
use crate::links::Links;

const LAST_LINE: &str = "another process has this id";

/// Returns a node's answer to a pre-vote of this sender; None: it lets the sender in.
async fn knock(
    to: &Member,
    sender: u64,
    sender_incarnation: Option<u64>,
) -> Option<RaftRefusalReason> {
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
        acknowledged: 0,
        checkpoint: None,
    };
    let status = client.vote(request).await.unwrap_err();
    let refusal = RaftRefusal::decode(status.details()).unwrap();
    (refusal.reason != 0).then(|| refusal.reason())
}

struct Stage {
    dir: TempDir,
    links: Links,
    nodes: Vec<Running>,
}

impl Stage {
    /// Makes three nodes, all but the third of format level 1 at most.
    async fn set() -> Stage {
        let mut stage = Stage {
            dir: tempfile::tempdir().unwrap(),
            links: Links::default(),
            nodes: Vec::new(),
        };
        for id in 1..=3 {
            let level_max = if id == 3 { 2 } else { 1 };
            let name = id.to_string();
            let node = stage.start(id, &name, |o| o.level_max = level_max).await;
            stage.nodes.push(node);
        }
        let members = stage.nodes.iter().map(Running::member).collect();
        let made = stage.nodes[0].node.init(members, CLUSTER, 3_000, 64).await;
        made.unwrap();
        stage
    }

    async fn start(&self, id: u64, dir: &str, tune: impl FnOnce(&mut Options)) -> Running {
        let (listener, address) = listen().await;
        let transport = self.links.of(&address);
        let mut options = Options::new(id, address, self.dir.path().join(dir));
        tune(&mut options);
        let started = Running::start_in(options, listener, transport).await;
        started.unwrap()
    }

    /// Cuts off store 3 as leader and removes it; another directory joins as store 3 and leads.
    /// Returns the old store 3. The new one has the format level given.
    async fn replace_the_leader(&mut self, level_max: u32) -> Running {
        let to_three = async |nodes: &[Running]| {
            until_leads(nodes, 3).await;
        };
        to_three(&self.nodes).await;
        write(&self.nodes, "before").await;
        agree(&self.nodes, ["before"].into_iter()).await;
        let old = self.nodes.remove(2);
        self.links.cut(&old.options.address);
        write(&self.nodes, "without").await;
        let at = leader(&self.nodes).await;
        self.nodes[at].node.remove_member(3).await.unwrap();
        let new = self.start(3, "new-3", |o| o.level_max = level_max).await;
        self.nodes.push(new);
        add(&self.nodes[..2], &self.nodes[2].member()).await;
        write(&self.nodes, "with-the-new-one").await;
        to_three(&self.nodes).await;
        let (old_term, term) = (term(&old), term(&self.nodes[2]));
        assert!(old_term < term, "{old_term} {term}");
        old
    }
}

fn term(node: &Running) -> u64 {
    node.node.counters().term
}

/// Hands the leadership over until the node of that id leads.
async fn until_leads(nodes: &[Running], id: u64) {
    loop {
        let at = leader(nodes).await;
        if nodes[at].options.node == id {
            return;
        }
        // The transfer may fail, or another node may lead already.
        let _ = nodes[at].node.transfer_leader(Some(id)).await;
    }
}

async fn last_line(node: &Running) -> String {
    let failed = node.node.failed();
    until("it says why it stops", || failed.borrow().is_some()).await;
    failed.borrow().clone().unwrap()
}

/// Schedule A of finding B1 at level 1, where an id may be used again: the stale leader's heartbeat
/// is answered with a higher committed vote that bears its own id. Without the rule about votes it
/// leads that term, unelected, and the others acknowledge what it appends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_leader_that_meets_its_own_id_ends() {
    let mut stage = Stage::set().await;
    let old = stage.replace_the_leader(1).await;
    let before = term(&old);
    stage.links.restore(&old.options.address);
    let mut seen = old.node.leadership();
    let ended = seen.wait_for(|l| l.role == Role::Stopped || l.term > before);
    let ended = ended.await.unwrap().clone();
    assert_eq!(ended.role, Role::Stopped, "it leads again: {ended:?}");
    let line = last_line(&old).await;
    assert!(
        line.contains(LAST_LINE) && line.contains("store 3"),
        "{line}"
    );
    assert!(!line.contains('\n'), "{line}");
    write(&stage.nodes, "after").await;
    agree(&stage.nodes, ["before", "without", "after"].into_iter()).await;
}

/// Schedule A of finding B1 at level 2: the calls of the stale leader are rejected, because the
/// membership records another directory. It never receives the vote, never leads and confirms
/// nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_leader_is_known_by_its_incarnation() {
    let mut stage = Stage::set().await;
    let old = stage.replace_the_leader(2).await;
    let mut nodes = Vec::new();
    for node in std::mem::take(&mut stage.nodes) {
        nodes.push(node.again(|o| o.level_max = 2).await);
    }
    reached(&nodes, 2, Some(4)).await;
    until_leads(&nodes, 3).await;
    let (before, incarnation) = (term(&old), old.node.identity().incarnation);
    stage.links.restore(&old.options.address);
    for node in &nodes[..2] {
        let wrong = knock(&node.member(), 3, Some(incarnation)).await;
        assert_eq!(wrong, Some(RaftRefusalReason::WrongSender));
        let silent = knock(&node.member(), 3, None).await;
        assert_eq!(silent, Some(RaftRefusalReason::WrongSender));
        let right = nodes[2].node.identity().incarnation;
        assert_eq!(knock(&node.member(), 3, Some(right)).await, None);
    }
    // Not a wait for an event: the time in which its heartbeats would be answered.
    for i in 0..3 {
        assert!(old.node.confirm().await.is_err());
        write(&nodes, &format!("after-{i}")).await;
    }
    assert_eq!(term(&old), before);
    assert!(old.node.failed().borrow().is_none());
    agree(&nodes, ["before", "without", "after-2"].into_iter()).await;
}

/// The id of a removed store is not given again, to its own directory or another one; its calls are
/// rejected with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_never_used_again() {
    let stage = Stage::set().await;
    let mut nodes = Vec::new();
    for node in stage.nodes {
        nodes.push(node.again(|o| o.level_max = 2).await);
    }
    reached(&nodes, 2, Some(4)).await;
    until_leads(&nodes, 1).await;
    let removed = nodes.pop().unwrap();
    nodes[0].node.remove_member(3).await.unwrap();
    write(&nodes, "without").await;
    let own = removed.member();
    for (address, incarnation) in [
        (own.address.as_str(), own.incarnation),
        ("127.0.0.1:1", own.incarnation ^ 1),
    ] {
        match nodes[0].node.add_member(3, address, incarnation).await {
            Err(MemberError::Refused(text)) => {
                let advice = format!("seqsvr member add 4={address}");
                assert!(text.contains("never reused"), "{text}");
                assert!(text.contains(&advice), "{text}");
            }
            other => panic!("not refused: {other:?}"),
        }
    }
    reached(&nodes, 2, Some(4)).await;
    for node in &nodes {
        let reason = knock(&node.member(), 3, Some(own.incarnation)).await;
        assert_eq!(reason, Some(RaftRefusalReason::Removed));
    }
}
