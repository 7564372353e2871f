//! Members come and go while the group works; all acknowledged entries are on all of them.

use std::time::Duration;

use seqsvr_raft::{MemberError, Options, RaftNode};
use tokio::time::Instant;

use crate::support::running_node::{
    RunningNode, TEST_TIMEOUT, leader, start_cluster, start_node, wait_until, wait_until_equal,
    write_session,
};

/// Keeps only a few entries, so that a new node receives a snapshot, and then entries.
fn keep_few_entries(options: &mut Options) {
    options.snapshot_interval_entries = 40;
    options.keep_entries = 5;
    options.log_file_bytes = 16 << 10;
}

/// Calls the leader; retries while the answer names another leader or says to retry.
async fn call_leader(
    nodes: &[RunningNode],
    call: impl AsyncFn(&RaftNode) -> Result<(), MemberError>,
) -> Result<(), MemberError> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let at = leader(nodes).await;
        match call(&nodes[at].node).await {
            Err(MemberError::NotLeader { .. } | MemberError::Unfinished(_)) => {
                assert!(Instant::now() < deadline, "called for too long");
            }
            done => return done,
        }
    }
}

/// Adds the last of `nodes`.
async fn add_last(nodes: &[RunningNode]) {
    let new = nodes.last().unwrap().member();
    let add = async |node: &RaftNode| node.add_member(new.id, &new.address, new.incarnation).await;
    call_leader(&nodes[..nodes.len() - 1], add).await.unwrap();
}

async fn remove_at_leader(nodes: &[RunningNode], id: u64) -> Result<(), MemberError> {
    call_leader(nodes, async |node: &RaftNode| node.remove_member(id).await).await
}

/// Takes the node with that id out of the list.
fn take_node(nodes: &mut Vec<RunningNode>, id: u64) -> RunningNode {
    let at = nodes.iter().position(|n| n.options.node == id).unwrap();
    nodes.remove(at)
}

async fn leader_id(nodes: &[RunningNode]) -> u64 {
    nodes[leader(nodes).await].options.node
}

/// Waits until every node has exactly these members, all of them voters.
async fn wait_for_voters(nodes: &[RunningNode], ids: &[u64]) {
    let same = |n: &RunningNode| {
        let members = n.node.members();
        members.iter().all(|m| m.is_voter) && members.iter().map(|m| m.id).eq(ids.iter().copied())
    };
    wait_until("the members", || nodes.iter().all(same)).await;
}

fn rejection_text(answer: Result<(), MemberError>) -> String {
    match answer {
        Err(MemberError::Rejected(text)) => text,
        other => panic!("not rejected: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn group_grows_from_one_to_five_and_shrinks_to_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 1, keep_few_entries).await;
    let mut names: Vec<String> = Vec::new();
    for i in 0..100 {
        names.push(format!("one-{i}"));
        write_session(&nodes, names.last().unwrap()).await;
    }
    assert!(rejection_text(remove_at_leader(&nodes, 1).await).contains("last voter"));
    let alone = call_leader(&nodes, async |n: &RaftNode| n.transfer_leader(None).await).await;
    assert!(rejection_text(alone).contains("no other voter"));

    for id in 2..=5 {
        nodes.push(start_node(dir.path(), id, keep_few_entries).await);
        add_last(&nodes).await;
        names.push(format!("with-{id}"));
        write_session(&nodes, names.last().unwrap()).await;
        // A repetition does no harm.
        add_last(&nodes).await;
    }
    wait_for_voters(&nodes, &[1, 2, 3, 4, 5]).await;
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;
    let installed = |n: &RunningNode| n.node.counters().snapshots_installed;
    assert!(nodes[1..].iter().all(|n| installed(n) > 0), "by log alone");

    // The leader itself, a dead one, a living one, and then down to one.
    let led = leader_id(&nodes).await;
    remove_at_leader(&nodes, led).await.unwrap();
    take_node(&mut nodes, led).kill().await;
    names.push(String::from("without-its-leader"));
    write_session(&nodes, names.last().unwrap()).await;
    let at = (leader(&nodes).await + 1) % nodes.len();
    let dead = nodes.remove(at).kill().await.node;
    remove_at_leader(&nodes, dead).await.unwrap();
    names.push(String::from("without-the-dead"));
    write_session(&nodes, names.last().unwrap()).await;
    let ids: Vec<u64> = nodes.iter().map(|n| n.options.node).collect();
    wait_for_voters(&nodes, &ids).await;
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;
    while nodes.len() > 1 {
        let at = (leader(&nodes).await + 1) % nodes.len();
        let id = nodes[at].options.node;
        remove_at_leader(&nodes, id).await.unwrap();
        // A repetition does no harm.
        remove_at_leader(&nodes, id).await.unwrap();
        take_node(&mut nodes, id).kill().await;
        names.push(format!("left-{}", nodes.len()));
        write_session(&nodes, names.last().unwrap()).await;
    }
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;
    // The remaining node leads alone after a restart as well.
    let options = nodes.remove(0).kill().await;
    nodes.push(RunningNode::restart(options).await.unwrap());
    write_session(&nodes, "after").await;
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_transferred_ten_times() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, |_| {}).await;
    let names: Vec<String> = (0..11).map(|i| format!("n{i}")).collect();
    write_session(&nodes, &names[0]).await;
    let mut longest = Duration::ZERO;
    for (i, name) in (0..).zip(&names[1..]) {
        let led = leader_id(&nodes).await;
        let to = led % 3 + 1;
        let begun = Instant::now();
        // To a named voter, and every third time to any fit voter.
        let wanted = (i % 3 != 2).then_some(to);
        let moved = call_leader(&nodes, async |n: &RaftNode| n.transfer_leader(wanted).await).await;
        moved.unwrap();
        let now = leader_id(&nodes).await;
        longest = longest.max(begun.elapsed());
        assert_ne!(now, led);
        assert!(wanted.is_none_or(|to| to == now));
        // A transfer to itself is done already.
        let same = call_leader(&nodes, async |n: &RaftNode| {
            n.transfer_leader(Some(now)).await
        })
        .await;
        assert_eq!(same, Ok(()));
        write_session(&nodes, name).await;
    }
    println!("the longest of ten transfers took {longest:?}");
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;

    let none = call_leader(&nodes, async |n: &RaftNode| {
        n.transfer_leader(Some(7)).await
    })
    .await;
    assert!(rejection_text(none).contains("the voters are 1, 2, 3"));
    let at = (leader(&nodes).await + 1) % 3;
    let dead = nodes.remove(at).kill().await;
    let terms = |nodes: &[RunningNode]| nodes.iter().map(|n| n.node.counters().term).max();
    let term = terms(&nodes);
    wait_until("the leader to miss it", || {
        nodes.iter().filter(|n| n.is_ready_leader()).count() == 1
    })
    .await;
    // A dead node may count as alive for a moment; after that the transfer to it is rejected.
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let to_dead = call_leader(&nodes, async |n: &RaftNode| {
            n.transfer_leader(Some(dead.node)).await
        });
        match to_dead.await {
            Err(MemberError::Rejected(text)) => {
                assert!(text.contains("does not answer"), "{text}");
                break;
            }
            other => println!("just after its death: {other:?}, {term:?}"),
        }
        assert!(Instant::now() < deadline);
    }
    write_session(&nodes, "last").await;
}

