//! View of a running node for judges.

use openraft::async_runtime::watch::WatchReceiver;

use crate::node::RaftNode;
use crate::node::leadership::RaftRole;
use crate::types::{LogId, Peer};

/// Position of an entry in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Term of the leader that made it.
    pub term: u64,
    /// Its index.
    pub index: u64,
}

impl From<LogId> for Entry {
    fn from(id: LogId) -> Entry {
        Entry {
            term: id.leader_id.term,
            index: id.index,
        }
    }
}

/// A node at one moment.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Its term.
    pub term: u64,
    /// Whether it leads that term.
    pub is_leader: bool,
    /// Leader that it names to callers.
    pub leader: Option<u64>,
    /// Newest entry in its log.
    pub last: Option<u64>,
    /// Newest entry that it applied.
    pub applied: Option<Entry>,
    /// Digest over the state after that entry.
    pub digest: [u8; 16],
    /// Entry up to which its log is purged.
    pub purged: Option<Entry>,
    /// Newest entry in its snapshot.
    pub snapshot: Option<Entry>,
    /// Voters of the applied membership, as sets of which each needs a majority.
    pub voters: Vec<Vec<u64>>,
    /// Voters of the newest membership in its log, by which it counts already.
    pub next_voters: Vec<Vec<u64>>,
    /// Why it ended, if it did.
    pub failure: Option<String>,
}

/// Voters of a membership, as sets of which each needs a majority.
fn voters_of(membership: &openraft::Membership<u64, Peer>) -> Vec<Vec<u64>> {
    let configs = membership.get_joint_config().iter();
    configs.map(|ids| ids.iter().copied().collect()).collect()
}

impl RaftNode {
    /// Returns a view of this node. Waits for nothing.
    pub fn look(&self) -> NodeView {
        let metrics = self.inner.raft.metrics().borrow_watched().clone();
        // Entry, digest and voters are of one moment.
        let (applied, digest, voters) = {
            let applied = self.inner.shared.applied.read();
            let voters = voters_of(applied.membership.membership());
            (applied.last_applied, applied.digest().to_bytes(), voters)
        };
        let leadership = self.leadership().borrow().clone();
        NodeView {
            term: metrics.current_term,
            is_leader: leadership.role == RaftRole::Leader,
            leader: leadership.leader.map(|(id, _)| id),
            last: metrics.last_log_index,
            applied: applied.map(Entry::from),
            digest,
            purged: metrics.purged.map(Entry::from),
            snapshot: metrics.snapshot.map(Entry::from),
            voters,
            next_voters: voters_of(metrics.membership_config.membership()),
            failure: self.watch_failure().borrow().clone(),
        }
    }
}
