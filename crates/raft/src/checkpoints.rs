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

use crate::digest::Digest;

/// Entries between two checkpoints.
pub(crate) const CHECKPOINT_ENTRIES: u64 = 64;
/// Checkpoints kept, so that a node that lags by less than 4,096 entries can compare.
const CHECKPOINTS_MAX: usize = 64;

/// Newest checkpoints of this node.
#[derive(Default)]
pub(crate) struct Checkpoints(Mutex<VecDeque<(u64, Digest)>>);

impl Checkpoints {
    /// Notes the digest after an entry, if that entry is a checkpoint.
    pub(crate) fn note(&self, index: u64, digest: Digest) {
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
    pub(crate) fn get(&self, index: u64) -> Option<Digest> {
        let kept = self.0.lock();
        kept.iter().rfind(|(i, _)| *i == index).map(|(_, d)| *d)
    }

    /// Returns the newest checkpoint.
    pub(crate) fn newest(&self) -> Option<(u64, Digest)> {
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
    digests: HashMap<u64, Digest>,
}

/// Result of comparing the digests of the voters at one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
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
    pub(crate) fn note(&self, index: u64, node: u64, digest: Digest) {
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
    pub(crate) fn agreement(&self, index: u64, own: Digest, voters: &BTreeSet<u64>) -> Agreement {
        let poll = self.0.lock();
        if poll.index != index {
            return Agreement::Open;
        }
        let known: Vec<Digest> = voters
            .iter()
            .filter_map(|id| poll.digests.get(id).copied())
            .collect();
        let majority = |digest: &Digest| {
            let same = known.iter().filter(|d| *d == digest).count();
            2 * same > voters.len()
        };
        if majority(&own) {
            Agreement::Agreed
        } else if known.iter().any(|d| *d != own && majority(d)) {
            Agreement::Outvoted
        } else if known.iter().any(|d| *d != own) {
            Agreement::Split
        } else {
            Agreement::Open
        }
    }
}

/// Returns a checkpoint as it is sent.
pub(crate) fn to_message(index: u64, digest: Digest, agreed: bool) -> RaftCheckpoint {
    RaftCheckpoint {
        index,
        digest: digest.to_bytes().to_vec().into(),
        agreed,
    }
}

/// Returns the digest of a received checkpoint; None if it is malformed.
pub(crate) fn digest_of(message: &RaftCheckpoint) -> Option<Digest> {
    let bytes: [u8; 16] = message.digest[..].try_into().ok()?;
    Some(Digest::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> Digest {
        Digest::from_bytes([n; 16])
    }

    #[test]
    fn the_newest_checkpoints_are_kept() {
        let kept = Checkpoints::default();
        let last = CHECKPOINT_ENTRIES * (CHECKPOINTS_MAX as u64 + 1);
        for index in 1..=last + 1 {
            kept.note(index, digest((index / CHECKPOINT_ENTRIES) as u8));
        }
        assert_eq!(kept.newest(), Some((last, digest(65))));
        assert_eq!(kept.get(last), Some(digest(65)));
        assert_eq!(kept.get(2 * CHECKPOINT_ENTRIES), Some(digest(2)));
        assert_eq!(kept.get(CHECKPOINT_ENTRIES), None);
        assert_eq!(kept.get(last + 1), None);
    }

    #[test]
    fn a_majority_of_the_voters_decides() {
        let (own, other) = (digest(1), digest(2));
        let voters = [1, 2, 3].into();
        let stand = |others: &[(u64, Digest)]| {
            let poll = DigestPoll::default();
            poll.note(64, 1, own);
            for (node, digest) in others {
                poll.note(64, *node, *digest);
            }
            poll.agreement(64, own, &voters)
        };
        assert_eq!(stand(&[]), Agreement::Open);
        assert_eq!(stand(&[(2, own)]), Agreement::Agreed);
        assert_eq!(stand(&[(2, own), (3, other)]), Agreement::Agreed);
        assert_eq!(stand(&[(2, other)]), Agreement::Split);
        assert_eq!(stand(&[(2, other), (3, digest(3))]), Agreement::Split);
        assert_eq!(stand(&[(2, other), (3, other)]), Agreement::Outvoted);
        // A node that does not vote does not count.
        assert_eq!(stand(&[(4, own), (5, own)]), Agreement::Open);
        let two = [1, 2].into();
        let poll = DigestPoll::default();
        poll.note(64, 1, own);
        poll.note(64, 2, other);
        assert_eq!(poll.agreement(64, own, &two), Agreement::Split);
        // A newer checkpoint begins a new poll.
        poll.note(128, 1, own);
        assert_eq!(poll.agreement(64, own, &two), Agreement::Open);
    }
}
