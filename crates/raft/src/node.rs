//! A running node: what the store builds on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::Instant as _;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, ForwardToLeader, InitializeError, LinearizableReadError};
use openraft::errors::{Fatal, RaftError};
use openraft::{Config, ReadPolicy, SnapshotPolicy};
use seqsvr_core::command::{Batch, Command, Refusal, Reply};
use seqsvr_core::id::ClusterId;
use seqsvr_core::state::State;
use seqsvr_proto::v1::raft_server::RaftServer;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::applied::{Progress, Shared};
use crate::error::{ConfirmError, Error, ProposeError};
use crate::gate::Gate;
use crate::identity::Identity;
use crate::leadership::{self, Leadership, Role};
use crate::log;
use crate::machine::{Machine, SnapshotCounters};
use crate::network::{MESSAGE_BYTES_MAX, Network};
use crate::options::Options;
use crate::service::Service;
use crate::storage::Storage;
use crate::types::{Peer, Proposal, TypeConfig};
use crate::{ADDRESS_MAX, ENTRIES_PER_APPEND, ENTRY_BYTES_MAX, MEMBERS_MAX, frame};

type Raft = openraft::Raft<TypeConfig, Machine>;

/// How long `init` waits for a quorum of the members.
const INIT_WAIT: Duration = Duration::from_secs(15);
/// How long a snapshot may take on its way to a follower.
const SNAPSHOT_WAIT: Duration = Duration::from_secs(120);
/// How long `shutdown` waits for the last user of the data directory.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// A member of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Node id.
    pub id: u64,
    /// Where the other nodes reach it, `host:port`.
    pub address: String,
    /// Incarnation of its data directory, as [`Node::identity`] tells it there.
    pub incarnation: u64,
    /// Whether it votes. `init` makes every member a voter.
    pub voter: bool,
}

/// What a node has done since its start, and where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// fdatasyncs of the log: one a batch of appends, votes, truncations and purges that the log's
    /// writer took together, counted by `raft-log` (`sync_batch_count`). Syncs at start and those
    /// of snapshot and identity files are not in it.
    pub log_syncs: u64,
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
    /// Index of the last applied entry.
    pub applied_index: u64,
    /// Index the newest snapshot stands at; 0: none.
    pub snapshot_index: u64,
    /// Entries up to this index are gone from the log; 0: none.
    pub purged_index: u64,
    /// Snapshots made here.
    pub snapshots_built: u64,
    /// Snapshots received from a leader, or read back at start.
    pub snapshots_installed: u64,
}

/// A handle to the node; clones are cheap.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    raft: Raft,
    gate: Arc<Gate>,
    network: Network,
    shared: Arc<Shared>,
    log: std::sync::Weak<log::Inner>,
    snapshots: Arc<SnapshotCounters>,
    lock: std::sync::Weak<std::fs::File>,
    leadership: watch::Receiver<Leadership>,
    failed: watch::Receiver<Option<String>>,
    stop: CancellationToken,
    tasks: TaskTracker,
    confirm_wait: Duration,
}

impl Node {
    /// Opens the data directory and starts. A node that belongs to no cluster waits until
    /// [`Node::init`] is called here or at another member.
    ///
    /// # Errors
    /// Whatever makes the directory unusable; the text names the file and says what to do.
    pub async fn open(options: Options) -> Result<Node, Error> {
        options.check()?;
        let config = config(&options)?;
        let opened = {
            let options = options.clone();
            tokio::task::spawn_blocking(move || Storage::open(&options)).await
        };
        let Storage {
            directory,
            identity,
            log,
            machine,
        } = opened.map_err(|e| Error::Stopped(e.to_string()))??;
        let shared = machine.shared();
        let snapshots = machine.counters();
        let lock = directory.lock_watch();
        let log_watch = log.watch();
        let gate = Arc::new(Gate::new(identity, directory, log.clone()));
        let network = Network::new(gate.clone());
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
        tasks.spawn(leadership::follow(
            raft.metrics(),
            leadership_tx,
            failed_tx,
            stop.clone(),
        ));
        tasks.close();
        tracing::info!(
            node = identity.node,
            incarnation = format!("{:016x}", identity.incarnation),
            cluster = identity.cluster.map(|c| c.to_string()),
            applied = shared.applied.read().index(),
            "raft started"
        );
        Ok(Node {
            inner: Arc::new(Inner {
                raft,
                gate,
                network,
                shared,
                log: log_watch,
                snapshots,
                lock,
                leadership,
                failed,
                stop,
                tasks,
                confirm_wait: Duration::from_millis(options.election_max_ms) * 2,
            }),
        })
    }

