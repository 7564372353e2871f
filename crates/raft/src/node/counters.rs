//! Counters of a node, for status and for tests.

/// Work of a node since its start, and its positions in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaftCounters {
    /// fdatasyncs of the log: one for each batch of appends, votes, truncations and purges that the
    /// log's writer took together, counted by `raft-log` (`sync_batch_count`). Syncs at start and
    /// those of snapshot and identity files are not included.
    pub log_syncs: u64,
    /// Time of these syncs, in microseconds.
    pub log_sync_us: u64,
    /// The longest of them, in microseconds.
    pub log_sync_max_us: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Entries appended to this node's log.
    pub entries: u64,
    /// Votes saved.
    pub votes: u64,
    /// Current term.
    pub term: u64,
    /// Index of the last entry in the log.
    pub last_log_index: u64,
    /// Index of the last entry known here to be committed.
    pub committed_index: u64,
    /// Index of the last applied entry.
    pub applied_index: u64,
    /// Index of the last entry in the newest snapshot; 0: none.
    pub snapshot_index: u64,
    /// Entries up to this index are gone from the log; 0: none.
    pub purged_index: u64,
    /// Snapshots made here.
    pub snapshots_built: u64,
    /// Snapshots received from a leader, or read back at start.
    pub snapshots_installed: u64,
}
