//! State that all services of one store share.
//!
//! Locks: take the arbiter's before the state's, never the other way round; hold neither across an
//! await.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_core::family::IdsRejection;
use seqsvr_core::ids::{SessionId, Slot};
use seqsvr_core::state::State;
use seqsvr_metrics::ServerSecurity;
use seqsvr_net::{CallLimiter, ConnectionLimiter, SharedCall};
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::error::{RpcError, cluster_mismatch_error};
use seqsvr_proto::v1;
use seqsvr_raft::{ConfirmError, Leadership, ProposeError, RaftNode, RaftRole};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::arbiter::Arbiter;
use crate::clock::ArbiterClock;
use crate::proposer::{ProposalError, Proposer};
use crate::read_index::{ConfirmedRequest, ReadIndexBatcher, ReadIndexError};
use crate::rpc_errors;
use crate::store_time::{LeaderView, StoreTime, needs_time};

/// Most Watch streams at a time; the store rejects more.
pub(crate) const WATCH_STREAMS_MAX: usize = 8_192;
/// Most backups at a time; the store rejects more.
pub(crate) const BACKUPS_MAX: usize = 2;
/// Minimum time between the beginnings of two computations of one status answer.
pub(crate) const STATUS_INTERVAL: Duration = Duration::from_millis(20);
/// Time after a confirmation in which this node must reach the confirmed leadership.
const LEADERSHIP_READY_TIMEOUT: Duration = Duration::from_millis(500);

/// Parts of one store that its services and its arbiter use.
pub(crate) struct StoreContext {
    pub(crate) node: RaftNode,
    pub(crate) address: String,
    /// This store has answered a call that it sent to `address`.
    pub(crate) own_address_reached: AtomicBool,
    pub(crate) proposer: Proposer,
    pub(crate) read_index: ReadIndexBatcher,
    pub(crate) arbiter: Mutex<Arbiter>,
    /// Makes the arbiter tick at once.
    pub(crate) arbiter_due: Notify,
    pub(crate) clock: ArbiterClock,
    pub(crate) store_time: StoreTime,
    pub(crate) watch_permits: Arc<Semaphore>,
    pub(crate) connections: Arc<ConnectionLimiter>,
    pub(crate) calls: CallLimiter,
    pub(crate) backup_permits: Arc<Semaphore>,
    pub(crate) cluster_status: SharedCall<v1::ClusterStatusResponse>,
    pub(crate) namespaces: SharedCall<v1::ListNamespacesResponse>,
    pub(crate) node_status: SharedCall<v1::NodeStatusResponse>,
    /// Held from reading a namespace until its alteration is applied.
    pub(crate) alteration_lock: tokio::sync::Mutex<()>,
    pub(crate) stop: CancellationToken,
    pub(crate) security: ServerSecurity,
}

impl StoreContext {
    /// Returns the term this node leads in, by its own view. Rejects the request if it does not
    /// lead.
    pub(crate) fn require_leader(&self) -> Result<u64, RpcError> {
        self.require_cluster()?;
        let leadership = self.leadership();
        match leadership.role {
            RaftRole::Leader => Ok(leadership.term),
            _ => Err(rpc_errors::not_leader(to_address(leadership.leader))),
        }
    }

    /// Rejects a request while this store belongs to no cluster.
    pub(crate) fn require_cluster(&self) -> Result<(), RpcError> {
        match self.node.identity().cluster {
            Some(_) => Ok(()),
            None => Err(rpc_errors::not_initialized()),
        }
    }

    /// Returns the tag of the cluster that this store belongs to, if it does.
    pub(crate) fn cluster_tag(&self) -> ClusterTag {
        let cluster = self.node.identity().cluster;
        cluster.map_or(ClusterTag::NONE, ClusterTag::from_cluster_id)
    }

    /// Rejects a request that names another cluster.
    pub(crate) fn check_cluster(&self, caller: ClusterTag) -> Result<(), RpcError> {
        let own = self.cluster_tag();
        match own.conflicts_with(caller) {
            true => Err(cluster_mismatch_error(own, caller).with_cluster_tag(own)),
            false => Ok(()),
        }
    }

    /// Returns the leadership by this node's own view.
    pub(crate) fn leadership(&self) -> Leadership {
        self.node.leadership().borrow().clone()
    }

    /// Returns where the leader is, if known.
    pub(crate) fn leader_address(&self) -> Option<String> {
        to_address(self.leadership().leader)
    }

    /// Confirms, by a quorum round that starts after this call, that this node leads, and that
    /// everything committed before is applied here. Returns the term it led in before *and* after.
    pub(crate) async fn confirm_leadership(&self) -> Result<u64, RpcError> {
        self.confirm_leadership_for(ConfirmedRequest::Other).await
    }

    /// Confirms as [`StoreContext::confirm_leadership`] does; for a renewal also while too many
    /// other requests wait for it.
    pub(crate) async fn confirm_leadership_for(
        &self,
        request: ConfirmedRequest,
    ) -> Result<u64, RpcError> {
        let term = self.require_leader()?;
        self.read_index
            .confirm_leadership(request)
            .await
            .map_err(rpc_errors::from_read_index_error)?;
        self.wait_until_ready(term).await?;
        Ok(term)
    }

