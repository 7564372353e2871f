//! Two processes of one id that campaign for the same term at the same moment, played by the test.

use std::sync::Arc;
use std::time::Duration;

use openraft::RaftNetworkV2;
use openraft::network::RPCOption;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest};
use seqsvr_core::id::ClusterId;
use seqsvr_proto::transport::Tcp;

use super::common::{Running, listen};
use super::*;
use crate::gate::Gate;
use crate::identity::Identity;
use crate::network::{Connection, Network};
use crate::types::{TypeConfig, Vote};

const TERM: u64 = 6;

fn wait() -> RPCOption {
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

async fn granted(to: &mut Connection) -> Option<bool> {
    let request = VoteRequest::<TypeConfig>::new(Vote::new(TERM, 2), None);
    let answer = to.vote(request, wait()).await;
    answer.ok().map(|answer| answer.vote_granted)
}

/// Schedule B of finding B1, at its worst moment: store 2 and its clone both request the vote of
/// term 6 from store 1. openraft grants an equal vote again, and both would lead term 6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_gets_a_vote() {
    let dir = tempfile::tempdir().unwrap();
    let (listener, address) = listen().await;
    let options = Options::new(1, address, dir.path().join("1"));
    let voter = Running::start(options, listener).await.unwrap();
    let mut storage = open_storage(&Options::new(2, "127.0.0.1:1", dir.path().join("2"))).unwrap();
    let identity = Identity {
        cluster: Some(ClusterId(7)),
        ..storage.identity
    };
    let saved = Vote::new_committed(TERM, 2);
    storage.log.save_vote(&saved).await.unwrap();
    let process = || {
        let (directory, log) = (storage.directory.clone(), storage.log.clone());
        let shared = storage.machine.shared();
        Arc::new(Gate::new(identity, directory, log, shared, 2))
    };
    let peer = Peer {
        address: voter.options.address.clone(),
        incarnation: voter.node.identity().incarnation,
    };
    let connect = |gate: &Arc<Gate>| Network::new(gate.clone(), Arc::new(Tcp)).connect(1, &peer);
    let (original, clone) = (process(), process());
    assert_eq!(granted(&mut connect(&original)).await, Some(true));
    assert_eq!(granted(&mut connect(&clone)).await, None);
    let line = clone.ended().borrow().clone().unwrap();
    assert!(line.contains("another process has this id"), "{line}");
    let mut leader = connect(&original);
    let answer = leader.append_entries(heartbeat(), wait()).await.unwrap();
    assert_eq!(answer, AppendEntriesResponse::Success);

    // After its own restart the voter does not have the process that it granted the vote to. It
    // grants the vote to no process again, and follows the first process that leads.
    let voter = Running::restart(voter.kill().await).await.unwrap();
    let late = process();
    assert_eq!(granted(&mut connect(&late)).await, None);
    assert_eq!(*late.ended().borrow(), None);
    let answer = connect(&original).append_entries(heartbeat(), wait()).await;
    assert_eq!(answer.unwrap(), AppendEntriesResponse::Success);
    let other = connect(&late).append_entries(heartbeat(), wait()).await;
    assert!(other.is_err(), "{other:?}");
    assert!(late.ended().borrow().is_some());
    assert_eq!(*original.ended().borrow(), None);
    voter.kill().await;
}
