//! A snapshot that is installed over entries in conflict with it, by a leader played by the test.

use std::sync::Arc;
use std::time::Duration;

use openraft::network::RPCOption;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::storage::RaftLogStorage;
use openraft::{RaftNetworkV2, StoredMembership};
use seqsvr_core::id::ClusterId;
use seqsvr_core::state::State;
use seqsvr_proto::transport::Tcp;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;

use super::{entry, log_id, membership, open_storage};
use crate::gate::Gate;
use crate::identity::Identity;
use crate::machine::Snapshot;
use crate::network::Network;
use crate::node::Node;
use crate::options::Options;
use crate::snapshot;
use crate::types::{LogId, Peer, SnapshotMeta, TypeConfig, Vote};

fn append(vote: Vote, prev: Option<LogId>) -> AppendEntriesRequest<TypeConfig> {
    AppendEntriesRequest {
        vote,
        prev_log_id: prev,
        entries: Vec::new(),
        leader_commit: None,
    }
}

/// Schedule: a follower has entries 0 to 9 of term 1 and tells the leader of term 2 that it has entry
/// 3 as well; that leader sends it a snapshot up to entry 8 of term 2. Before openraft installs it, it
/// truncates all that is not known to be committed here, entry 3 too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_over_a_conflict_accuses_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let options = Options::new(1, &address, dir.path().join("1"));
    let follower = Node::open(options, Arc::new(Tcp)).await.unwrap();
    let router = tonic::transport::Server::builder().add_service(follower.service());
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    let mut leader = open_storage(&Options::new(2, "127.0.0.1:1", dir.path().join("2"))).unwrap();
    let identity = Identity {
        cluster: Some(ClusterId(7)),
        ..leader.identity
    };
    let gate = Gate::new(
        identity,
        leader.directory.clone(),
        leader.log.clone(),
        leader.machine.shared(),
        1,
    );
    let network = Network::new(Arc::new(gate), Arc::new(Tcp));
    let peer = Peer {
        address,
        incarnation: follower.identity().incarnation,
    };
    let wait = || RPCOption::new(Duration::from_secs(30));

    let mut stream = network.connect(1, &peer);
    let mut first = append(Vote::new_committed(1, 3), None);
    first.entries = (0..10).map(|index| entry(1, index, vec![])).collect();
    let answer = stream.append_entries(first, wait()).await.unwrap();
    assert_eq!(answer, AppendEntriesResponse::Success);
    let vote = Vote::new_committed(2, 2);
    // As a leader does before it appends; without it an answer that bears the vote would prove that
    // another process has its id.
    leader.log.save_vote(&vote).await.unwrap();
    let heartbeat = append(vote, Some(log_id(1, 3)));
    let answer = stream.append_entries(heartbeat.clone(), wait()).await;
    assert_eq!(answer.unwrap(), AppendEntriesResponse::Success);

    let meta = SnapshotMeta {
        last_log_id: Some(log_id(2, 8)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership([1, 2, 3])),
    };
    let snapshot = snapshot::write(&leader.directory, &meta, &State::default()).unwrap();
    let snapshot = Snapshot { meta, snapshot };
    let never = std::future::pending();
    let install =
        tokio::spawn(async move { stream.full_snapshot(vote, snapshot, never, wait()).await });
    // Heartbeats all through the time in which it is installed: those that openraft has taken wait for
    // its end, so each is a call of its own.
    let mut heartbeats = JoinSet::new();
    let mut pace = tokio::time::interval(Duration::from_micros(500));
    while !install.is_finished() {
        let (mut connection, heartbeat) = (network.connect(1, &peer), heartbeat.clone());
        heartbeats.spawn(async move { connection.append_entries(heartbeat, wait()).await });
        pace.tick().await;
    }
    let count = heartbeats.len();
    for answer in heartbeats.join_all().await {
        assert_eq!(answer.unwrap(), AppendEntriesResponse::Success);
    }
    println!("{count} heartbeats while a snapshot was installed");
    let installed = install.await.unwrap().unwrap();
    assert_eq!(installed.vote, vote);
    assert_eq!(follower.counters().snapshots_installed, 1);
    let last = append(vote, Some(log_id(2, 8)));
    let answer = network.connect(1, &peer).append_entries(last, wait()).await;
    assert_eq!(answer.unwrap(), AppendEntriesResponse::Success);
    assert_eq!(*follower.failed().borrow(), None);
    follower.shutdown().await;
}
