//! Options of a store at its start. Plain data.

use std::net::SocketAddr;
use std::path::PathBuf;

use seqsvr_metrics::ServerSecurity;
use seqsvr_proto::limits::{CALLS_PER_CONNECTION_DEFAULT, CONNECTIONS_DEFAULT};

/// Options of one StoreSvr. Times in milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// This store's id in the cluster, above 0.
    pub store_id: u64,
    /// Address it listens on; port 0 takes a free one.
    pub listen_address: SocketAddr,
    /// Address at which other stores and AllocSvrs reach it, `host:port`. None: the address it
    /// listens on.
    pub advertise_address: Option<String>,
    /// Directory of this store only; created if absent.
    pub data_dir: PathBuf,
    /// The data directory was moved or copied on purpose, and nothing uses the original any more.
    pub moved_data_dir: bool,
    /// Interval of a leader's heartbeats.
    pub heartbeat_ms: u64,
    /// A follower that receives no heartbeat for a random time between this …
    pub election_min_ms: u64,
    /// … and this requests votes. Well under half the lease.
    pub election_max_ms: u64,
    /// Number of new log entries after which a snapshot is taken. A quarter as many are kept behind
    /// it for followers that lag.
    pub snapshot_interval_entries: u64,
    /// Most connections at a time; the store rejects more.
    pub connections_max: usize,
    /// Most calls of one connection at a time, its Watch streams among them; more wait.
    pub streams_max: u32,
    /// Protection of the store. It only shows in the status and the metrics.
    pub security: ServerSecurity,
}

impl Options {
    /// Returns the default options.
    pub fn new(store_id: u64, listen_address: SocketAddr, data_dir: impl Into<PathBuf>) -> Options {
        let raft = seqsvr_raft::Options::new(store_id, String::new(), data_dir);
        Options {
            store_id,
            listen_address,
            advertise_address: None,
            data_dir: raft.data_dir,
            moved_data_dir: raft.moved_data_dir,
            heartbeat_ms: raft.heartbeat_ms,
            election_min_ms: raft.election_min_ms,
            election_max_ms: raft.election_max_ms,
            snapshot_interval_entries: raft.snapshot_interval_entries,
            connections_max: CONNECTIONS_DEFAULT,
            streams_max: CALLS_PER_CONNECTION_DEFAULT,
            security: ServerSecurity::default(),
        }
    }

    /// Returns the options of the Raft node below; others reach it at `address`.
    pub fn raft_options(&self, address: String) -> seqsvr_raft::Options {
        seqsvr_raft::Options {
            heartbeat_ms: self.heartbeat_ms,
            election_min_ms: self.election_min_ms,
            election_max_ms: self.election_max_ms,
            snapshot_interval_entries: self.snapshot_interval_entries,
            keep_entries: self.snapshot_interval_entries / 4,
            moved_data_dir: self.moved_data_dir,
            ..seqsvr_raft::Options::new(self.store_id, address, self.data_dir.clone())
        }
    }
}
