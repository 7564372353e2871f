//! A log that has lost what it acknowledged, found by the leader that it acknowledged to.
//!
//! Invariant: a node takes part only with a log that holds every entry it acknowledged, and the
//! vote it acknowledged it in. Schedule that breaks it: three voters, entry 900 is acknowledged by
//! nodes 1 and 2, node 1 leads. Node 2's whole directory is replaced with a copy made at entry 500
//! (or its disk lied about its syncs). Nothing in it proves what is missing. Node 1 dies; nodes 2
//! and 3 elect a leader that never saw entry 900. While node 1 lives, its openraft sends node 2 the
//! entries behind entry 900, and receives the answer that 900 is not there. It sends the same
//! entries again at once, without end; a debug build of it panics.
//!
//! So the leader sends with each append what the receiver has acknowledged to it in its vote
//! ([`AckTracker`]). The receiver checks that before openraft does ([`find_log_loss`]). Only that
//! leader has this record: once another leads, the loss is not found.
//!
//! Why no node is accused wrongly, with openraft 0.10.0-alpha.37:
//! - Success means durable: it is answered when all I/O accepted before is flushed
//!   (`openraft:engine_impl.rs`, `handle_append_entries`). The vote of the append is the first of
//!   it (`openraft:vote_handler/mod.rs`, `update_vote`; `openraft:core/raft_core.rs`,
//!   `run_save_vote` awaits it before the next command runs). So a saved vote *below* that of a
//!   leader it has acknowledged to is a loss by itself, independent of the log's content.
//! - Under the leader's own vote the log is a prefix of that leader's, as far as it acknowledged. A
//!   leader never takes entries back: the node truncates only entries that differ from the
//!   leader's.
//! - Under a *higher* vote another leader may have truncated what was acknowledged to this one,
//!   whose calls are late; the node judges nothing. A vote is saved before anything is truncated
//!   for it, both in one log and in that order. So vote and end are read under the log's one lock.
//!   openraft's metrics lag behind both.
//! - There is one exception: before a snapshot is installed over entries in conflict with it,
//!   acknowledged entries are truncated with them (`openraft:following_handler/mod.rs`,
//!   `install_full_snapshot`). So the entries that a snapshot covers count as held from the moment
//!   it came ([`LogExtent::end`]). A node killed between the two has indeed lost them.

use std::cmp::Ordering;
use std::collections::HashMap;

use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use parking_lot::Mutex;

use crate::log::LogExtent;
use crate::types::{PeerId, TypeConfig, Vote};

/// Entries that each node has acknowledged to this one as a leader: the newest vote it did so in,
/// and one past the index of the last entry. All connections to a node share it. Otherwise a
/// heartbeat could be the first call to the node after its return and have less than openraft has
/// from the other connections.
///
/// Answers to snapshots do not count: a node that has the entries already answers before they are
/// durable.
#[derive(Default)]
pub(crate) struct AckTracker(Mutex<HashMap<PeerId, (Vote, u64)>>);

impl AckTracker {
    /// Returns one past the last entry that `peer` is known to have acknowledged in `vote`; 0: none
    /// is known.
    pub(crate) fn acknowledged_end(&self, peer: PeerId, vote: &Vote) -> u64 {
        let known = self.0.lock().get(&peer).copied();
        known.map_or(0, |(v, end)| if v == *vote { end } else { 0 })
    }

    /// Notes an answer, before openraft gets it.
    pub(crate) fn record_answer(
        &self,
        peer: PeerId,
        request: &AppendEntriesRequest<TypeConfig>,
        answer: &AppendEntriesResponse<TypeConfig>,
    ) {
        let last = match answer {
            AppendEntriesResponse::Success => {
                let last = request.entries.last().map(|e| e.log_id);
                last.or(request.prev_log_id)
            }
            AppendEntriesResponse::PartialSuccess(last) => *last,
            AppendEntriesResponse::Conflict | AppendEntriesResponse::HigherVote(_) => None,
        };
        let Some(end) = last.map(|id| id.index + 1) else {
            return;
        };
        let mut known = self.0.lock();
        let known = known.entry(peer).or_insert((request.vote, end));
        match known.0.partial_cmp(&request.vote) {
            Some(Ordering::Less) => *known = (request.vote, end),
            Some(Ordering::Equal) => known.1 = known.1.max(end),
            // A late answer to an earlier leadership of this node.
            _ => {}
        }
    }
}

/// Returns what a log has lost of the entries that its node acknowledged to the leader of `vote`.
/// `acknowledged` is one past the last of them, 0 if none is known.
pub(crate) fn find_log_loss(extent: &LogExtent, vote: &Vote, acknowledged: u64) -> Option<String> {
    let last = acknowledged.checked_sub(1)?;
    let shorter = extent.end < acknowledged;
    match extent.vote.partial_cmp(&Some(*vote))? {
        Ordering::Less | Ordering::Equal if shorter => Some(format!("entry {last}")),
        Ordering::Less => Some(format!("the vote of term {}", vote.leader_id.term)),
        Ordering::Equal | Ordering::Greater => None,
    }
}