    /// Who this data directory is.
    pub fn identity(&self) -> Identity {
        self.inner.gate.identity()
    }

    /// Makes the cluster with these members, among them this node; each must run and tell the
    /// incarnation given. Waits until the state says that the cluster exists. Repeating the call
    /// with the same cluster id is harmless and goes on where it was interrupted.
    ///
    /// # Errors
    /// [`Error::Members`] and [`Error::WrongCluster`] changed nothing; after [`Error::Unfinished`]
    /// repeat the call.
    pub async fn init(
        &self,
        members: Vec<Member>,
        cluster: ClusterId,
        lease_ms: u32,
        slots: u32,
    ) -> Result<(), Error> {
        let init = Batch {
            commands: vec![Command::Init {
                cluster,
                lease_ms,
                slots,
            }],
        };
        // What would be refused must be refused before the cluster exists.
        let dry = State::default().apply(0, &init, &mut BTreeSet::new());
        if let Some(Reply::Refused(refusal)) = dry.into_iter().next() {
            return Err(Error::Members(refusal.to_string()));
        }
        let peers = self.check_members(members)?;
        self.inner.gate.adopt(cluster).await?;
        match self.inner.raft.initialize(peers).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(RaftError::APIError(e)) => return Err(Error::Members(e.to_string())),
            Err(RaftError::Fatal(e)) => return Err(Error::Stopped(e.to_string())),
        }
        let deadline = Instant::now() + INIT_WAIT;
        let mut why = String::from("no leader yet");
        loop {
            if let Some(made) = self.with_state(|s| s.cluster().map(|c| c.id)) {
                return match made == cluster {
                    true => Ok(()),
                    false => Err(Error::WrongCluster {
                        ours: made,
                        asked: cluster,
                    }),
                };
            }
            if Instant::now() >= deadline {
                return Err(Error::Unfinished(why));
            }
            let step = self.propose_init(&init, lease_ms, slots);
            match tokio::time::timeout_at(deadline, step).await {
                Ok(Ok(())) => {}
                Ok(Err(e)) => why = e,
                Err(_) => why = String::from("no quorum of the members answers"),
            }
            // Applied here a moment after the leader applied it; or a leader is still to be found.
            let mut progress = self.applied();
            let _ = tokio::time::timeout(Duration::from_millis(50), progress.changed()).await;
        }
    }

    async fn propose_init(&self, init: &Batch, lease_ms: u32, slots: u32) -> Result<(), String> {
        let seen = self.leadership().borrow().clone();
        match (seen.role, seen.leader) {
            (Role::Leader, _) => match self.propose(init.clone()).await {
                Ok(replies) => match replies.into_iter().next() {
                    Some(Reply::Done) => Ok(()),
                    Some(Reply::Refused(Refusal::AlreadyInitialised(_))) => Ok(()),
                    other => Err(format!("unexpected reply {other:?}")),
                },
                Err(e) => Err(e.to_string()),
            },
            (_, Some((leader, _))) => {
                let peer = {
                    let metrics = self.inner.raft.metrics();
                    let metrics = metrics.borrow_watched();
                    metrics
                        .membership_config
                        .membership()
                        .get_node(&leader)
                        .cloned()
                };
                let peer = peer.ok_or("the leader is not a member")?;
                let connection = self.inner.network.connect(leader, &peer);
                connection
                    .propose_init(lease_ms, slots, Duration::from_secs(3))
                    .await
            }
            _ => Err(String::from("no leader yet")),
        }
    }

    fn check_members(&self, members: Vec<Member>) -> Result<BTreeMap<u64, Peer>, Error> {
        let wrong = |text: String| Err(Error::Members(text));
        let ours = self.identity();
        if members.is_empty() || members.len() > MEMBERS_MAX {
            return wrong(format!("give 1 to {MEMBERS_MAX} members"));
        }
        let mut peers = BTreeMap::new();
        let mut addresses = BTreeSet::new();
        for Member {
            id,
            address,
            incarnation,
            ..
        } in members
        {
            if id == 0 || address.is_empty() || address.len() > ADDRESS_MAX {
                return wrong(format!(
                    "member {id}: an id is above 0, an address has 1 to {ADDRESS_MAX} bytes"
                ));
            }
            if !addresses.insert(address.clone()) {
                return wrong(format!("address {address} is given twice"));
            }
            let peer = Peer {
                address,
                incarnation,
            };
            if peers.insert(id, peer).is_some() {
                return wrong(format!("member {id} is given twice"));
            }
        }
        match peers.get(&ours.node) {
            Some(own) if own.incarnation == ours.incarnation => Ok(peers),
            Some(_) => wrong(format!("node {} has another incarnation", ours.node)),
            None => wrong(format!("node {}, which was asked, is no member", ours.node)),
        }
    }

    /// Writes a batch; resolves once it is durable on a quorum and applied here. Several may be in
    /// flight; they are written in the order in which the futures were first polled. Waits without
    /// limit while a quorum is missing: dropping the future gives up waiting, not the batch.
    ///
    /// # Errors
    /// See [`ProposeError`].
    pub async fn propose(&self, batch: Batch) -> Result<Vec<Reply>, ProposeError> {
        if batch.commands.is_empty() {
            return Err(ProposeError::Invalid(String::from("the batch is empty")));
        }
        let bytes = frame::body_len(&batch);
        if bytes > ENTRY_BYTES_MAX {
            return Err(ProposeError::Invalid(format!(
                "the batch has {bytes} bytes, an entry may have {ENTRY_BYTES_MAX}"
            )));
        }
        match self
            .inner
            .raft
            .client_write(Proposal(Arc::new(batch)))
            .await
        {
            Ok(written) => Ok(written.data),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
                Err(ProposeError::NotLeader {
                    leader: leader_of(to),
                })
            }
            Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(_))) => {
                Err(ProposeError::Uncertain)
            }
            Err(RaftError::APIError(other)) => Err(ProposeError::Invalid(other.to_string())),
            Err(RaftError::Fatal(fatal)) => Err(ProposeError::Stopped(self.reason(&fatal))),
        }
    }

    /// Confirms by a quorum round that this node leads, then waits until everything committed
    /// before the call is applied here; returns the applied index.
    ///
    /// Invariant: the round *started after the call*, and no call is answered by a round that began
    /// before it. Schedule that breaks leases without it: a keep-alive rides on a round begun
    /// earlier, another leader is elected in between and expires the session, and the session is
    /// told that it lives. openraft 0.10.0-alpha.37 keeps it: `RaftCore::handle_get_linearizer`
    /// (`core/raft_core.rs`) takes for each call a threshold `SendStamp` (now, current heartbeat
    /// round), `send_heartbeat` then begins a new round, and
    /// `PendingReadQueue::drain_satisfied` answers a call only when a quorum has acknowledged
    /// calls whose sending stamp is strictly greater. Calls do share a round, but only one begun
    /// after the youngest of them. `ReadPolicy::ReadIndex` asks for age zero, so the comparison
    /// with earlier acknowledgements is never true. The read index is at least the first entry of
    /// the leader's own term (`LeaderHandler::get_read_log_id`).
    ///
    /// # Errors
    /// See [`ConfirmError`]; takes at most two longest election timeouts.
    pub async fn confirm(&self) -> Result<u64, ConfirmError> {
        let round = async {
            let read = self.inner.raft.get_read_linearizer(ReadPolicy::ReadIndex);
            let linearizer = read.await.map_err(|e| match e {
                RaftError::APIError(LinearizableReadError::ForwardToLeader(to)) => {
                    ConfirmError::NotLeader {
                        leader: leader_of(to),
                    }
                }
                RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)) => {
                    ConfirmError::NoQuorum
                }
                RaftError::Fatal(fatal) => ConfirmError::Stopped(self.reason(&fatal)),
            })?;
            let index = linearizer.read_log_id().index();
            let mut progress = self.applied();
            let applied = progress.wait_for(|p| p.index >= index).await;
            applied
                .map(|p| p.index)
                .map_err(|_| ConfirmError::Stopped(String::from("the state is gone")))
        };
        tokio::time::timeout(self.inner.confirm_wait, round)
            .await
            .unwrap_or(Err(ConfirmError::NoQuorum))
    }

    /// How long ago the last call that a quorum acknowledged was sent; None if this node does not
    /// lead or no quorum has answered it in this term. A look, not a promise: see
    /// [`Node::confirm`].
    pub fn quorum_age(&self) -> Option<Duration> {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.last_quorum_acked.as_ref().map(|at| at.elapsed())
    }

    /// Who leads, as this node sees it; see [`Leadership`] for how far that may be believed.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.inner.leadership.clone()
    }

    /// Reads the applied state; a batch is seen wholly or not at all. Keep it short: applying waits.
    pub fn with_state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.inner.shared.applied.read().state)
    }

    /// How far the state has been applied. Who sees an index here reads a state of at least that.
    pub fn applied(&self) -> watch::Receiver<Progress> {
        self.inner.shared.progress.subscribe()
    }

    /// The members; empty before the cluster is made.
    pub fn members(&self) -> Vec<Member> {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let member = |(id, peer): (&u64, &Peer)| Member {
            id: *id,
            address: peer.address.clone(),
            incarnation: peer.incarnation,
            voter: voters.contains(id),
        };
        membership.nodes().map(member).collect()
    }

    /// The service the other nodes call; mount it under this node's address.
    pub fn service(&self) -> RaftServer<Service> {
        RaftServer::new(Service::new(self.clone(), self.inner.gate.clone()))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Holds the reason once Raft has stopped by itself: a failed write or sync, mostly. The node
    /// takes no further part; the process should end with that text.
    pub fn failed(&self) -> watch::Receiver<Option<String>> {
        self.inner.failed.clone()
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        let log = self
            .inner
            .log
            .upgrade()
            .map(|l| l.counters())
            .unwrap_or_default();
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        Counters {
            log_syncs: log.syncs,
            log_bytes: log.bytes,
            entries: log.entries,
            votes: log.votes,
            term: metrics.current_term,
            last_log_index: metrics.last_log_index.unwrap_or(0),
            applied_index: self.inner.shared.progress.borrow().index,
            snapshot_index: metrics.snapshot.map_or(0, |id| id.index),
            purged_index: metrics.purged.map_or(0, |id| id.index),
            snapshots_built: self.inner.snapshots.built.load(Ordering::Relaxed),
            snapshots_installed: self.inner.snapshots.installed.load(Ordering::Relaxed),
        }
    }

    /// Stops taking part and lets go of the data directory.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        // The only error is that openraft's task had panicked, and then it is stopped as well.
        let _ = self.inner.raft.shutdown().await;
        self.inner.tasks.wait().await;
        self.inner.gate.close().await;
        let deadline = Instant::now() + CLOSE_WAIT;
        while self.inner.lock.strong_count() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(crate) fn raft(&self) -> &Raft {
        &self.inner.raft
    }

    fn reason(&self, fatal: &Fatal<TypeConfig>) -> String {
        let failed = self.inner.failed.borrow().clone();
        failed.unwrap_or_else(|| fatal.to_string())
    }
}

