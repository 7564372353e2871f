//! Detects another process that has this node's id.
//!
//! Invariant: one process campaigns, leads and answers as one node. Schedule that breaks Raft
//! without it: the machine of store 3 is cloned while it runs, and the clone starts with the same
//! directory, lock file included. Both have the same id, incarnation, vote and log. The clone wins
//! term t + 1 with the vote of store 1. The heartbeat of the original is answered with the vote
//! (t + 1, 3, committed). openraft finds its own id there, and the original leads term t + 1 as
//! well, with another log. Two leaders share one vote.
//!
//! The proof: a node saves its vote before it requests others' votes, and a committed vote before
//! it appends (openraft 0.10.0-alpha.37, `openraft:core/raft_core.rs`, `run_save_vote` is awaited
//! before the next command runs). So the vote in its own log is at least every vote that it ever
//! requested, also after a restart, and:
//! - a *request* that carries this node's id comes from another process, because no node calls
//!   itself;
//! - an *answer* that carries this node's id, with a vote that is not at or below the saved one,
//!   answers a request of another process. (An answer at or below it may be a late one to this
//!   node.)
//!
//! Two processes may still campaign for the same term at the same moment. A voter that granted the
//! vote to one of them would grant an equal vote to the other as well
//! (`openraft:vote_handler/mod.rs`, `update_vote`). Both would then lead that term. So a process
//! draws a random number at its start and sends it in each call. A receiver lets in one process for
//! each vote ([`VoteOwners`]). A process that is started again never uses a vote that it used
//! before: it campaigns above its saved vote, and does not lead again without an election
//! (`enable_leader_restore` is off). The receiver keeps this in memory only. After its own restart
//! it rejects requests for the vote that it granted before, which costs an election at worst.
//!
//! A directory that was put back from an older copy meets the same proof, because it has lost the
//! votes that it requested. It must end for the same reason.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::types::Vote;

/// Most votes whose processes are kept; those of the lowest terms are evicted first.
const VOTE_OWNERS_MAX: usize = 64;

/// The process that uses each of the newest votes.
#[derive(Default)]
pub(crate) struct VoteOwners(Mutex<BTreeMap<(u64, u64), u64>>);

impl VoteOwners {
    /// Notes the process that uses a vote. Returns whether no other process used it before.
    pub(crate) fn claim(&self, vote: &Vote, process: u64) -> bool {
        let mut owners = self.0.lock();
        let first = *owners.entry(vote_key(vote)).or_insert(process);
        if owners.len() > VOTE_OWNERS_MAX {
            owners.pop_first();
        }
        first == process
    }

    /// Returns whether some process has used this vote.
    pub(crate) fn has_owner(&self, vote: &Vote) -> bool {
        self.0.lock().contains_key(&vote_key(vote))
    }
}

fn vote_key(vote: &Vote) -> (u64, u64) {
    (vote.leader_id.term, vote.leader_id.voted_for)
}

/// Carrier of a vote to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteSource {
    /// A call to this node.
    Request,
    /// An answer to a call of this node.
    Answer,
}

/// A call that carries a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteClaim {
    /// A candidate requests the vote.
    Vote,
    /// The call comes from a leader.
    Leader,
}

/// Returns whether a vote proves that another process has the id of `node`; `saved` is the vote in
/// its log.
pub(crate) fn proves_duplicate(
    node: u64,
    saved: Option<&Vote>,
    seen: &Vote,
    source: VoteSource,
) -> bool {
    if seen.leader_id.voted_for != node {
        return false;
    }
    match (source, saved) {
        (VoteSource::Request, _) | (VoteSource::Answer, None) => true,
        // Not comparable: this node gave its vote of that term to another node, and kept none.
        (VoteSource::Answer, Some(saved)) => !matches!(
            seen.partial_cmp(saved),
            Some(Ordering::Less | Ordering::Equal)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_with_own_id_proves_duplicate_only_if_vote_was_not_requested() {
        let (requested, led) = (Vote::new(5, 3), Vote::new_committed(5, 3));
        let other = Vote::new_committed(5, 1);
        for (saved, seen, proves) in [
            // Votes that this node requested, and those it led with, may return late.
            (requested, requested, false),
            (led, requested, false),
            (led, led, false),
            (Vote::new(6, 1), led, false),
            (other, requested, false),
            // Votes that it did not request.
            (requested, led, true),
            (led, Vote::new(6, 3), true),
            (led, Vote::new_committed(6, 3), true),
            (Vote::new(5, 1), requested, true),
            (other, led, true),
            // Others' votes prove nothing.
            (requested, other, false),
            (requested, Vote::new_committed(9, 1), false),
        ] {
            let found = proves_duplicate(3, Some(&saved), &seen, VoteSource::Answer);
            assert_eq!(found, proves, "{seen} seen, {saved} saved");
        }
        assert!(proves_duplicate(3, None, &requested, VoteSource::Answer));
    }

    #[test]
    fn request_with_own_id_always_proves_duplicate() {
        let saved = Vote::new_committed(9, 3);
        let mine = Vote::new(5, 3);
        assert!(proves_duplicate(
            3,
            Some(&saved),
            &mine,
            VoteSource::Request
        ));
        let theirs = Vote::new_committed(10, 1);
        assert!(!proves_duplicate(
            3,
            Some(&saved),
            &theirs,
            VoteSource::Request
        ));
    }
}
