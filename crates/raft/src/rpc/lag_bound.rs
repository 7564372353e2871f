//! Followers that lag so far that they hold up the purge of the leader's log.
//!
//! Invariant: the log of a leader is bounded, also with slow followers. Schedule that breaks it: a
//! follower takes entries more slowly than they come. openraft 0.10.0-alpha.37 streams to it
//! everything behind the entry it acknowledged last, and purges nothing that is being streamed
//! (`openraft:replication_handler/mod.rs`, `try_purge_log`; `openraft:progress/entry/mod.rs`,
//! `is_log_range_inflight`). openraft ignores `replication_lag_threshold` there. The stream never
//! ends, so the log grows until the disk is full.
//!
//! So the append to a follower that lags by more than the bound fails before it is sent. openraft
//! then ends the stream, purges, finds the follower's next entry gone, and sends a snapshot. An
//! append fails only if the purge frees that entry; otherwise openraft would stream it again.
//!
//! Invariant: a follower that has installed a snapshot may lag by as many entries as came during
//! the install. Schedule that breaks it: an install takes three minutes at 500 entries a second, so
//! the follower begins 90,000 entries behind. The bound is 50,000; the leader sends the next
//! snapshot, and never stops. So the bound is at least twice the follower's lag when it had
//! installed the last snapshot. A follower that only falls further behind still gets another
//! snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::Options;
use crate::types::LogId;

/// Bound on the lag of a follower that receives a stream of entries.
#[derive(Clone, Default)]
pub(crate) struct LagBound {
    /// Index of the newest snapshot of this node.
    newest: Arc<AtomicU64>,
    /// Entries that a purge keeps behind the snapshot.
    keep: u64,
    /// Entries that a follower may lag behind the last committed one.
    lag_max: u64,
    /// One past the last entry that this node, as a leader, has reported to a follower as
    /// committed.
    committed: Arc<AtomicU64>,
    /// Entries that the last follower lagged by when it had installed a snapshot.
    installed_lag: Arc<AtomicU64>,
}

impl LagBound {
    /// Returns the bound of a node with these options, whose newest snapshot ends at `newest`.
    pub(crate) fn new(options: &Options, newest: Arc<AtomicU64>) -> LagBound {
        LagBound {
            newest,
            keep: options.keep_entries,
            lag_max: options.follower_lag_max(),
            ..LagBound::default()
        }
    }

    /// Returns whether a follower that has the entries up to `prev` gets a snapshot instead of the
    /// next entries.
    pub(crate) fn is_exceeded(&self, prev: Option<LogId>, committed: Option<LogId>) -> bool {
        let end = |id: Option<LogId>| id.map_or(0, |id| id.index + 1);
        let (next, committed) = (end(prev), end(committed));
        self.committed.fetch_max(committed, Ordering::AcqRel);
        let lag_max = (2 * self.installed_lag.load(Ordering::Acquire)).max(self.lag_max);
        let kept_from = (self.newest.load(Ordering::Acquire) + 1).saturating_sub(self.keep);
        committed.saturating_sub(next) > lag_max && next < kept_from
    }

    /// Notes that a follower has installed a snapshot up to `last`.
    pub(crate) fn note_installed(&self, last: Option<LogId>) {
        let next = last.map_or(0, |id| id.index + 1);
        let committed = self.committed.load(Ordering::Acquire);
        let lag = committed.saturating_sub(next);
        self.installed_lag.store(lag, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::CommittedLeaderId;

    fn id(index: u64) -> Option<LogId> {
        Some(LogId {
            leader_id: CommittedLeaderId::new(1),
            index,
        })
    }

    /// Schedule: the bound is 40; 300 entries come while a follower installs the snapshot at
    /// entry 100.
    #[test]
    fn lag_bound_after_install_allows_entries_that_came_during_it() {
        let mut options = Options::new(1, "127.0.0.1:1", "unused");
        (options.snapshot_interval_entries, options.keep_entries) = (15, 5);
        let newest = Arc::new(AtomicU64::new(380));
        let lag = LagBound::new(&options, newest);
        assert!(lag.is_exceeded(id(100), id(400)));
        // The connection to another follower has reported the newest entry.
        lag.clone().note_installed(id(100));
        assert!(!lag.is_exceeded(id(100), id(400)));
        assert!(!lag.is_exceeded(id(200), id(800)));
        // It falls further behind.
        assert!(lag.is_exceeded(id(100), id(701)));
        // The next install is shorter.
        lag.note_installed(id(699));
        assert!(lag.is_exceeded(id(300), id(701)));
    }
}
