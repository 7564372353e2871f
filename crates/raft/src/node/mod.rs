//! A running node: the base of the store.

mod bootstrap;
mod counters;
mod format_level;
mod leader_transfer;
pub(crate) mod leadership;
mod log_loss;
mod membership;
mod metrics;
mod propose;
pub(crate) mod server;
#[cfg(sim)]
pub(crate) mod sim_view;
mod snapshot_repair;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub use counters::RaftCounters;
use leadership::Leadership;
use membership::GroupMembers;
use openraft::async_runtime::watch::WatchReceiver;
use parking_lot::Mutex;
use seqsvr_core::state::State;
use seqsvr_net::Transport;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Channel;

use crate::backup::{BackupHeader, StateBackup};
use crate::detach_on_drop::detach_on_drop;
use crate::error::Error;
use crate::log;
use crate::open::Storage;
use crate::options::Options;
use crate::rpc::identity_check::IdentityCheck;
use crate::rpc::lag_bound::LagBound;
use crate::rpc::peer_network::PeerNetwork;
use crate::state::applied_state::{AppliedPosition, SharedState};
use crate::state::snapshot_builder::SnapshotCounters;
use crate::state::state_machine::StateMachine;
use crate::storage::identity::NodeIdentity;
use crate::types::{LogId, Peer, TypeConfig};

pub(crate) type Raft = openraft::Raft<TypeConfig, StateMachine>;

/// Time for which `shutdown` waits for the last user of the data directory.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A member of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Node id.
    pub id: u64,
    /// Where the other nodes reach it, `host:port`.
    pub address: String,
    /// Incarnation of its data directory, as [`RaftNode::identity`] returns it there.
    pub incarnation: u64,
    /// Whether it votes. `init` makes every member a voter.
    pub is_voter: bool,
}

/// A handle to the node; clones are cheap.
#[derive(Clone)]
pub struct RaftNode {
    inner: Arc<NodeInner>,
}

struct NodeInner {
    raft: Raft,
    identity_check: Arc<IdentityCheck>,
    network: PeerNetwork,
    shared: Arc<SharedState>,
    log: std::sync::Weak<log::LogInner>,
    snapshots: Arc<SnapshotCounters>,
    dir_lock: std::sync::Weak<std::fs::File>,
    leadership: watch::Receiver<Leadership>,
    failed: watch::Receiver<Option<String>>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Time of the last call from a leader.
    last_leader_contact: Mutex<Option<Instant>>,
    data_dir: PathBuf,
    confirm_timeout: Duration,
    /// Held by the one change of the members, or of the leader, that is under way.
    change_lock: tokio::sync::Mutex<()>,
    /// Held while the format level is raised, and by a change that must not overlap with that.
    raise_lock: tokio::sync::Mutex<()>,
}

impl Drop for NodeInner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl RaftNode {
    /// Opens the data directory and starts; reaches the other members through `transport`. A node
    /// that belongs to no cluster waits until [`RaftNode::create_cluster`] is called here or at
    /// another member.
    ///
    /// # Errors
    /// Any error that makes the directory unusable; the text names the file and says what to do.
    pub async fn open(options: Options, transport: Arc<dyn Transport>) -> Result<RaftNode, Error> {
        options.validate()?;
        let config = options.raft_config()?;
        let opened = {
            let options = options.clone();
            seqsvr_os::spawn_blocking(move || Storage::open(&options)).await
        };
        let Storage {
            directory,
            identity,
            log,
            machine,
        } = opened.map_err(|e| Error::Stopped(e.to_string()))??;
        let shared = machine.shared_state();
        let snapshots = machine.counters.clone();
        let lock = directory.watch_lock();
        let log_inner = log.downgrade();
        let identity_check = Arc::new(IdentityCheck::new(
            identity,
            directory,
            log.clone(),
            shared.clone(),
            options.level_max,
        ));
        let lag = LagBound::new(&options, machine.newest_snapshot_index());
        let network = PeerNetwork::new(
            identity_check.clone(),
            transport,
            lag,
            machine.turns.clone(),
        );
        let checked = machine.clone();
        let raft = Raft::new(
            options.node,
            Arc::new(config),
            network.clone(),
            log,
            machine,
        )
        .await
        .map_err(|e| Error::Stopped(e.to_string()))?;

        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let (leadership_tx, leadership) = watch::channel(Leadership::default());
        let (failed_tx, failed) = watch::channel(None);
        tasks.spawn(leadership::follow_leadership(
            raft.metrics(),
            identity_check.watch_stop_reason(),
            shared.clone(),
            leadership_tx,
            failed_tx,
            stop.clone(),
        ));
        tasks.spawn(stop_raft_on_reason(
            raft.clone(),
            identity_check.watch_stop_reason(),
            stop.clone(),
        ));
        tasks.spawn(snapshot_repair::repair_damaged_snapshots(
            network.snapshot_suspicions(),
            checked,
            raft.clone(),
            stop.clone(),
        ));
        tracing::info!(
            node = identity.node,
            incarnation = format!("{:016x}", identity.incarnation),
            cluster = identity.cluster.map(|c| c.to_string()),
            applied = shared.applied.read().last_index(),
            "raft started"
        );
        let inner = Arc::new(NodeInner {
            raft,
            identity_check,
            network,
            shared,
            log: log_inner,
            snapshots,
            dir_lock: lock,
            leadership,
            failed,
            stop,
            tasks,
            last_leader_contact: Mutex::default(),
            data_dir: options.data_dir,
            confirm_timeout: Duration::from_millis(options.election_max_ms) * 2,
            change_lock: tokio::sync::Mutex::default(),
            raise_lock: tokio::sync::Mutex::default(),
        });
        let raising = format_level::run_level_raiser(Arc::downgrade(&inner), inner.stop.clone());
        inner.tasks.spawn(raising);
        inner.tasks.close();
        Ok(RaftNode { inner })
    }

