//! A node of ours as a follower, and a leader that the test plays.

use std::time::Duration;

use openraft::RaftNetworkV2;
use openraft::network::RPCOption;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::storage::RaftLogReader;
use seqsvr_core::ids::ClusterId;
use seqsvr_core::state::State;
use seqsvr_net::{ConnectionPeer, ConnectionQuota, TcpTransport};
use seqsvr_proto::v1::RaftHeader;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::InterceptorLayer;
use tonic::{Request, Status};

use crate::node::RaftNode;
use crate::rpc::identity_check::IdentityCheck;
use crate::rpc::lag_bound::LagBound;
use crate::rpc::peer_network::PeerNetwork;
use crate::state::snapshot;
use crate::state::snapshot::Snapshot;
use crate::state::snapshot_turns::SnapshotTurns;
use crate::storage::identity::NodeIdentity;
use crate::tests::*;
use crate::types::{SnapshotMeta, Vote};

pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A node of ours, node 1, and the storage and network of the leader that the test plays.
pub(crate) struct ScriptedLeader {
    pub(crate) follower: RaftNode,
    leader: Storage,
    pub(crate) network: PeerNetwork,
    pub(crate) peer: Peer,
    _dir: tempfile::TempDir,
}

impl ScriptedLeader {
    pub(crate) async fn new() -> ScriptedLeader {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let options = Options::new(1, &address, dir.path().join("1"));
        let follower = RaftNode::open(options, Arc::new(TcpTransport))
            .await
            .unwrap();
        let layer = InterceptorLayer::new(without_tls);
        let mut server = tonic::transport::Server::builder().layer(layer);
        let router = server.add_service(follower.service());
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        let options = Options::new(2, "127.0.0.1:1", dir.path().join("2"));
        let leader = open_storage(&options).unwrap();
        let identity = NodeIdentity {
            cluster: Some(ClusterId(7)),
            ..leader.identity
        };
        let identity_check = IdentityCheck::new(
            identity,
            leader.directory.clone(),
            leader.log.clone(),
            leader.machine.shared_state(),
            1,
        );
        let network = PeerNetwork::new(
            Arc::new(identity_check),
            Arc::new(TcpTransport),
            LagBound::new(&options, Arc::default()),
            SnapshotTurns::default(),
        );
        let peer = Peer {
            address,
            incarnation: follower.identity().incarnation,
        };
        ScriptedLeader {
            follower,
            leader,
            network,
            peer,
            _dir: dir,
        }
    }

    /// Stores the vote as a leader does before it sends anything. Without it an answer that carries
    /// the vote would prove that another process has the leader's id.
    pub(crate) async fn save_vote(&self, term: u64) -> Vote {
        let vote = Vote::new_committed(term, 2);
        let mut log = self.leader.log.clone();
        if log.read_vote().await.unwrap() < Some(vote) {
            log.save_vote(&vote).await.unwrap();
        }
        vote
    }

    /// Sends entries, which the node must accept.
    pub(crate) async fn append(
        &self,
        term: u64,
        prev: Option<LogId>,
        entries: Vec<Entry>,
        commit: LogId,
    ) {
        let request = AppendEntriesRequest {
            vote: self.save_vote(term).await,
            prev_log_id: prev,
            entries,
            leader_commit: Some(commit),
        };
        let mut connection = self.network.connect(1, &self.peer);
        let answer = connection.append_entries(request, RPCOption::new(TEST_TIMEOUT));
        assert_eq!(answer.await.unwrap(), AppendEntriesResponse::Success);
    }

    /// Writes a snapshot without a row.
    pub(crate) fn write_empty_snapshot(&self, meta: SnapshotMeta) -> Snapshot {
        let written =
            snapshot::write_snapshot(&self.leader.directory, &meta, &State::default()).unwrap();
        Snapshot {
            meta,
            snapshot: written,
        }
    }

    /// Sends a snapshot without a row; returns the vote that the node answers with.
    pub(crate) async fn send_snapshot(&self, term: u64, meta: SnapshotMeta) -> Vote {
        self.send_changed(term, meta, |_| ()).await
    }

    /// Sends a snapshot whose file was changed by `change`.
    pub(crate) async fn send_changed(
        &self,
        term: u64,
        meta: SnapshotMeta,
        change: impl Fn(&std::path::Path),
    ) -> Vote {
        let snapshot = self.write_empty_snapshot(meta);
        change(&snapshot.snapshot.path);
        let vote = self.save_vote(term).await;
        let mut connection = self.network.connect(1, &self.peer);
        let never = std::future::pending();
        let answer = connection.full_snapshot(vote, snapshot, never, RPCOption::new(TEST_TIMEOUT));
        answer.await.unwrap().vote
    }

    /// Waits until the follower's membership has these voters; metrics lag behind an answer.
    pub(crate) async fn wait_for_voters(&self, expected: &[u64]) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let members = self.follower.members();
            let voters: Vec<u64> = members
                .iter()
                .filter(|m| m.is_voter)
                .map(|m| m.id)
                .collect();
            if voters == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{voters:?}, not {expected:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns the header of a call to the follower.
    pub(crate) fn call_header(&self, cluster: ClusterId) -> RaftHeader {
        RaftHeader {
            cluster: cluster.0.to_be_bytes().to_vec().into(),
            target: 1,
            target_incarnation: self.peer.incarnation,
            sender: 2,
            ..RaftHeader::default()
        }
    }
}

/// Marks a call as one of a connection without TLS, as the listener of a store does.
fn without_tls(mut call: Request<()>) -> Result<Request<()>, Status> {
    let peer = ConnectionPeer::plaintext(([127, 0, 0, 1], 1).into());
    call.extensions_mut().insert(ConnectionQuota::new(peer));
    Ok(call)
}