/// Schedule: of three voters one is dead. Removing a living one would leave a voter and a dead one,
/// which never commit again; removing the dead one is right, and a new id takes its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_member_can_be_replaced_and_living_one_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, keep_few_entries).await;
    let mut names: Vec<String> = (0..60).map(|i| format!("before-{i}")).collect();
    for name in &names {
        write_session(&nodes, name).await;
    }
    let at = (leader(&nodes).await + 1) % 3;
    let dead = nodes.remove(at).kill().await.node;
    let led = leader(&nodes).await;
    let alive = nodes[1 - led].options.node;
    // For 3 s after its last answer the dead one counts as alive. The test cannot poll for that,
    // because a removal that comes earlier is accepted.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let text = rejection_text(remove_at_leader(&nodes, alive).await);
    assert!(text.contains(&format!("({dead})")), "{text}");
    assert!(
        rejection_text(remove_at_leader(&nodes, nodes[led].options.node).await)
            .contains("lose its quorum")
    );
    write_session(&nodes, "during-the-outage").await;

    remove_at_leader(&nodes, dead).await.unwrap();
    nodes.push(start_node(dir.path(), 4, keep_few_entries).await);
    add_last(&nodes).await;
    for i in 0..60 {
        names.push(format!("after-{i}"));
        write_session(&nodes, names.last().unwrap()).await;
    }
    let mut ids: Vec<u64> = nodes.iter().map(|n| n.options.node).collect();
    ids.sort_unstable();
    wait_for_voters(&nodes, &ids).await;
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;
    // The new one counts like the others: with it and one more there is a quorum.
    let at = usize::from(leader_id(&nodes[..2]).await == nodes[1].options.node);
    let gone = nodes.remove(at).kill().await;
    write_session(&nodes, "with-the-new-one").await;
    nodes.push(RunningNode::restart(gone).await.unwrap());
    wait_until_equal(&nodes, ["with-the-new-one"].into_iter()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wiped_voter_is_rejected_under_old_id_and_accepted_under_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, |_| {}).await;
    write_session(&nodes, "a").await;
    let at = (leader(&nodes).await + 1) % 3;
    let old = nodes[at].member();
    let options = nodes.remove(at).kill().await;
    std::fs::remove_dir_all(&options.data_dir).unwrap();
    let wiped = RunningNode::restart(options).await.unwrap();
    let new = wiped.member();
    let add = async |n: &RaftNode| n.add_member(new.id, &new.address, new.incarnation).await;
    let text = rejection_text(call_leader(&nodes, add).await);
    for words in [
        "ids are never reused",
        &format!("seqsvr member remove {}", old.id),
        &format!("seqsvr member add 4={}", old.address),
    ] {
        assert!(text.contains(words), "{text}");
    }
    // Nor under a new id at an address that is taken, nor with the old directory's number.
    let lie = async |n: &RaftNode| n.add_member(9, &new.address, new.incarnation).await;
    assert!(rejection_text(call_leader(&nodes, lie).await).contains("is the address of member"));
    let moved = async |n: &RaftNode| n.add_member(old.id, "127.0.0.1:1", old.incarnation).await;
    assert!(rejection_text(call_leader(&nodes, moved).await).contains("cannot change"));
    assert_eq!(wiped.node.identity().cluster, None);
    write_session(&nodes, "b").await;

    // The steps that the error text names.
    remove_at_leader(&nodes, old.id).await.unwrap();
    wiped.kill().await;
    nodes.push(start_node(dir.path(), 4, |_| {}).await);
    add_last(&nodes).await;
    write_session(&nodes, "c").await;
    wait_until_equal(&nodes, ["a", "b", "c"].into_iter()).await;
}