    /// Returns the identity of this data directory.
    pub fn identity(&self) -> NodeIdentity {
        self.inner.identity_check.identity()
    }

    /// Returns the leadership as this node sees it; see [`Leadership`] for its limits.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.inner.leadership.clone()
    }

    /// Reads the applied state; a batch is seen wholly or not at all. Keep it short: applying
    /// waits.
    pub fn with_state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.inner.shared.applied.read().state)
    }

    /// Returns the applied state of this moment, without its sessions, as a backup; None before the
    /// cluster is made. It is the cluster's newest state only after
    /// [`RaftNode::confirm_leadership`]. `taken_at`: seconds since 1970.
    pub fn backup(&self, taken_at: u64) -> Option<StateBackup> {
        let applied = self.inner.shared.applied.read();
        let last = applied.last_applied?;
        Some(StateBackup {
            header: BackupHeader {
                cluster: applied.state.cluster()?.id,
                term: last.leader_id.term,
                index: last.index,
                usage: applied.growth_meter.usage_report(taken_at),
            },
            state: applied.state.for_backup(),
        })
    }

    /// Returns whether the state has all entries up to this one, which is committed.
    pub(crate) fn has_applied(&self, last: Option<LogId>) -> bool {
        last <= self.inner.shared.applied.read().last_applied
    }

    /// Returns the applied position. A reader that sees an index here reads a state of at least
    /// that.
    pub fn watch_applied(&self) -> watch::Receiver<AppliedPosition> {
        self.inner.shared.progress.subscribe()
    }

    /// Returns the members; empty before the cluster is made.
    pub fn members(&self) -> Vec<GroupMember> {
        let GroupMembers { peers, voters, .. } = self.current_members();
        let member = |(id, peer): (u64, Peer)| GroupMember {
            id,
            address: peer.address,
            incarnation: peer.incarnation,
            is_voter: voters.contains(&id),
        };
        peers.into_iter().map(member).collect()
    }

    /// Returns the last log index known to be replicated at each member; empty unless this node
    /// leads.
    pub fn matched_indexes(&self) -> BTreeMap<u64, u64> {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let replication = metrics.replication.iter().flatten();
        replication
            .map(|(id, matched)| (*id, matched.map_or(0, |log_id| log_id.index)))
            .collect()
    }

    /// Returns a new channel to any address, over the transport this node uses; it connects at its
    /// first call.
    ///
    /// # Errors
    /// The address is not valid.
    pub fn new_channel(&self, address: &str) -> Result<Channel, String> {
        self.inner.network.new_channel(address)
    }

    /// Returns a watch with the reason once Raft has stopped by itself: mostly a failed write or
    /// sync. The node takes no further part; the process should end with that text.
    pub fn watch_failure(&self) -> watch::Receiver<Option<String>> {
        self.inner.failed.clone()
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> RaftCounters {
        let log = self
            .inner
            .log
            .upgrade()
            .map(|l| l.counters())
            .unwrap_or_default();
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        RaftCounters {
            log_syncs: log.syncs,
            log_sync_us: log.sync_us,
            log_sync_max_us: log.sync_max_us,
            log_bytes: log.bytes,
            entries: log.entries,
            votes: log.votes,
            term: metrics.current_term,
            last_log_index: metrics.last_log_index.unwrap_or(0),
            committed_index: metrics.local_committed.map_or(0, |id| id.index),
            applied_index: self.inner.shared.progress.borrow().index,
            snapshot_index: metrics.snapshot.map_or(0, |id| id.index),
            purged_index: metrics.purged.map_or(0, |id| id.index),
            snapshots_built: self.inner.snapshots.built.load(Ordering::Relaxed),
            snapshots_installed: self.inner.snapshots.installed.load(Ordering::Relaxed),
        }
    }

    /// Stops taking part and releases the data directory.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        // The only error is that openraft's task had panicked, and then it is stopped as well.
        let raft = self.inner.raft.clone();
        let _ = detach_on_drop(async move { raft.shutdown().await }).await;
        self.inner.tasks.wait().await;
        self.inner.identity_check.close().await;
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        while self.inner.dir_lock.strong_count() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Stops openraft once this node has a reason to take no further part, so that it does not request
/// votes either.
async fn stop_raft_on_reason(
    raft: Raft,
    mut ended: watch::Receiver<Option<String>>,
    stop: CancellationToken,
) {
    let ended = tokio::select! {
        () = stop.cancelled() => return,
        ended = ended.wait_for(Option::is_some) => ended.is_ok(),
    };
    if ended {
        // The only error is that openraft's task had panicked, and then it is stopped as well.
        let _ = raft.shutdown().await;
    }
}
