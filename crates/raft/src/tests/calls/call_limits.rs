//! Limits in bytes or in time of calls to other nodes, and the effect of a rejected snapshot.

use std::time::{Duration, Instant};

use openraft::network::RPCOption;
use openraft::raft::VoteRequest;
use openraft::storage::RaftLogReader;
use openraft::{RaftNetworkV2, StoredMembership};
use seqsvr_core::ids::{ClusterId, SessionId};
use seqsvr_proto::v1::RaftRequest;
use seqsvr_proto::v1::raft_client::RaftClient;
use tokio::net::TcpListener;

use crate::limits::{APPEND_BYTES_MAX, BATCH_BYTES_MAX};
use crate::record;
use crate::tests::calls::scripted_leader::{ScriptedLeader, TEST_TIMEOUT};
use crate::tests::power::sync_failure::append_entry_durably;
use crate::tests::*;
use crate::types::{SnapshotMeta, TypeConfig, Vote};

/// Makes an entry of about 60 KiB, as much as the proposer puts into one.
fn long_entry(index: u64) -> Entry {
    let command = |i| Command::ExpireSession {
        session: SessionId(u64::MAX - i),
        term: u64::MAX - i,
    };
    entry(1, index, (0..3_000).map(command).collect())
}

#[tokio::test]
async fn append_call_is_bounded_by_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
    let mut log = open_storage(&options).unwrap().log;
    for index in 0..20 {
        append_entry_durably(&mut log, long_entry(index))
            .await
            .unwrap();
    }
    let bytes = |entries: &[Entry]| -> usize {
        entries
            .iter()
            .map(|e| record::encoded_len(&e.payload))
            .sum()
    };
    let mut next = 0;
    let mut calls = 0;
    while next < 20 {
        let part = log.limited_get_log_entries(next, 20).await.unwrap();
        assert!(!part.is_empty());
        assert!(bytes(&part) < APPEND_BYTES_MAX + BATCH_BYTES_MAX);
        next += part.len() as u64;
        calls += 1;
    }
    assert!((3..10).contains(&calls), "{calls} calls");
    // Short entries come all at once.
    for index in 20..84 {
        append_entry_durably(&mut log, entry(1, index, vec![]))
            .await
            .unwrap();
    }
    let part = log.limited_get_log_entries(20, 84).await.unwrap();
    assert_eq!(part.len(), 64);
}

/// openraft gives up a vote after its limit, the voter's fdatasync included; our calls do not give
/// up earlier.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vote_call_waits_as_long_as_openraft() {
    let stage = ScriptedLeader::new().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = Peer {
        address: silent.local_addr().unwrap().to_string(),
        incarnation: 1,
    };
    let limit = Duration::from_millis(400);
    let mut connection = stage.network.connect(3, &peer);
    let begun = Instant::now();
    let request = VoteRequest::new(Vote::new(9, 2), None);
    let answer = connection.vote(request, RPCOption::new(limit)).await;
    answer.expect_err("nothing answers");
    assert!(begun.elapsed() >= limit, "{:?}", begun.elapsed());
    stage.follower.shutdown().await;
}

/// Schedule: the leader of term 4, deposed, sends a snapshot up to entry 100, which is rejected.
/// The leader of term 5 knows that this node acknowledged entry 50, and its log ends at entry 3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_snapshot_does_not_hide_log_loss() {
    let stage = ScriptedLeader::new().await;
    let first = (0..4).map(|index| entry(5, index, vec![])).collect();
    stage.append(5, None, first, log_id(5, 0)).await;
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(4, 100)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership([2, 3])),
    };
    let answer = stage.send_snapshot(4, meta).await;
    assert_eq!(answer, Vote::new_committed(5, 2), "it is refused");

    let heartbeat: openraft::raft::AppendEntriesRequest<TypeConfig> =
        openraft::raft::AppendEntriesRequest {
            vote: Vote::new_committed(5, 2),
            prev_log_id: None,
            entries: Vec::new(),
            leader_commit: None,
        };
    let channel = stage.follower.new_channel(&stage.peer.address).unwrap();
    let request = RaftRequest {
        header: Some(stage.call_header(ClusterId(7))),
        body: record::encode(&heartbeat).unwrap().into(),
        acked_end_index: 51,
        checkpoint: None,
    };
    let answer = RaftClient::new(channel).append(request).await;
    let refusal = answer.expect_err("the loss is found");
    assert!(refusal.message().contains("entry 50"), "{refusal}");
    let mut failed = stage.follower.watch_failure();
    let failed = failed.wait_for(Option::is_some);
    tokio::time::timeout(TEST_TIMEOUT, failed)
        .await
        .unwrap()
        .unwrap();
    stage.follower.shutdown().await;
}
