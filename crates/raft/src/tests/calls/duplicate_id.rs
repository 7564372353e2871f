//! Two processes of one id that campaign for the same term at the same moment, played by the test.

use std::sync::Arc;
use std::time::Duration;

use openraft::RaftNetworkV2;
use openraft::network::RPCOption;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest};
use seqsvr_core::ids::ClusterId;
use seqsvr_net::TcpTransport;

use crate::rpc::identity_check::IdentityCheck;
use crate::rpc::lag_bound::LagBound;
use crate::rpc::peer_client::PeerClient;
use crate::rpc::peer_network::PeerNetwork;
use crate::state::snapshot_turns::SnapshotTurns;
use crate::storage::identity::NodeIdentity;
use crate::tests::running_node::{RunningNode, bind_loopback};
use crate::tests::*;
use crate::types::{TypeConfig, Vote};

const TERM: u64 = 6;

fn rpc_option() -> RPCOption {
    RPCOption::new(Duration::from_secs(10))
}

fn heartbeat() -> AppendEntriesRequest<TypeConfig> {
    AppendEntriesRequest {
        vote: Vote::new_committed(TERM, 2),
        prev_log_id: None,
        entries: Vec::new(),
        leader_commit: None,
    }
}

async fn request_vote(to: &mut PeerClient) -> Option<bool> {
    let request = VoteRequest::<TypeConfig>::new(Vote::new(TERM, 2), None);
    let answer = to.vote(request, rpc_option()).await;
    answer.ok().map(|answer| answer.vote_granted)
}

/// Schedule B of finding B1, at its worst moment: store 2 and its clone both request the vote of
/// term 6 from store 1. openraft grants an equal vote again, and both would lead term 6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_vote_is_granted_to_one_process_only() {
    let dir = tempfile::tempdir().unwrap();
    let (listener, address) = bind_loopback().await;
    let options = Options::new(1, address, dir.path().join("1"));
    let voter = RunningNode::start(options, listener).await.unwrap();
    let mut storage = open_storage(&Options::new(2, "127.0.0.1:1", dir.path().join("2"))).unwrap();
    let identity = NodeIdentity {
        cluster: Some(ClusterId(7)),
        ..storage.identity
    };
    let saved = Vote::new_committed(TERM, 2);
    storage.log.save_vote(&saved).await.unwrap();
    let process = || {
        let (directory, log) = (storage.directory.clone(), storage.log.clone());
        let shared = storage.machine.shared_state();
        Arc::new(IdentityCheck::new(identity, directory, log, shared, 2))
    };
    let peer = Peer {
        address: voter.options.address.clone(),
        incarnation: voter.node.identity().incarnation,
    };
    let lag = LagBound::new(&voter.options, Arc::default());
    let connect = |identity_check: &Arc<IdentityCheck>| {
        let lag = lag.clone();
        let (identity_check, transport) = (identity_check.clone(), Arc::new(TcpTransport));
        PeerNetwork::new(identity_check, transport, lag, SnapshotTurns::default()).connect(1, &peer)
    };
    let (original, clone) = (process(), process());
    assert_eq!(request_vote(&mut connect(&original)).await, Some(true));
    assert_eq!(request_vote(&mut connect(&clone)).await, None);
    let line = clone.watch_stop_reason().borrow().clone().unwrap();
    assert!(line.contains("another process has this id"), "{line}");
    let mut leader = connect(&original);
    let answer = leader
        .append_entries(heartbeat(), rpc_option())
        .await
        .unwrap();
    assert_eq!(answer, AppendEntriesResponse::Success);

    // After its own restart the voter does not have the process that it granted the vote to. It
    // grants the vote to no process again, and follows the first process that leads.
    let voter = RunningNode::restart(voter.kill().await).await.unwrap();
    let late = process();
    assert_eq!(request_vote(&mut connect(&late)).await, None);
    assert_eq!(*late.watch_stop_reason().borrow(), None);
    let answer = connect(&original)
        .append_entries(heartbeat(), rpc_option())
        .await;
    assert_eq!(answer.unwrap(), AppendEntriesResponse::Success);
    let other = connect(&late)
        .append_entries(heartbeat(), rpc_option())
        .await;
    assert!(other.is_err(), "{other:?}");
    assert!(late.watch_stop_reason().borrow().is_some());
    assert_eq!(*original.watch_stop_reason().borrow(), None);
    voter.kill().await;
}
