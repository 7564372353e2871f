//! Members come and go while the group works; all acknowledged entries are on all of them.

use std::time::Duration;

use seqsvr_raft::{MemberError, Node, Options};
use tokio::time::Instant;

use crate::common::{LIMIT, Running, agree, cluster, leader, start, until, write};

/// Keeps only a few entries, so that a new node receives a snapshot, and then entries.
fn purging(options: &mut Options) {
    options.snapshot_every_entries = 40;
    options.keep_entries = 5;
    options.log_file_bytes = 16 << 10;
}

/// Calls the leader; retries while the answer names another leader or says to retry.
async fn ask(
    nodes: &[Running],
    call: impl AsyncFn(&Node) -> Result<(), MemberError>,
) -> Result<(), MemberError> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let at = leader(nodes).await;
        match call(&nodes[at].node).await {
            Err(MemberError::NotLeader { .. } | MemberError::Unfinished(_)) => {
                assert!(Instant::now() < deadline, "asked for too long");
            }
            done => return done,
        }
    }
}

/// Adds the last of `nodes`.
async fn join(nodes: &[Running]) {
    let new = nodes.last().unwrap().member();
    let add = async |node: &Node| node.add_member(new.id, &new.address, new.incarnation).await;
    ask(&nodes[..nodes.len() - 1], add).await.unwrap();
}

async fn remove(nodes: &[Running], id: u64) -> Result<(), MemberError> {
    ask(nodes, async |node: &Node| node.remove_member(id).await).await
}

/// Takes the node with that id out of the list.
fn take(nodes: &mut Vec<Running>, id: u64) -> Running {
    let at = nodes.iter().position(|n| n.options.node == id).unwrap();
    nodes.remove(at)
}

async fn leader_id(nodes: &[Running]) -> u64 {
    nodes[leader(nodes).await].options.node
}

/// Waits until every node has exactly these members, all of them voters.
async fn voters(nodes: &[Running], ids: &[u64]) {
    let same = |n: &Running| {
        let members = n.node.members();
        members.iter().all(|m| m.voter) && members.iter().map(|m| m.id).eq(ids.iter().copied())
    };
    until("the members", || nodes.iter().all(same)).await;
}

