//! The two calls that need a quorum: writing and confirming.

use std::sync::Arc;
use std::time::Duration;

use openraft::Instant as _;
use openraft::ReadPolicy;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{
    ClientWriteError, Fatal, ForwardToLeader, LinearizableReadError, RaftError,
};
use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_core::state::State;

use super::RaftNode;
use super::leadership;
use crate::detach_on_drop::detach_on_drop;
use crate::error::{ConfirmError, ProposeError};
use crate::limits::BATCH_BYTES_MAX;
use crate::record;
use crate::types::{Proposal, TypeConfig};

impl RaftNode {
    /// Writes a batch; resolves once it is durable on a quorum and applied here. Several may be in
    /// flight; they are written in the order in which the futures were first polled. Waits without
    /// limit while a quorum is missing: a caller that drops the future gives up the wait, not the
    /// batch.
    ///
    /// # Errors
    /// See [`ProposeError`].
    pub async fn propose(&self, batch: Batch) -> Result<Vec<Reply>, ProposeError> {
        if batch.commands.is_empty() {
            return Err(ProposeError::Invalid(String::from("the batch is empty")));
        }
        let bytes = record::encoded_len(&batch);
        if bytes > BATCH_BYTES_MAX {
            return Err(ProposeError::Invalid(format!(
                "the batch has {bytes} bytes, an entry may have {BATCH_BYTES_MAX}"
            )));
        }
        self.check_level(&batch)?;
        let raft = self.inner.raft.clone();
        let write = async move { raft.client_write(Proposal(Arc::new(batch))).await };
        match detach_on_drop(write).await {
            Ok(written) => Ok(written.data),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
                Err(ProposeError::NotLeader {
                    leader: leader_hint(to),
                })
            }
            Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(_))) => {
                Err(ProposeError::Uncertain)
            }
            Err(RaftError::APIError(other)) => Err(ProposeError::Invalid(other.to_string())),
            Err(RaftError::Fatal(fatal)) => Err(ProposeError::Stopped(self.stop_text(&fatal))),
        }
    }

    /// Checks that every member can read the batch.
    ///
    /// Invariant: an entry of a format level is proposed only once the cluster is at that level;
    /// the entry that raises it is checked where it is made. Schedule that breaks it: a store of
    /// the older build rejects the entry by its version, and never follows again.
    fn check_level(&self, batch: &Batch) -> Result<(), ProposeError> {
        let level = self.with_state(State::format_level);
        let needed = batch
            .commands
            .iter()
            .filter(|c| !matches!(c, Command::SetLevel { .. }));
        let needed = needed.map(Command::format_level).max().unwrap_or(level);
        if needed > level {
            return Err(ProposeError::Invalid(format!(
                "the batch needs format level {needed}, the cluster is at {level}: upgrade every store"
            )));
        }
        Ok(())
    }

    /// Confirms by a quorum round that this node leads, then waits until everything committed
    /// before the call is applied here; returns the applied index.
    ///
    /// Invariant: the round *started after the call*, and no call is answered by a round that began
    /// before it. Schedule that breaks leases without it: a keep-alive uses a round begun earlier.
    /// Another leader is elected in between and expires the session, and the client receives the
    /// answer that the session lives. openraft 0.10.0-alpha.37 keeps the invariant:
    /// `RaftCore::handle_get_linearizer` (`openraft:core/raft_core.rs`) takes for each call a
    /// threshold `SendStamp` (now, current heartbeat round). `send_heartbeat` then begins a new
    /// round. `PendingReadQueue::drain_satisfied` answers a call only when a quorum has
    /// acknowledged calls whose sending stamp is strictly greater. Calls do share a round, but only
    /// one begun after the youngest of them. `ReadPolicy::ReadIndex` requests age zero, so the
    /// comparison with earlier acknowledgements is never true. The read index is at least the first
    /// entry of the leader's own term (`LeaderHandler::get_read_log_id`).
    ///
    /// # Errors
    /// See [`ConfirmError`]; takes at most two longest election timeouts.
    pub async fn confirm_leadership(&self) -> Result<u64, ConfirmError> {
        let round = async {
            let raft = self.inner.raft.clone();
            let read = async move { raft.get_read_linearizer(ReadPolicy::ReadIndex).await };
            let linearizer = detach_on_drop(read).await.map_err(|e| match e {
                RaftError::APIError(LinearizableReadError::ForwardToLeader(to)) => {
                    ConfirmError::NotLeader {
                        leader: leader_hint(to),
                    }
                }
                RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)) => {
                    ConfirmError::NoQuorum
                }
                RaftError::Fatal(fatal) => ConfirmError::Stopped(self.stop_text(&fatal)),
            })?;
            let index = linearizer.read_log_id().index();
            let mut progress = self.watch_applied();
            let applied = progress.wait_for(|p| p.index >= index).await;
            applied
                .map(|p| p.index)
                .map_err(|_| ConfirmError::Stopped(String::from("the state is closed")))
        };
        tokio::time::timeout(self.inner.confirm_timeout, round)
            .await
            .unwrap_or(Err(ConfirmError::NoQuorum))
    }

    /// Returns the time since the sending of the last call that a quorum acknowledged; None if this
    /// node does not lead or no quorum has answered it in this term. It is an observation, not a
    /// guarantee: see [`RaftNode::confirm_leadership`].
    pub fn quorum_age(&self) -> Option<Duration> {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.last_quorum_acked.as_ref().map(|at| at.elapsed())
    }

    pub(super) fn stop_text(&self, fatal: &Fatal<TypeConfig>) -> String {
        let failed = self.inner.failed.borrow().clone();
        failed.unwrap_or_else(|| leadership::stop_text(fatal, &self.inner.shared.first_error))
    }
}

fn leader_hint(to: ForwardToLeader<TypeConfig>) -> Option<(u64, String)> {
    to.leader_id.zip(to.leader_node.map(|peer| peer.address))
}
