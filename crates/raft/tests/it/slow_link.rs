//! Followers behind a slow but working link.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seqsvr_core::command::{Batch, Command};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::ids::SessionId;
use seqsvr_core::namespace::NamespaceSpec;
use seqsvr_raft::{GroupMember, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::support::running_node::{
    CLUSTER, LEASE_MS, RunningNode, SLOTS, TEST_TIMEOUT, bind_loopback, leader, wait_until,
    wait_until_equal, write_session,
};

/// A link that passes this many bytes a second towards a node, each part of them after a delay, and
/// all bytes that come back.
struct SlowLink {
    address: String,
    target: String,
    bytes_per_second: Arc<AtomicU64>,
    delay_ms: Arc<AtomicU64>,
}

impl SlowLink {
    /// Starts a link to `target`, without a limit.
    fn start(target: String) -> SlowLink {
        let socket = TcpSocket::new_v4().unwrap();
        // Bytes that wait for the link wait at the sender, not here.
        socket.set_recv_buffer_size(8 << 10).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(16).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let bytes_per_second = Arc::new(AtomicU64::new(u64::MAX));
        let delay_ms = Arc::new(AtomicU64::new(0));
        let (rate, delay) = (bytes_per_second.clone(), delay_ms.clone());
        let behind = target.clone();
        tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let Ok(to) = TcpStream::connect(&behind).await else {
                    continue;
                };
                let ((mut from_read, mut from_write), (mut to_read, mut to_write)) =
                    (from.into_split(), to.into_split());
                tokio::spawn(async move { tokio::io::copy(&mut to_read, &mut from_write).await });
                let (rate, delay) = (rate.clone(), delay.clone());
                tokio::spawn(async move {
                    let mut bytes = [0; 1_024];
                    while let Ok(count @ 1..) = from_read.read(&mut bytes).await {
                        let rate = rate.load(Ordering::Relaxed);
                        if rate < u64::MAX {
                            let time = Duration::from_secs(1) * count as u32 / rate as u32;
                            tokio::time::sleep(time).await;
                        }
                        let delay = Duration::from_millis(delay.load(Ordering::Relaxed));
                        if !delay.is_zero() {
                            tokio::time::sleep(delay).await;
                        }
                        if to_write.write_all(&bytes[..count]).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        SlowLink {
            address,
            target,
            bytes_per_second,
            delay_ms,
        }
    }

    fn set_rate(&self, bytes_per_second: u64) {
        self.bytes_per_second
            .store(bytes_per_second, Ordering::Relaxed);
    }
}

/// Makes three nodes that reach each other directly, but for the third one, which is behind a link.
async fn start_three_with_slow_link(
    dir: &Path,
    tune: impl Fn(&mut Options),
) -> (Vec<RunningNode>, SlowLink) {
    let mut nodes = Vec::new();
    let mut listeners: Vec<(TcpListener, String)> = Vec::new();
    for _ in 0..3 {
        listeners.push(bind_loopback().await);
    }
    let link = SlowLink::start(listeners[2].1.clone());
    for (id, (listener, address)) in (1..).zip(listeners) {
        let mut options = Options::new(id, address, dir.join(id.to_string()));
        if id == 3 {
            options.address.clone_from(&link.address);
        }
        tune(&mut options);
        nodes.push(RunningNode::start(options, listener).await.unwrap());
    }
    let members: Vec<GroupMember> = nodes.iter().map(RunningNode::member).collect();
    let made = nodes[0]
        .node
        .create_cluster(members, CLUSTER, LEASE_MS, SLOTS)
        .await;
    made.unwrap();
    // The third must not lead: its own calls are not slow.
    while leader(&nodes).await == 2 {
        let _ = nodes[2].node.transfer_leader(Some(1)).await;
    }
    (nodes, link)
}

/// Returns a batch of this many commands that change nothing, of 20 bytes each.
fn idle_batch(commands: u64) -> Batch {
    let command = |i| Command::ExpireSession {
        session: SessionId(u64::MAX - i),
        term: u64::MAX - i,
    };
    Batch {
        commands: (0..commands).map(command).collect(),
    }
}

/// Proposes batches at the leader, several at a time.
async fn propose_batches(node: &seqsvr_raft::RaftNode, count: usize, commands: u64) {
    let mut under_way = JoinSet::new();
    for _ in 0..count {
        if under_way.len() == 32 {
            under_way.join_next().await.unwrap().unwrap();
        }
        let node = node.clone();
        under_way.spawn(async move {
            node.propose(idle_batch(commands))
                .await
                .expect("a quorum is well");
        });
    }
    under_way.join_all().await;
}

/// A follower takes entries more slowly than they come. The leader's log stays bounded: the
/// follower receives a snapshot once it lags by more than 2 x (40 + 5) entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_follower_does_not_hold_up_log_purge() {
    let dir = tempfile::tempdir().unwrap();
    let (nodes, link) = start_three_with_slow_link(dir.path(), |o| {
        o.snapshot_interval_entries = 40;
        o.keep_entries = 5;
        o.log_file_bytes = 16 << 10;
    })
    .await;
    link.set_rate(24 << 10);
    let led = leader(&nodes).await;
    let node = &nodes[led].node;
    // The purge passes the entry that the follower has, although entries pass without a failure.
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    loop {
        propose_batches(node, 100, 10).await;
        let purged = node.counters().purged_index;
        let matched = node.matched_indexes().get(&3).copied().unwrap_or(0);
        if purged > matched {
            println!("purged up to {purged}, the slow follower at {matched}");
            break;
        }
        let last = node.counters().last_log_index;
        assert!(
            tokio::time::Instant::now() < deadline && last < 5_000,
            "{} entries in the log, the slow follower at {matched}",
            last - purged
        );
    }
    link.set_rate(u64::MAX);
    write_session(&nodes, "last").await;
    wait_until_equal(&nodes, ["last"].into_iter()).await;
}

/// A follower must catch up by many entries of the longest size over a slow link. No call is longer
/// than the link can pass in the time of a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_entries_pass_slow_link() {
    let dir = tempfile::tempdir().unwrap();
    let (mut nodes, link) = start_three_with_slow_link(dir.path(), |_| {}).await;
    write_session(&nodes, "first").await;
    let led = leader(&nodes).await;
    let id = nodes[led].options.node;
    let late = nodes.pop().unwrap();
    assert_ne!(late.options.node, id);
    let mut options = late.kill().await;
    let leading = &nodes[led].node;
    propose_batches(leading, 40, 2_800).await;
    let goal = leading.counters().last_log_index;
    // 2.2 MB, so 4 s; in one call, which gets 1 s, they never passed.
    link.set_rate(512 << 10);
    options.address = link.target.clone();
    let mut late = RunningNode::restart(options).await.unwrap();
    late.options.address = link.address.clone();
    wait_until("the follower has caught up", || {
        late.node.counters().applied_index >= goal
    })
    .await;
    nodes.push(late);
    wait_until_equal(&nodes, ["first"].into_iter()).await;
}

/// A vote that takes longer than the shortest election time does not count. Two nodes whose votes
/// take at least 300 ms elect a leader only with a longer one; with the default of 200 ms they
/// never do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_votes_elect_leader_with_longer_election_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = Vec::new();
    let mut links = Vec::new();
    for id in 1..=2 {
        let (listener, address) = bind_loopback().await;
        let link = SlowLink::start(address);
        let mut options = Options::new(id, &link.address, dir.path().join(id.to_string()));
        options.election_min_ms = 1_500;
        options.election_max_ms = 3_000;
        nodes.push(RunningNode::start(options, listener).await.unwrap());
        links.push(link);
    }
    let members: Vec<GroupMember> = nodes.iter().map(RunningNode::member).collect();
    let made = nodes[0]
        .node
        .create_cluster(members, CLUSTER, LEASE_MS, SLOTS)
        .await;
    made.unwrap();
    write_session(&nodes, "first").await;
    for link in &links {
        link.delay_ms.store(300, Ordering::Relaxed);
    }
    // Both start again, so a leader has to be elected.
    let mut stopped = Vec::new();
    for node in nodes {
        stopped.push(node.kill().await);
    }
    let mut nodes = Vec::new();
    for (mut options, link) in stopped.into_iter().zip(&links) {
        options.address.clone_from(&link.target);
        let mut node = RunningNode::restart(options).await.unwrap();
        node.options.address.clone_from(&link.address);
        nodes.push(node);
    }
    leader(&nodes).await;
    write_session(&nodes, "last").await;
}

/// Schedule: a snapshot takes seconds on its way to a follower. In this time the leader applies
/// several times the number of entries after which it usually takes a snapshot. The follower
/// continues with the entries behind that snapshot. Otherwise the leader would have purged them and
/// would send the next snapshot, and the one after that, for as long as entries come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_snapshot_is_followed_by_entries() {
    /// Twice as many as the leader keeps while no snapshot is on its way.
    const ENTRIES_DURING_SEND: u64 = 2 * (40 + 5);
    // 1. Stop the third node, and write more than the leader keeps in its log.
    let dir = tempfile::tempdir().unwrap();
    let (mut nodes, link) = start_three_with_slow_link(dir.path(), |o| {
        o.snapshot_interval_entries = 40;
        o.keep_entries = 5;
        o.log_file_bytes = 16 << 10;
    })
    .await;
    write_session(&nodes, "first").await;
    assert_ne!(nodes[leader(&nodes).await].options.node, 3);
    let mut options = nodes.pop().unwrap().kill().await;
    let leading = nodes[leader(&nodes).await].node.clone();
    for n in 0..100 {
        let spec = |i| {
            NamespaceSpec::new(
                &format!("namespace-{n}-{i}"),
                Geometry::Keyed { sections: 1 },
            )
        };
        let commands = (0..40).map(|i| Command::CreateNamespace(spec(i)));
        let batch = Batch {
            commands: commands.collect(),
        };
        leading.propose(batch).await.unwrap();
    }

    // 2. Restart it behind a slow link: it receives a snapshot.
    link.set_rate(64 << 10);
    options.address.clone_from(&link.target);
    let begun_at = leading.counters().last_log_index;
    let mut late = RunningNode::restart(options).await.unwrap();
    late.options.address.clone_from(&link.address);
    let installs = late.node.counters().snapshots_installed;

    // 3. It catches up although entries come without a pause.
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    let mut installed_at = None;
    loop {
        // The first ones several at a time: on a busy machine too few would come before the end.
        let is_enough = leading.counters().last_log_index > begun_at + ENTRIES_DURING_SEND;
        let at_a_time = if is_enough { 1 } else { 8 };
        propose_batches(&leading, at_a_time, 1).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let (now, last) = (late.node.counters(), leading.counters().last_log_index);
        if now.snapshots_installed > installs {
            installed_at.get_or_insert(last);
        }
        if installed_at.is_some() && now.applied_index + 20 > last {
            break;
        }
        let installed = now.snapshots_installed - installs;
        assert!(
            tokio::time::Instant::now() < deadline,
            "at entry {} of {last} after {installed} snapshots",
            now.applied_index
        );
    }

    // 4. It received one snapshot, during which many entries came.
    let entries_during_send = installed_at.unwrap() - begun_at;
    println!("{entries_during_send} entries came while the snapshot was on its way");
    assert!(
        entries_during_send > ENTRIES_DURING_SEND,
        "the test shows nothing: {entries_during_send}"
    );
    assert_eq!(late.node.counters().snapshots_installed, installs + 1);
    link.set_rate(u64::MAX);
    nodes.push(late);
    write_session(&nodes, "last").await;
    wait_until_equal(&nodes, ["first", "last"].into_iter()).await;
}