fn refused(answer: Result<(), MemberError>) -> String {
    match answer {
        Err(MemberError::Refused(text)) => text,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_grows_from_one_to_five_and_shrinks_to_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path(), 1, purging).await;
    let mut names: Vec<String> = Vec::new();
    for i in 0..100 {
        names.push(format!("one-{i}"));
        write(&nodes, names.last().unwrap()).await;
    }
    assert!(refused(remove(&nodes, 1).await).contains("last voter"));
    let alone = ask(&nodes, async |n: &Node| n.transfer_leader(None).await).await;
    assert!(refused(alone).contains("no other voter"));

    for id in 2..=5 {
        nodes.push(start(dir.path(), id, purging).await);
        join(&nodes).await;
        names.push(format!("with-{id}"));
        write(&nodes, names.last().unwrap()).await;
        // A repetition does no harm.
        join(&nodes).await;
    }
    voters(&nodes, &[1, 2, 3, 4, 5]).await;
    agree(&nodes, names.iter().map(String::as_str)).await;
    let installed = |n: &Running| n.node.counters().snapshots_installed;
    assert!(nodes[1..].iter().all(|n| installed(n) > 0), "by log alone");

    // The leader itself, a dead one, a living one, and then down to one.
    let led = leader_id(&nodes).await;
    remove(&nodes, led).await.unwrap();
    take(&mut nodes, led).kill().await;
    names.push(String::from("without-its-leader"));
    write(&nodes, names.last().unwrap()).await;
    let at = (leader(&nodes).await + 1) % nodes.len();
    let dead = nodes.remove(at).kill().await.node;
    remove(&nodes, dead).await.unwrap();
    names.push(String::from("without-the-dead"));
    write(&nodes, names.last().unwrap()).await;
    let ids: Vec<u64> = nodes.iter().map(|n| n.options.node).collect();
    voters(&nodes, &ids).await;
    agree(&nodes, names.iter().map(String::as_str)).await;
    while nodes.len() > 1 {
        let at = (leader(&nodes).await + 1) % nodes.len();
        let id = nodes[at].options.node;
        remove(&nodes, id).await.unwrap();
        // A repetition does no harm.
        remove(&nodes, id).await.unwrap();
        take(&mut nodes, id).kill().await;
        names.push(format!("left-{}", nodes.len()));
        write(&nodes, names.last().unwrap()).await;
    }
    agree(&nodes, names.iter().map(String::as_str)).await;
    // The remaining node leads alone after a restart as well.
    let options = nodes.remove(0).kill().await;
    nodes.push(Running::restart(options).await.unwrap());
    write(&nodes, "after").await;
    agree(&nodes, names.iter().map(String::as_str)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leadership_moves_ten_times() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path(), 3, |_| {}).await;
    let names: Vec<String> = (0..11).map(|i| format!("n{i}")).collect();
    write(&nodes, &names[0]).await;
    let mut longest = Duration::ZERO;
    for (i, name) in (0..).zip(&names[1..]) {
        let led = leader_id(&nodes).await;
        let to = led % 3 + 1;
        let begun = Instant::now();
        // To a named voter, and every third time to any fit voter.
        let wanted = (i % 3 != 2).then_some(to);
        let moved = ask(&nodes, async |n: &Node| n.transfer_leader(wanted).await).await;
        moved.unwrap();
        let now = leader_id(&nodes).await;
        longest = longest.max(begun.elapsed());
        assert_ne!(now, led);
        assert!(wanted.is_none_or(|to| to == now));
        // A transfer to itself is done already.
        let same = ask(&nodes, async |n: &Node| n.transfer_leader(Some(now)).await).await;
        assert_eq!(same, Ok(()));
        write(&nodes, name).await;
    }
    println!("the longest of ten transfers took {longest:?}");
    agree(&nodes, names.iter().map(String::as_str)).await;

    let none = ask(&nodes, async |n: &Node| n.transfer_leader(Some(7)).await).await;
    assert!(refused(none).contains("the voters are 1, 2, 3"));
    let at = (leader(&nodes).await + 1) % 3;
    let dead = nodes.remove(at).kill().await;
    let terms = |nodes: &[Running]| nodes.iter().map(|n| n.node.counters().term).max();
    let term = terms(&nodes);
    until("the leader to miss it", || {
        nodes.iter().filter(|n| n.leads()).count() == 1
    })
    .await;
    // A dead node may count as alive for a moment; after that the transfer to it is rejected.
    let deadline = Instant::now() + LIMIT;
    loop {
        let to_dead = ask(&nodes, async |n: &Node| {
            n.transfer_leader(Some(dead.node)).await
        });
        match to_dead.await {
            Err(MemberError::Refused(text)) => {
                assert!(text.contains("does not answer"), "{text}");
                break;
            }
            other => println!("just after its death: {other:?}, {term:?}"),
        }
        assert!(Instant::now() < deadline);
    }
    write(&nodes, "last").await;
}

/// Schedule: of three voters one is dead. Removing a living one would leave a voter and a dead one,
/// which never commit again; removing the dead one is right, and a new id takes its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_replaced_and_a_living_one_not_taken_away_instead() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path(), 3, purging).await;
    let mut names: Vec<String> = (0..60).map(|i| format!("before-{i}")).collect();
    for name in &names {
        write(&nodes, name).await;
    }
    let at = (leader(&nodes).await + 1) % 3;
    let dead = nodes.remove(at).kill().await.node;
    let led = leader(&nodes).await;
    let alive = nodes[1 - led].options.node;
    // For 3 s after its last answer the dead one counts as alive. The test cannot poll for that,
    // because a removal that comes earlier is accepted.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let text = refused(remove(&nodes, alive).await);
    assert!(text.contains(&format!("({dead})")), "{text}");
    assert!(refused(remove(&nodes, nodes[led].options.node).await).contains("stand still"));
    write(&nodes, "meanwhile").await;

    remove(&nodes, dead).await.unwrap();
    nodes.push(start(dir.path(), 4, purging).await);
    join(&nodes).await;
    for i in 0..60 {
        names.push(format!("after-{i}"));
        write(&nodes, names.last().unwrap()).await;
    }
    let mut ids: Vec<u64> = nodes.iter().map(|n| n.options.node).collect();
    ids.sort_unstable();
    voters(&nodes, &ids).await;
    agree(&nodes, names.iter().map(String::as_str)).await;
    // The new one counts like the others: with it and one more there is a quorum.
    let at = usize::from(leader_id(&nodes[..2]).await == nodes[1].options.node);
    let gone = nodes.remove(at).kill().await;
    write(&nodes, "with-the-new-one").await;
    nodes.push(Running::restart(gone).await.unwrap());
    agree(&nodes, ["with-the-new-one"].into_iter()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_voter_is_refused_under_its_id_and_taken_under_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path(), 3, |_| {}).await;
    write(&nodes, "a").await;
    let at = (leader(&nodes).await + 1) % 3;
    let old = nodes[at].member();
    let options = nodes.remove(at).kill().await;
    std::fs::remove_dir_all(&options.data_dir).unwrap();
    let wiped = Running::restart(options).await.unwrap();
    let new = wiped.member();
    let add = async |n: &Node| n.add_member(new.id, &new.address, new.incarnation).await;
    let text = refused(ask(&nodes, add).await);
    for words in [
        "ids are never reused",
        &format!("seqsvr member remove {}", old.id),
        &format!("seqsvr member add 4={}", old.address),
    ] {
        assert!(text.contains(words), "{text}");
    }
    // Nor under a new id at an address that is taken, nor with the old directory's number.
    let lie = async |n: &Node| n.add_member(9, &new.address, new.incarnation).await;
    assert!(refused(ask(&nodes, lie).await).contains("is the address of member"));
    let moved = async |n: &Node| n.add_member(old.id, "127.0.0.1:1", old.incarnation).await;
    assert!(refused(ask(&nodes, moved).await).contains("cannot change"));
    assert_eq!(wiped.node.identity().cluster, None);
    write(&nodes, "b").await;

    // The steps that the error text names.
    remove(&nodes, old.id).await.unwrap();
    wiped.kill().await;
    nodes.push(start(dir.path(), 4, |_| {}).await);
    join(&nodes).await;
    write(&nodes, "c").await;
    agree(&nodes, ["a", "b", "c"].into_iter()).await;
}

