//! Real nodes on real directories and real loopback gRPC, for the tests.

use seqsvr_net::{ConnectionPeer, ConnectionQuota, TcpTransport, Transport};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use seqsvr_core::command::{Batch, Command, OpenSession, Reply};
use seqsvr_core::ids::{ClusterId, Nonce};
use seqsvr_core::state::State;
use seqsvr_raft::{Error, GroupMember, Options, ProposeError, RaftNode, RaftRole};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::service::InterceptorLayer;
use tonic::{Request, Status};

pub(crate) const CLUSTER: ClusterId = ClusterId(0x5eed);
pub(crate) const LEASE_MS: u32 = 3_000;
pub(crate) const SLOTS: u32 = 64;
/// Limit of each wait of a test: a longer wait fails.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A node with its server.
pub(crate) struct RunningNode {
    pub(crate) node: RaftNode,
    pub(crate) options: Options,
    transport: Arc<dyn Transport>,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl RunningNode {
    /// Starts a node at an address that was bound before.
    pub(crate) async fn start(
        options: Options,
        listener: TcpListener,
    ) -> Result<RunningNode, Error> {
        RunningNode::start_in(options, listener, Arc::new(TcpTransport)).await
    }

    /// Starts a node that reaches the others through `transport`.
    pub(crate) async fn start_in(
        options: Options,
        listener: TcpListener,
        transport: Arc<dyn Transport>,
    ) -> Result<RunningNode, Error> {
        let node = RaftNode::open(options.clone(), transport.clone()).await?;
        let stop = CancellationToken::new();
        let layer = InterceptorLayer::new(without_tls);
        let mut server = tonic::transport::Server::builder().layer(layer);
        let router = server.add_service(node.service());
        let stopped = stop.clone();
        let server = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            // If a server ends early, a test gets no answer.
            let _ = router
                .serve_with_incoming_shutdown(incoming, stopped.cancelled())
                .await;
        });
        Ok(RunningNode {
            node,
            options,
            transport,
            stop,
            server,
        })
    }

    /// Starts it again on the same directory and address.
    pub(crate) async fn restart(options: Options) -> Result<RunningNode, Error> {
        RunningNode::restart_in(options, Arc::new(TcpTransport)).await
    }

    /// Starts it again, with its options changed by `tune`.
    pub(crate) async fn restart_with(self, tune: impl FnOnce(&mut Options)) -> RunningNode {
        let transport = self.transport.clone();
        let mut options = self.kill().await;
        tune(&mut options);
        RunningNode::restart_in(options, transport)
            .await
            .expect("restart")
    }

    /// Starts it again on the same directory and address, with this transport.
    pub(crate) async fn restart_in(
        options: Options,
        transport: Arc<dyn Transport>,
    ) -> Result<RunningNode, Error> {
        wait_until_unlocked(&options.data_dir).await;
        let address: SocketAddr = options.address.parse().expect("address");
        let deadline = Instant::now() + TEST_TIMEOUT;
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(e) => assert!(Instant::now() < deadline, "{address}: {e}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        RunningNode::start_in(options, listener, transport).await
    }

    /// Stops it at once: connections are cut, and no leadership is handed over.
    pub(crate) async fn kill(self) -> Options {
        self.stop.cancel();
        self.server.abort();
        let _ = self.server.await;
        self.node.shutdown().await;
        self.options
    }

    pub(crate) fn member(&self) -> GroupMember {
        let identity = self.node.identity();
        GroupMember {
            id: identity.node,
            address: self.options.address.clone(),
            incarnation: identity.incarnation,
            is_voter: true,
        }
    }

    pub(crate) fn is_ready_leader(&self) -> bool {
        let seen = self.node.leadership().borrow().clone();
        seen.role == RaftRole::Leader && seen.ready_term == Some(seen.term)
    }
}

/// Returns a free loopback address, bound.
pub(crate) async fn bind_loopback() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address").to_string();
    (listener, address)
}

/// Starts a node in `dir/ID`, with options changed by `tune`.
pub(crate) async fn start_node(
    dir: &Path,
    id: u64,
    tune: impl FnOnce(&mut Options),
) -> RunningNode {
    let (listener, address) = bind_loopback().await;
    let mut options = Options::new(id, address, dir.join(id.to_string()));
    tune(&mut options);
    RunningNode::start(options, listener).await.expect("start")
}

