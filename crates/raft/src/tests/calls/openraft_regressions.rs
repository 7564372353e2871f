//! Bugs that openraft fixed in 2026, each as the schedule that showed it, against a node of ours
//! and a leader played by the test. The numbers are those of its issues.
//!
//! - 1808: a snapshot over an uncommitted membership left that membership in effect, so that two
//!   disjoint quorums were possible;
//! - 1810: a call that hangs froze the leader when the follower was removed: `tests/it`
//!   `hung_member.rs`;
//! - 1816 (alpha.28): late acknowledgements counted after a follower's log went back. Our use does
//!   not reach it: `allow_next_revert` is never called and the feature that allows it always is
//!   off, and a node whose log went back stops before openraft answers (`ack_tracker.rs`;
//!   `tests/it` `older_copies.rs`, `swapped_dirs.rs`);
//! - alpha.29 to alpha.37: completions out of order, and snapshots that conflict with what is
//!   there.

use openraft::StoredMembership;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;

use crate::tests::calls::scripted_leader::{ScriptedLeader, TEST_TIMEOUT};
use crate::tests::*;
use crate::types::{SnapshotMeta, TypeConfig, Vote};

fn membership_entry(log_id: LogId, voters: impl IntoIterator<Item = u64>) -> Entry {
    Entry {
        log_id,
        payload: EntryPayload::Membership(membership(voters)),
    }
}

fn empty_entry(term: u64, index: u64) -> Entry {
    entry(term, index, vec![])
}

/// Issue 1808: node 1 has entry 5 of term 1, which makes it a voter and is not committed. The
/// leader of term 2 never had it and sends a snapshot up to its own entry 8, whose membership is of
/// entry 0.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uncommitted_membership_covered_by_snapshot_is_dropped() {
    let stage = ScriptedLeader::new().await;
    let mut first: Vec<Entry> = vec![membership_entry(log_id(1, 0), [2, 3])];
    first.extend((1..5).map(|index| empty_entry(1, index)));
    stage.append(1, None, first, log_id(1, 4)).await;
    stage.wait_for_voters(&[2, 3]).await;
    let joint = vec![membership_entry(log_id(1, 5), [1, 2, 3])];
    stage
        .append(1, Some(log_id(1, 4)), joint, log_id(1, 4))
        .await;
    stage.wait_for_voters(&[1, 2, 3]).await;
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(2, 8)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership([2, 3])),
    };
    assert_eq!(
        stage.send_snapshot(2, meta).await,
        Vote::new_committed(2, 2)
    );
    stage.wait_for_voters(&[2, 3]).await;
    assert_eq!(*stage.follower.watch_failure().borrow(), None);
    stage.follower.shutdown().await;
}

/// A snapshot older than the committed entries here comes late: nothing moves back or is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_snapshot_below_committed_entries_changes_nothing() {
    let stage = ScriptedLeader::new().await;
    let mut first: Vec<Entry> = vec![membership_entry(log_id(1, 0), [2, 3])];
    first.extend((1..10).map(|index| empty_entry(1, index)));
    stage.append(1, None, first, log_id(1, 9)).await;
    let mut progress = stage.follower.watch_applied();
    let applied = progress.wait_for(|p| p.index == 9);
    tokio::time::timeout(TEST_TIMEOUT, applied)
        .await
        .unwrap()
        .unwrap();
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(1, 3)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership([2, 3])),
    };
    assert_eq!(
        stage.send_snapshot(1, meta).await,
        Vote::new_committed(1, 2)
    );
    // Entries behind entry 9 find it there.
    let next = vec![empty_entry(1, 10)];
    stage
        .append(1, Some(log_id(1, 9)), next, log_id(1, 10))
        .await;
    let applied = progress.wait_for(|p| p.index != 9);
    let applied = tokio::time::timeout(TEST_TIMEOUT, applied)
        .await
        .unwrap()
        .unwrap()
        .index;
    assert_eq!(applied, 10);
    assert_eq!(stage.follower.counters().snapshots_installed, 0);
    assert_eq!(*stage.follower.watch_failure().borrow(), None);
    stage.follower.shutdown().await;
}

/// Completions of the log come in the order of its writes, with any other writes in between: when
/// one is complete, each earlier one is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_writes_complete_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
    options.log_file_bytes = 2_000;
    let mut log = open_storage(&options).unwrap().log;
    let mut next = 0;
    for round in 0..20 {
        let mut waiting = Vec::new();
        for _ in 0..10 {
            let (tx, rx) = TypeConfig::oneshot();
            let entries: Vec<Entry> = (next..next + 3)
                .map(|index| empty_entry(1, index))
                .collect();
            next += 3;
            log.append(entries, IOFlushed::signal(tx)).await.unwrap();
            waiting.push(rx);
        }
        // A vote, a purge and a truncation are durable only after what was written before them.
        match round % 4 {
            0 => log.save_vote(&Vote::new(2 + round, 1)).await.unwrap(),
            1 => log.purge(log_id(1, next - 40)).await.unwrap(),
            2 => {
                next -= 5;
                log.truncate_after(Some(log_id(1, next - 1))).await.unwrap();
            }
            _ => waiting.pop().unwrap().await.unwrap().unwrap(),
        }
        for flushed in &mut waiting {
            let completed = flushed.try_recv();
            assert!(matches!(completed, Ok(Ok(()))), "{completed:?}");
        }
    }
}
