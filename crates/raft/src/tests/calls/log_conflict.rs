//! Installs a snapshot over entries in conflict with it, from a leader that the test plays.

use std::time::Duration;

use openraft::network::RPCOption;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::{RaftNetworkV2, StoredMembership};
use tokio::task::JoinSet;

use crate::tests::calls::scripted_leader::{ScriptedLeader, TEST_TIMEOUT};
use crate::tests::{entry, log_id, membership};
use crate::types::{LogId, SnapshotMeta, TypeConfig, Vote};

fn append(vote: Vote, prev: Option<LogId>) -> AppendEntriesRequest<TypeConfig> {
    AppendEntriesRequest {
        vote,
        prev_log_id: prev,
        entries: Vec::new(),
        leader_commit: None,
    }
}

/// Schedule: a follower has entries 0 to 9 of term 1 and answers the leader of term 2 that it has
/// entry 3 as well; that leader sends it a snapshot up to entry 8 of term 2. Before openraft
/// installs it, it truncates all that is not known to be committed here, entry 3 too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_over_conflict_is_not_a_log_loss() {
    let stage = ScriptedLeader::new().await;
    let (network, peer) = (&stage.network, &stage.peer);
    let wait = || RPCOption::new(TEST_TIMEOUT);

    let mut stream = network.connect(1, peer);
    let mut first = append(Vote::new_committed(1, 3), None);
    first.entries = (0..10).map(|index| entry(1, index, vec![])).collect();
    let answer = stream.append_entries(first, wait()).await.unwrap();
    assert_eq!(answer, AppendEntriesResponse::Success);
    let vote = stage.save_vote(2).await;
    let heartbeat = append(vote, Some(log_id(1, 3)));
    let answer = stream.append_entries(heartbeat.clone(), wait()).await;
    assert_eq!(answer.unwrap(), AppendEntriesResponse::Success);

    let meta = SnapshotMeta {
        last_log_id: Some(log_id(2, 8)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership([1, 2, 3])),
    };
    let snapshot = stage.write_empty_snapshot(meta);
    let never = std::future::pending();
    let install =
        tokio::spawn(async move { stream.full_snapshot(vote, snapshot, never, wait()).await });
    // Heartbeats during the whole install: those that openraft has taken wait for its end, so each
    // is a call of its own.
    let mut heartbeats = JoinSet::new();
    let mut pace = tokio::time::interval(Duration::from_micros(500));
    while !install.is_finished() {
        let (mut connection, heartbeat) = (network.connect(1, peer), heartbeat.clone());
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
    assert_eq!(stage.follower.counters().snapshots_installed, 1);
    let last = append(vote, Some(log_id(2, 8)));
    let answer = network.connect(1, peer).append_entries(last, wait()).await;
    assert_eq!(answer.unwrap(), AppendEntriesResponse::Success);
    assert_eq!(*stage.follower.watch_failure().borrow(), None);
    stage.follower.shutdown().await;
}