/// A removed node continues to request votes. No other node's term moves, and the removed node
/// never leads, not even after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_node_that_keeps_running_disturbs_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, |_| {}).await;
    write_session(&nodes, "a").await;
    let id = nodes[(leader(&nodes).await + 1) % 3].options.node;
    remove_at_leader(&nodes, id).await.unwrap();
    let removed = take_node(&mut nodes, id);
    let term = nodes[leader(&nodes).await].node.counters().term;
    let assert_no_disturbance = async |removed: &RunningNode, what: &str| {
        // Not a wait for an event: the time that several elections would take.
        let deadline = Instant::now() + Duration::from_secs(3);
        let mut i = 0;
        while Instant::now() < deadline {
            write_session(&nodes, &format!("{what}-{i}")).await;
            assert!(!removed.is_ready_leader());
            i += 1;
        }
        assert!(nodes.iter().all(|n| n.node.counters().term == term));
        assert!(removed.node.counters().term == term);
        assert!(
            removed
                .node
                .with_state(|s| s.find_session(&format!("{what}-0")).is_none())
        );
    };
    assert_no_disturbance(&removed, "running").await;
    let options = removed.kill().await;
    let removed = RunningNode::restart(options).await.unwrap();
    assert_no_disturbance(&removed, "restarted").await;

    // Its id is used up: another store may be configured to take its place.
    let own = removed.member();
    let add = async |n: &RaftNode| n.add_member(own.id, &own.address, own.incarnation).await;
    assert!(rejection_text(call_leader(&nodes, add).await).contains("never reused"));
    wait_until_equal(&nodes, ["a", "running-0", "restarted-0"].into_iter()).await;
}

/// openraft answers first, and only then reports the nodes it replicates to: some callers received
/// the answer that this node did not lead any more, or that there was no such member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn add_member_waits_for_new_learner() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 1, |_| {}).await;
    let node = &nodes[0].node;
    for id in 2..202 {
        let add = node.add_member(id, "127.0.0.1:1", id);
        let early = tokio::time::timeout(Duration::from_millis(20), add).await;
        assert!(early.is_err(), "no node is there: {id} {early:?}");
        let deadline = Instant::now() + Duration::from_secs(10);
        // A call that was given up may still be on its way.
        while let Err(error) = node.remove_member(id).await {
            let unfinished = matches!(error, MemberError::Unfinished(_) | MemberError::Busy);
            assert!(unfinished && Instant::now() < deadline, "{error}");
        }
    }
}

/// A learner that cannot be reached, and calls that are given up half way or made at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn membership_changes_run_one_at_a_time_and_resume() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 1, |_| {}).await;
    write_session(&nodes, "a").await;
    let new = start_node(dir.path(), 2, |_| {}).await;
    let member = new.member();
    let options = new.kill().await;
    let node = nodes[0].node.clone();
    let add = || node.add_member(2, &member.address, member.incarnation);
    let early = tokio::time::timeout(Duration::from_secs(1), add()).await;
    assert!(early.is_err(), "added though it is dead: {early:?}");
    let learners = || node.members().iter().filter(|m| !m.is_voter).count();
    assert_eq!((node.members().len(), learners()), (2, 1));
    // The leader alone is still the quorum.
    write_session(&nodes, "b").await;

    let (first, second) = tokio::join!(add(), node.remove_member(2));
    match (first, second) {
        (Err(MemberError::Rejected(text)), Err(MemberError::Busy)) => {
            assert!(text.contains("does not answer the leader"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    nodes.push(RunningNode::restart(options).await.unwrap());
    add().await.unwrap();
    wait_for_voters(&nodes, &[1, 2]).await;
    write_session(&nodes, "c").await;
    wait_until_equal(&nodes, ["a", "b", "c"].into_iter()).await;
}