/// Starts `count` nodes and makes them into a cluster.
pub(crate) async fn start_cluster(
    dir: &Path,
    count: u64,
    tune: impl Fn(&mut Options),
) -> Vec<RunningNode> {
    start_cluster_with_slots(dir, count, SLOTS, tune).await
}

/// Starts `count` nodes and makes them into a cluster with this number of slots.
pub(crate) async fn start_cluster_with_slots(
    dir: &Path,
    count: u64,
    slots: u32,
    tune: impl Fn(&mut Options),
) -> Vec<RunningNode> {
    let mut nodes = Vec::new();
    for id in 1..=count {
        nodes.push(start_node(dir, id, &tune).await);
    }
    let members = nodes.iter().map(RunningNode::member).collect();
    let made = nodes[0]
        .node
        .create_cluster(members, CLUSTER, LEASE_MS, slots)
        .await;
    made.expect("init");
    nodes
}

/// Waits until all nodes of a new cluster have applied the entry that raises the format level: the
/// leader proposes it at any moment of the first half second, between the entries of a test.
pub(crate) async fn wait_for_level(nodes: &[RunningNode]) {
    let common = nodes.iter().map(|n| n.node.level_max()).min();
    wait_until("the format level", || {
        let levels = nodes.iter().map(|n| n.node.with_state(State::format_level));
        levels.min() == common
    })
    .await;
}

/// Polls until `check` holds.
pub(crate) async fn wait_until(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !check() {
        assert!(Instant::now() < deadline, "waited too long: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a directory that no node has is free: a child that another test starts holds this
/// process's files, locks included, until it runs its own program.
pub(crate) async fn wait_until_unlocked(data_dir: &Path) {
    let lock = data_dir.join("lock");
    wait_until("no process holds the directory", || {
        std::fs::File::open(&lock).map_or(true, |file| {
            let free = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
            // Unlocked explicitly: after a mere close such a child would still hold it.
            free && flock(&file, FlockOperation::Unlock).is_ok()
        })
    })
    .await;
}

/// Returns the index of the ready leader.
pub(crate) async fn leader(nodes: &[RunningNode]) -> usize {
    let mut found = 0;
    wait_until("a leader", || {
        match nodes.iter().position(RunningNode::is_ready_leader) {
            Some(i) => {
                found = i;
                true
            }
            None => false,
        }
    })
    .await;
    found
}

/// Returns a command that adds a session named `name`.
pub(crate) fn session_batch(name: &str) -> Batch {
    Batch {
        commands: vec![Command::OpenSession(OpenSession {
            name: name.to_owned(),
            address: String::from("127.0.0.1:1"),
            incarnation: 1,
            nonce: Nonce(u128::from(name_hash(name))),
            proof: None,
        })],
    }
}

fn name_hash(name: &str) -> u64 {
    name.bytes()
        .fold(7u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)))
}

/// Proposes at the current leader, until the command is applied.
pub(crate) async fn write_session(nodes: &[RunningNode], name: &str) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        assert!(Instant::now() < deadline, "waited too long to write {name}");
        let at = leader(nodes).await;
        let wait = Duration::from_secs(3);
        match tokio::time::timeout(wait, nodes[at].node.propose(session_batch(name))).await {
            Ok(Ok(replies)) => {
                assert!(matches!(replies[..], [Reply::Session(_)]), "{replies:?}");
                return;
            }
            Ok(Err(ProposeError::NotLeader { .. } | ProposeError::Uncertain)) | Err(_) => {}
            Ok(Err(other)) => panic!("{other}"),
        }
    }
}

/// Waits until every node has the same state, with a session under each name.
pub(crate) async fn wait_until_equal<'a>(
    nodes: &[RunningNode],
    names: impl Iterator<Item = &'a str> + Clone,
) {
    let states = || nodes.iter().map(|n| n.node.with_state(State::clone));
    wait_until("equal states", || {
        let first = nodes[0].node.with_state(State::clone);
        names.clone().all(|n| first.find_session(n).is_some()) && states().all(|s| s == first)
    })
    .await;
}

/// Marks a call as one of a connection without TLS, as the listener of a store does.
fn without_tls(mut call: Request<()>) -> Result<Request<()>, Status> {
    let peer = ConnectionPeer::plaintext(([127, 0, 0, 1], 1).into());
    call.extensions_mut().insert(ConnectionQuota::new(peer));
    Ok(call)
}
