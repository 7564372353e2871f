//! Finds a node whose state differs from that of the others.
//!
//! Invariant: two nodes that have applied the same entry have the same rows. Schedules that break
//! it without an error: a memory fault changes a row; a disk returns other bytes under a right
//! checksum; two builds apply one entry in different ways. The node that differs may lead later and
//! hand out numbers twice.
//!
//! Every node keeps the digest over its rows at every [`CHECKPOINT_ENTRIES`]th entry. The leader
//! sends its newest one with each append and gets the receiver's digest at the same entry. Once a
//! majority of the voters has one digest, the leader sends that result, and a node that has another
//! digest ends. The leader also ends if the majority has another digest than its own. Without a
//! majority no node can decide which digest is right: the difference is logged.
//!
//! Committed entries are the same on all nodes, so the index alone names the entry.

use std::collections::{BTreeSet, HashMap, VecDeque};

use parking_lot::Mutex;
use seqsvr_proto::v1::RaftCheckpoint;

use crate::state::digest::RowsDigest;

/// Entries between two checkpoints.
pub(crate) const CHECKPOINT_ENTRIES: u64 = 64;
/// Checkpoints kept, so that a node that lags by less than 4,096 entries can compare.
const CHECKPOINTS_MAX: usize = 64;

/// Newest checkpoints of this node.
#[derive(Default)]
pub(crate) struct StateCheckpoints(Mutex<VecDeque<(u64, RowsDigest)>>);

impl StateCheckpoints {
    /// Notes the digest after an entry, if that entry is a checkpoint.
    pub(crate) fn record(&self, index: u64, digest: RowsDigest) {
        if !index.is_multiple_of(CHECKPOINT_ENTRIES) {
            return;
        }
        let mut kept = self.0.lock();
        if kept.len() == CHECKPOINTS_MAX {
            kept.pop_front();
        }
        kept.push_back((index, digest));
    }

    /// Returns the digest after that entry.
    pub(crate) fn digest_at(&self, index: u64) -> Option<RowsDigest> {
        let kept = self.0.lock();
        kept.iter().rfind(|(i, _)| *i == index).map(|(_, d)| *d)
    }

    /// Returns the newest checkpoint.
    pub(crate) fn newest_checkpoint(&self) -> Option<(u64, RowsDigest)> {
        self.0.lock().back().copied()
    }
}

/// Digests that a leader has received for its newest checkpoint.
#[derive(Default)]
pub(crate) struct DigestPoll(Mutex<PollState>);

#[derive(Default)]
struct PollState {
    index: u64,
    /// Digests of the nodes, this one included.
    digests: HashMap<u64, RowsDigest>,
}

/// Result of comparing the digests of the voters at one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DigestAgreement {
    /// No majority has one digest yet, and none differs from this node's.
    Open,
    /// A majority has this node's digest.
    Agreed,
    /// A majority has another digest than this node.
    Outvoted,
    /// Some node has another digest, and no majority has one.
    Split,
}

impl DigestPoll {
    /// Notes a node's digest at a checkpoint.
    pub(crate) fn record(&self, index: u64, node: u64, digest: RowsDigest) {
        let mut poll = self.0.lock();
        if poll.index != index {
            *poll = PollState {
                index,
                digests: HashMap::new(),
            };
        }
        poll.digests.insert(node, digest);
    }

    /// Compares the digests of these voters with this node's at a checkpoint.
    pub(crate) fn evaluate(
        &self,
        index: u64,
        own: RowsDigest,
        voters: &BTreeSet<u64>,
    ) -> DigestAgreement {
        let poll = self.0.lock();
        if poll.index != index {
            return DigestAgreement::Open;
        }
        let known: Vec<RowsDigest> = voters
            .iter()
            .filter_map(|id| poll.digests.get(id).copied())
            .collect();
        let majority = |digest: &RowsDigest| {
            let same = known.iter().filter(|d| *d == digest).count();
            2 * same > voters.len()
        };
        if majority(&own) {
            DigestAgreement::Agreed
        } else if known.iter().any(|d| *d != own && majority(d)) {
            DigestAgreement::Outvoted
        } else if known.iter().any(|d| *d != own) {
            DigestAgreement::Split
        } else {
            DigestAgreement::Open
        }
    }
}

/// Returns a checkpoint as it is sent.
pub(crate) fn to_message(index: u64, digest: RowsDigest, agreed: bool) -> RaftCheckpoint {
    RaftCheckpoint {
        index,
        digest: digest.to_bytes().to_vec().into(),
        agreed,
    }
}

/// Returns the digest of a received checkpoint; None if it is malformed.
pub(crate) fn digest_from_message(message: &RaftCheckpoint) -> Option<RowsDigest> {
    let bytes: [u8; 16] = message.digest[..].try_into().ok()?;
    Some(RowsDigest::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> RowsDigest {
        RowsDigest::from_bytes([n; 16])
    }

    #[test]
    fn checkpoints_keep_the_newest() {
        let kept = StateCheckpoints::default();
        let last = CHECKPOINT_ENTRIES * (CHECKPOINTS_MAX as u64 + 1);
        for index in 1..=last + 1 {
            kept.record(index, digest((index / CHECKPOINT_ENTRIES) as u8));
        }
        assert_eq!(kept.newest_checkpoint(), Some((last, digest(65))));
        assert_eq!(kept.digest_at(last), Some(digest(65)));
        assert_eq!(kept.digest_at(2 * CHECKPOINT_ENTRIES), Some(digest(2)));
        assert_eq!(kept.digest_at(CHECKPOINT_ENTRIES), None);
        assert_eq!(kept.digest_at(last + 1), None);
    }

    #[test]
    fn digest_poll_is_decided_by_majority_of_voters() {
        let (own, other) = (digest(1), digest(2));
        let voters = [1, 2, 3].into();
        let stand = |others: &[(u64, RowsDigest)]| {
            let poll = DigestPoll::default();
            poll.record(64, 1, own);
            for (node, digest) in others {
                poll.record(64, *node, *digest);
            }
            poll.evaluate(64, own, &voters)
        };
        assert_eq!(stand(&[]), DigestAgreement::Open);
        assert_eq!(stand(&[(2, own)]), DigestAgreement::Agreed);
        assert_eq!(stand(&[(2, own), (3, other)]), DigestAgreement::Agreed);
        assert_eq!(stand(&[(2, other)]), DigestAgreement::Split);
        assert_eq!(stand(&[(2, other), (3, digest(3))]), DigestAgreement::Split);
        assert_eq!(stand(&[(2, other), (3, other)]), DigestAgreement::Outvoted);
        // A node that does not vote does not count.
        assert_eq!(stand(&[(4, own), (5, own)]), DigestAgreement::Open);
        let two = [1, 2].into();
        let poll = DigestPoll::default();
        poll.record(64, 1, own);
        poll.record(64, 2, other);
        assert_eq!(poll.evaluate(64, own, &two), DigestAgreement::Split);
        // A newer checkpoint begins a new poll.
        poll.record(128, 1, own);
        assert_eq!(poll.evaluate(64, own, &two), DigestAgreement::Open);
    }
}
