//! Followers that lag so far that they hold up the purge of the leader's log.
//!
//! Invariant: the log of a leader is bounded, also with slow followers. Schedule that breaks it: a
//! follower takes entries, only more slowly than they come. openraft 0.10.0-alpha.37 streams to it
//! everything behind the entry it acknowledged last, and purges nothing that is being streamed
//! (`replication_handler/mod.rs`, `try_purge_log`; `progress/entry/mod.rs`,
//! `is_log_range_inflight`); `replication_lag_threshold` is not looked at. The stream never ends, so
//! the log grows until the disk is full.
//!
//! So the append to a follower that lags by more than the bound fails before it is sent. openraft
//! then ends the stream, purges, finds the follower's next entry gone, and sends a snapshot. An
//! append fails only if the purge frees that entry; otherwise openraft would stream it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::Options;
use crate::types::LogId;

/// Bound on how far a follower that is streamed entries may lag.
#[derive(Clone, Default)]
pub(crate) struct LagBound {
    /// Index of the newest snapshot of this node.
    newest: Arc<AtomicU64>,
    /// Entries that a purge keeps behind it.
    keep: u64,
    /// Entries that a follower may lag behind what is committed.
    lag_max: u64,
}

impl LagBound {
    /// The bound of a node with these options, whose newest snapshot stands at `newest`.
    pub(crate) fn new(options: &Options, newest: Arc<AtomicU64>) -> LagBound {
        LagBound {
            newest,
            keep: options.keep_entries,
            lag_max: options.lag_max(),
        }
    }

    /// Whether a follower that has the entries up to `prev` gets a snapshot instead of the next ones.
    pub(crate) fn is_exceeded(&self, prev: Option<LogId>, committed: Option<LogId>) -> bool {
        let end = |id: Option<LogId>| id.map_or(0, |id| id.index + 1);
        let (next, committed) = (end(prev), end(committed));
        let kept_from = (self.newest.load(Ordering::Acquire) + 1).saturating_sub(self.keep);
        committed.saturating_sub(next) > self.lag_max && next < kept_from
    }
}
