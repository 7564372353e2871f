//! Options of a node. Plain data; times in milliseconds.

use std::path::PathBuf;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};
use seqsvr_core::state::FORMAT_LEVEL_MAX;

use crate::error::Error;
use crate::limits::ENTRIES_PER_APPEND_MAX;

/// Time in which a snapshot must reach a follower.
const SNAPSHOT_SEND_TIMEOUT: Duration = Duration::from_secs(120);

/// Divisor of `snapshot_interval_entries`: each process delays a snapshot by up to that part, at
/// random.
const SNAPSHOT_JITTER_DIVISOR: u64 = 4;

/// Options of one node.
#[derive(Clone, Debug)]
pub struct Options {
    /// This node's id in the cluster, above 0.
    pub node: u64,
    /// Where the other nodes reach this one, `host:port`.
    pub address: String,
    /// Directory of this node's own; made if absent.
    pub data_dir: PathBuf,
    /// Interval of a leader's heartbeats.
    pub heartbeat_ms: u64,
    /// A follower that receives nothing for `election_max_ms` (the leader's lease on its followers)
    /// and then a random time between this …
    pub election_min_ms: u64,
    /// … and this requests votes: after 0.6 to 0.8 s with the defaults, well under half the lease
    /// of an AllocSvr.
    pub election_max_ms: u64,
    /// Number of new entries after which a snapshot is taken, or up to a quarter more.
    pub snapshot_interval_entries: u64,
    /// Entries kept in the log behind the newest snapshot, for followers that lag a little.
    pub keep_entries: u64,
    /// Size at which a log file is closed; space is freed by whole files.
    pub log_file_bytes: usize,
    /// Newest format level that this node says it supports, 1 to [`FORMAT_LEVEL_MAX`]. The
    /// cluster's level rises only as far as all members support, so a lower value holds it back.
    pub level_max: u32,
    /// Whether the data directory was moved or copied on purpose, and no process uses the original
    /// any more. For one start.
    pub moved_data_dir: bool,
}

impl Options {
    /// Returns the defaults.
    pub fn new(node: u64, address: impl Into<String>, data_dir: impl Into<PathBuf>) -> Options {
        Options {
            node,
            address: address.into(),
            data_dir: data_dir.into(),
            heartbeat_ms: 100,
            election_min_ms: 200,
            election_max_ms: 400,
            snapshot_interval_entries: 20_000,
            keep_entries: 5_000,
            log_file_bytes: 4 << 20,
            level_max: FORMAT_LEVEL_MAX,
            moved_data_dir: false,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::Options(text));
        if self.node == 0 {
            return wrong(String::from("a node's id must be above 0"));
        }
        if self.address.is_empty() || self.address.len() > crate::limits::ADDRESS_BYTES_MAX {
            return wrong(format!(
                "a node's address must have 1 to {} bytes",
                crate::limits::ADDRESS_BYTES_MAX
            ));
        }
        if self.heartbeat_ms == 0
            || self.heartbeat_ms >= self.election_min_ms
            || self.election_min_ms >= self.election_max_ms
        {
            return wrong(format!(
                "times must be 0 < heartbeat < election-min < election-max, not {}, {}, {} ms",
                self.heartbeat_ms, self.election_min_ms, self.election_max_ms
            ));
        }
        if !(1..=FORMAT_LEVEL_MAX).contains(&self.level_max) {
            return wrong(format!(
                "the format level must be 1 to {FORMAT_LEVEL_MAX}, not {}",
                self.level_max
            ));
        }
        if self.snapshot_interval_entries == 0 || self.log_file_bytes == 0 {
            return wrong(String::from(
                "snapshot-interval-entries and log-file-bytes must be above 0",
            ));
        }
        Ok(())
    }

    /// Returns the entries that a follower may lag before it receives a snapshot instead.
    pub(crate) fn follower_lag_max(&self) -> u64 {
        2 * (self.snapshot_interval_entries + self.keep_entries)
    }

    /// Returns the configuration of openraft.
    pub(crate) fn raft_config(&self) -> Result<Config, Error> {
        let every = self.snapshot_interval_entries;
        let jitter = seqsvr_os::random_u64() % (every / SNAPSHOT_JITTER_DIVISOR + 1);
        let config = Config {
            cluster_name: String::from("seqsvr"),
            heartbeat_interval: self.heartbeat_ms,
            election_timeout_min: self.election_min_ms,
            election_timeout_max: self.election_max_ms,
            install_snapshot_timeout: SNAPSHOT_SEND_TIMEOUT.as_millis() as u64,
            max_payload_entries: ENTRIES_PER_APPEND_MAX,
            // Nodes do not build at the same entry: a build takes a core and the disk for a while.
            snapshot_policy: SnapshotPolicy::LogsSinceLast(every + jitter),
            max_in_snapshot_log_to_keep: self.keep_entries,
            // Applies when a member is added; see `crate::rpc::lag_bound` for the others.
            replication_lag_threshold: self.follower_lag_max(),
            backoff: String::from("50ms 100ms 200ms ...500ms"),
            enable_pre_vote: Some(true),
            // Check-quorum: a leader that receives nothing from a quorum falls silent. A quorum
            // that still receives its heartbeats can then elect another leader.
            quorum_loss_probe_interval: Some(2 * self.election_max_ms),
            // A restarted leader must be elected again. So a term's leader never changes the
            // entries it has applied, and every start of leadership has its own first entry.
            enable_leader_restore: Some(false),
            ..Config::default()
        };
        config.validate().map_err(|e| Error::Options(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Three stores that take a snapshot at the same entry are all slow at the same time.
    #[test]
    fn snapshot_interval_differs_between_processes() {
        let options = Options::new(1, "127.0.0.1:1", "unused");
        let every = || match options.raft_config().unwrap().snapshot_policy {
            SnapshotPolicy::LogsSinceLast(entries) => entries,
            other => panic!("{other:?}"),
        };
        let chosen: BTreeSet<u64> = (0..20).map(|_| every()).collect();
        assert!(chosen.len() > 10, "{chosen:?}");
        assert!(chosen.iter().all(|e| (20_000..=25_000).contains(e)));
    }
}
