//! Nodes that are found to have lost what they acknowledged, and nodes that are not.

use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::storage::{IOFlushed, RaftLogStorage};

use crate::log::LogExtent;
use crate::options::Options;
use crate::rpc::ack_tracker::{AckTracker, find_log_loss};
use crate::tests::{entry, log_id, open_storage};
use crate::types::{LogId, TypeConfig, Vote};

/// Each case: the saved vote, the end of the log, the end that the leader of term 5 says was
/// acknowledged to it, and the loss found.
#[test]
fn log_loss_counts_only_entries_acknowledged_to_the_sender() {
    let vote = Vote::new_committed(5, 2);
    let (entry, of_term_5) = (Some("entry 99"), Some("the vote of term 5"));
    let same = Some(vote);
    for (saved, end, acknowledged, expected) in [
        // Its own vote: the log is a prefix of the sender's.
        (same, 0, 0, None),
        (same, 99, 0, None),
        (same, 100, 100, None),
        (same, 101, 100, None),
        (same, 99, 100, entry),
        (same, 0, 100, entry),
        // No vote, an older one, and the sender's before it was elected. Each proves that the vote
        // of term 5 is gone, and with it, mostly, entries.
        (None, 0, 0, None),
        (None, 0, 100, entry),
        (None, 100, 100, of_term_5),
        (Some(Vote::new_committed(4, 1)), 200, 0, None),
        (Some(Vote::new_committed(4, 1)), 99, 100, entry),
        (Some(Vote::new_committed(4, 1)), 200, 100, of_term_5),
        (Some(Vote::new(4, 3)), 99, 100, entry),
        (Some(Vote::new(5, 2)), 100, 0, None),
        (Some(Vote::new(5, 2)), 99, 100, entry),
        (Some(Vote::new(5, 2)), 100, 100, of_term_5),
        // A node that lost that election, and requested votes in it.
        (Some(Vote::new(5, 3)), 99, 100, entry),
        // A newer one: the sender is deposed, and another leader may have truncated.
        (Some(Vote::new(6, 1)), 0, 100, None),
        (Some(Vote::new(6, 1)), 99, 100, None),
        (Some(Vote::new_committed(6, 1)), 99, 100, None),
        (Some(Vote::new_committed(6, 2)), 200, 100, None),
    ] {
        let extent = LogExtent { vote: saved, end };
        let found = find_log_loss(&extent, &vote, acknowledged);
        let case = format!("saved {saved:?}, end {end}, acknowledged {acknowledged}");
        assert_eq!(found.as_deref(), expected, "{case}");
    }
}

fn append(
    vote: Vote,
    prev: Option<LogId>,
    entries: &[(u64, u64)],
) -> AppendEntriesRequest<TypeConfig> {
    let entries = entries
        .iter()
        .map(|(term, index)| entry(*term, *index, vec![]));
    AppendEntriesRequest {
        vote,
        prev_log_id: prev,
        entries: entries.collect(),
        leader_commit: None,
    }
}

#[test]
fn ack_tracker_keeps_highest_end_of_newest_vote() {
    use AppendEntriesResponse::{Conflict, HigherVote, PartialSuccess, Success};
    let (first, second) = (Vote::new_committed(5, 2), Vote::new_committed(7, 2));
    let (peer, other) = ((1, 0xa), (1, 0xb));
    let known = AckTracker::default();
    assert_eq!(known.acknowledged_end(peer, &first), 0);
    let at = |index| Some(log_id(4, index));
    for (request, answer, end) in [
        (append(first, None, &[]), Success, 0),
        (append(first, at(9), &[]), Conflict, 0),
        (append(first, at(5), &[]), Success, 6),
        (append(first, at(5), &[(4, 6), (5, 7)]), Success, 8),
        (append(first, at(5), &[(4, 6)]), Success, 8),
        (
            append(first, at(6), &[(5, 7), (5, 8), (5, 9)]),
            PartialSuccess(at(8)),
            9,
        ),
        (append(first, at(20), &[(5, 21)]), PartialSuccess(None), 9),
        (append(first, at(20), &[(5, 21)]), Conflict, 9),
        (append(first, at(20), &[(5, 21)]), HigherVote(second), 9),
    ] {
        known.record_answer(peer, &request, &answer);
        assert_eq!(
            known.acknowledged_end(peer, &first),
            end,
            "{request:?} {answer:?}"
        );
    }
    // Of a vote, of a directory.
    assert_eq!(
        (
            known.acknowledged_end(peer, &second),
            known.acknowledged_end(other, &first)
        ),
        (0, 0)
    );
    known.record_answer(peer, &append(second, at(3), &[]), &Success);
    assert_eq!(
        (
            known.acknowledged_end(peer, &second),
            known.acknowledged_end(peer, &first)
        ),
        (4, 0)
    );
    // Late answers, of the time before.
    known.record_answer(peer, &append(first, at(30), &[]), &Success);
    assert_eq!(
        (
            known.acknowledged_end(peer, &second),
            known.acknowledged_end(peer, &first)
        ),
        (4, 0)
    );
}

/// An entry counts from its append on. An entry that was purged or came in a snapshot still counts;
/// a truncated one does not.
#[tokio::test]
async fn log_extent_follows_each_write_and_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(1, "127.0.0.1:1", dir.path());
    let mut log = open_storage(&options).unwrap().log;
    let inner = log.downgrade().upgrade().unwrap();
    let extent = || (inner.extent().vote, inner.extent().end);
    assert_eq!(extent(), (None, 0));
    let vote = Vote::new_committed(5, 2);
    log.save_vote(&vote).await.unwrap();
    let entries = (0..10).map(|index| entry(5, index, vec![]));
    log.append(entries, IOFlushed::noop()).await.unwrap();
    assert_eq!(extent(), (Some(vote), 10));
    log.truncate_after(Some(log_id(5, 7))).await.unwrap();
    assert_eq!(extent(), (Some(vote), 8));
    log.purge(log_id(5, 7)).await.unwrap();
    assert_eq!(extent(), (Some(vote), 8));
    inner.offer_snapshot(Some(log_id(5, 90)));
    assert_eq!(extent(), (Some(vote), 91));
    inner.settle_snapshot(false);
    assert_eq!(extent(), (Some(vote), 8));
    inner.offer_snapshot(Some(log_id(5, 19)));
    inner.settle_snapshot(true);
    assert_eq!(extent(), (Some(vote), 20));
    inner.offer_snapshot(None);
    inner.settle_snapshot(true);
    log.purge(log_id(5, 19)).await.unwrap();
    assert_eq!(extent(), (Some(vote), 20));
}