fn leader_of(to: ForwardToLeader<TypeConfig>) -> Option<(u64, String)> {
    to.leader_id.zip(to.leader_node.map(|peer| peer.address))
}

fn config(options: &Options) -> Result<Config, Error> {
    let every = options.snapshot_every_entries;
    let config = Config {
        cluster_name: String::from("seqsvr"),
        heartbeat_interval: options.heartbeat_ms,
        election_timeout_min: options.election_min_ms,
        election_timeout_max: options.election_max_ms,
        install_snapshot_timeout: SNAPSHOT_WAIT.as_millis() as u64,
        max_payload_entries: ENTRIES_PER_APPEND,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(every),
        max_in_snapshot_log_to_keep: options.keep_entries,
        // A follower is sent entries as long as the log has them.
        replication_lag_threshold: 2 * (every + options.keep_entries),
        backoff: String::from("50ms 100ms 200ms ...500ms"),
        enable_pre_vote: Some(true),
        // Check-quorum: a leader that hears no quorum falls silent, so that a quorum which hears
        // it without being heard can elect another.
        quorum_loss_probe_interval: Some(2 * options.election_max_ms),
        // A restarted leader is elected anew: a term's leader never changes its mind about what it
        // has applied, and every start of leadership has its own first entry.
        enable_leader_restore: Some(false),
        ..Config::default()
    };
    config.validate().map_err(|e| Error::Options(e.to_string()))
}