/// A removed node continues to request votes. No other node's term moves, and the removed node
/// never leads, not even after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_node_that_runs_on_disturbs_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path(), 3, |_| {}).await;
    write(&nodes, "a").await;
    let id = nodes[(leader(&nodes).await + 1) % 3].options.node;
    remove(&nodes, id).await.unwrap();
    let removed = take(&mut nodes, id);
    let term = nodes[leader(&nodes).await].node.counters().term;
    let calm = async |removed: &Running, what: &str| {
        // Not a wait for an event: the time that several elections would take.
        let deadline = Instant::now() + Duration::from_secs(3);
        let mut i = 0;
        while Instant::now() < deadline {
            write(&nodes, &format!("{what}-{i}")).await;
            assert!(!removed.leads());
            i += 1;
        }
        assert!(nodes.iter().all(|n| n.node.counters().term == term));
        assert!(removed.node.counters().term == term);
        assert!(
            removed
                .node
                .with_state(|s| s.session_named(&format!("{what}-0")).is_none())
        );
    };
    calm(&removed, "running").await;
    let options = removed.kill().await;
    let removed = Running::restart(options).await.unwrap();
    calm(&removed, "restarted").await;

    // Its id is used up: another store may be configured to take its place.
    let own = removed.member();
    let add = async |n: &Node| n.add_member(own.id, &own.address, own.incarnation).await;
    assert!(refused(ask(&nodes, add).await).contains("never reused"));
    agree(&nodes, ["a", "running-0", "restarted-0"].into_iter()).await;
}

/// openraft answers first, and only then reports the nodes it replicates to: some callers received
/// the answer that this node did not lead any more, or that there was no such member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_just_added_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path(), 1, |_| {}).await;
    let node = &nodes[0].node;
    for id in 2..202 {
        let add = node.add_member(id, "127.0.0.1:1", id);
        let early = tokio::time::timeout(Duration::from_millis(20), add).await;
        assert!(early.is_err(), "nobody is there: {id} {early:?}");
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
async fn changes_are_one_at_a_time_and_go_on_where_they_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path(), 1, |_| {}).await;
    write(&nodes, "a").await;
    let new = start(dir.path(), 2, |_| {}).await;
    let member = new.member();
    let options = new.kill().await;
    let node = nodes[0].node.clone();
    let add = || node.add_member(2, &member.address, member.incarnation);
    let early = tokio::time::timeout(Duration::from_secs(1), add()).await;
    assert!(early.is_err(), "added though it is dead: {early:?}");
    let learners = || node.members().iter().filter(|m| !m.voter).count();
    assert_eq!((node.members().len(), learners()), (2, 1));
    // The leader alone is still the quorum.
    write(&nodes, "b").await;

    let (first, second) = tokio::join!(add(), node.remove_member(2));
    match (first, second) {
        (Err(MemberError::Refused(text)), Err(MemberError::Busy)) => {
            assert!(text.contains("does not answer the leader"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    nodes.push(Running::restart(options).await.unwrap());
    add().await.unwrap();
    voters(&nodes, &[1, 2]).await;
    write(&nodes, "c").await;
    agree(&nodes, ["a", "b", "c"].into_iter()).await;
}