    /// Waits until everything that was committed before this term is applied here.
    ///
    /// # Errors
    /// This node does not lead in that term, or has not applied it in time.
    pub(crate) async fn wait_until_ready(&self, term: u64) -> Result<(), RpcError> {
        let mut leadership = self.node.leadership();
        let known = leadership.wait_for(|l| l.ready_term == Some(term) || l.term > term);
        let known = tokio::time::timeout(LEADERSHIP_READY_TIMEOUT, known).await;
        // The borrow ends before the leader is looked up. If one thread held two borrows, a writer
        // would wait for the first one, and the second one for the writer.
        let ready = known.is_ok_and(|l| l.is_ok_and(|l| l.ready_term == Some(term)));
        match ready {
            true => Ok(()),
            false => Err(rpc_errors::not_leader(self.leader_address())),
        }
    }

    /// Commits one command. A rejection by the state is an error.
    pub(crate) async fn propose(&self, command: Command) -> Result<Reply, RpcError> {
        self.require_leader()?;
        // Each is checked before it shares an entry with others, which would be rejected with it.
        let level = self.node.with_state(State::format_level);
        if command.format_level() > level {
            return Err(rpc_errors::from_refusal(
                &IdsRejection::level_too_low(level).into(),
            ));
        }
        self.check_time(&command).await?;
        let reply = self.proposer.propose_one(command).await;
        match reply.map_err(rpc_errors::from_proposal_error)? {
            Reply::Rejected(refusal) => Err(rpc_errors::from_refusal(&refusal)),
            reply => Ok(reply),
        }
    }

    /// Waits for store time, if the command needs it. Each is checked before it shares an entry.
    ///
    /// # Errors
    /// The clocks are suspect, or this store does not lead any more.
    pub(crate) async fn check_time(&self, command: &Command) -> Result<(), RpcError> {
        if !needs_time(command) {
            return Ok(());
        }
        let view = self.leader_view();
        let view = view.ok_or_else(|| rpc_errors::not_leader(self.leader_address()))?;
        let settled = self.store_time.settle(&view).await;
        settled.map_err(rpc_errors::no_time)
    }

    /// Returns the slots this session should move now, and how many are planned for it in all
    /// (`u32::MAX`: not known yet).
    pub(crate) fn planned_moves(&self, session: SessionId) -> (Vec<v1::PlannedMove>, u32) {
        let arbiter = self.arbiter.lock();
        let now = (self.clock)();
        self.node.with_state(|state| {
            let mut moves = arbiter.planned_moves(now, state);
            moves.retain(|m| m.from == session);
            let planned = match moves.len() {
                0 if !arbiter.has_complete_view(now, state) => u32::MAX,
                n => n as u32,
            };
            moves.truncate(arbiter.moves_per_renewal(session));
            let epoch = |slot: Slot| state.slots()[usize::from(slot.0)].epoch.0;
            let moves = moves.iter().map(|m| v1::PlannedMove {
                slot: u32::from(m.slot.0),
                epoch: epoch(m.slot),
                target_session: m.to.0,
            });
            (moves.collect(), planned)
        })
    }

    /// Returns the milliseconds since each session's last stamp in this term.
    pub(crate) fn renewal_ages(&self) -> HashMap<SessionId, u64> {
        let arbiter = self.arbiter.lock();
        let now = (self.clock)();
        let ids: Vec<SessionId> = self
            .node
            .with_state(|s| s.sessions().map(|s| s.0).collect());
        let age_ms = |id| Some((id, arbiter.last_renewal_age(id, now)?.as_millis() as u64));
        ids.into_iter().filter_map(age_ms).collect()
    }

    /// Returns which sessions drain, and how many slots are planned to move.
    pub(crate) fn rebalance_status(&self) -> (BTreeSet<SessionId>, u32) {
        let arbiter = self.arbiter.lock();
        let now = (self.clock)();
        let planned = self
            .node
            .with_state(|s| arbiter.planned_moves(now, s).len());
        (arbiter.draining_sessions(), planned as u32)
    }

    /// Returns what store time needs to know of this term; None: this store does not lead, or has
    /// not applied what came before.
    pub(crate) fn leader_view(&self) -> Option<LeaderView> {
        let term = self.leadership().ready_term?;
        let voters = self.node.members().into_iter();
        Some(LeaderView {
            term,
            time: self.node.with_state(State::store_time),
            own_id: self.node.identity().node,
            voters: voters.filter(|m| m.is_voter).map(|m| m.id).collect(),
        })
    }

    /// Writes one log entry: the proposer's way into Raft.
    pub(crate) async fn write_entry(&self, mut batch: Batch) -> Result<Vec<Reply>, ProposalError> {
        let is_stamped = self.store_time.stamp(&mut batch, || self.leader_view());
        let written = self.node.propose(batch).await;
        let replies = written.map(|mut replies| {
            if is_stamped && !replies.is_empty() {
                replies.remove(0);
            }
            replies
        });
        replies.map_err(|e| match e {
            ProposeError::NotLeader { leader } => ProposalError::NotLeader {
                leader: to_address(leader),
            },
            ProposeError::Uncertain | ProposeError::Invalid(_) => {
                ProposalError::Uncertain(e.to_string())
            }
            ProposeError::Stopped(_) => ProposalError::Stopped,
        })
    }

    /// Runs one quorum round: the batcher's way into Raft.
    pub(crate) async fn run_quorum_round(&self) -> Result<(), ReadIndexError> {
        self.node
            .confirm_leadership()
            .await
            .map(drop)
            .map_err(|e| match e {
                ConfirmError::NotLeader { leader } => ReadIndexError::NotLeader {
                    leader: to_address(leader),
                },
                ConfirmError::NoQuorum => ReadIndexError::NoQuorum,
                ConfirmError::Stopped(_) => ReadIndexError::Stopped,
            })
    }
}

/// Returns the address of a leader, if it is known.
pub(crate) fn to_address(leader: Option<(u64, String)>) -> Option<String> {
    leader.map(|(_, address)| address)
}
