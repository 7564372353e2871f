//! One call to one peer: its header, its time limit, and the meaning of its answer or rejection.

use std::sync::Arc;
use std::time::Duration;

use openraft::RPCTypes;
use openraft::errors::{NetworkError, RPCError, Timeout, Unreachable};
use openraft::raft::AppendEntriesRequest;
use seqsvr_proto::error::local_cause;
use seqsvr_proto::v1::raft_client::RaftClient;
use seqsvr_proto::v1::{RaftHeader, RaftInitRequest, RaftRejectionReason, RaftRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::record;
use crate::rpc::ack_tracker::AckTracker;
use crate::rpc::duplicate_id::VoteSource;
use crate::rpc::identity_check::{IdentityCheck, rejection_reason};
use crate::rpc::lag_bound::LagBound;
use crate::rpc::log_throttle::LogThrottle;
use crate::rpc::peer_levels::PeerLevels;
use crate::rpc::silence_log::SilenceLog;
use crate::state::snapshot_turns::SnapshotTurns;
use crate::types::{Peer, TypeConfig, Vote};

/// Longest message either way. The largest append has [`APPEND_BYTES_MAX`] bytes and an entry of
/// [`BATCH_BYTES_MAX`] bytes; one of an older build has [`ENTRIES_PER_APPEND_MAX`] such entries.
///
/// [`APPEND_BYTES_MAX`]: crate::limits::APPEND_BYTES_MAX
/// [`BATCH_BYTES_MAX`]: crate::limits::BATCH_BYTES_MAX
/// [`ENTRIES_PER_APPEND_MAX`]: crate::limits::ENTRIES_PER_APPEND_MAX
pub(crate) const MESSAGE_BYTES_MAX: usize = record::BODY_MAX + (64 << 10);
/// Bytes a second of the slowest link over which entries pass. An append may take the time that its
/// bytes take on such a link, in addition to its limit.
const BYTES_PER_SECOND_MIN: u32 = 64 << 10;

/// State that all clients of one node share.
#[derive(Clone)]
pub(crate) struct PeerContext {
    pub(super) identity_check: Arc<IdentityCheck>,
    pub(super) acks: Arc<AckTracker>,
    pub(super) peer_levels: Arc<PeerLevels>,
    pub(super) rejection_log_throttle: Arc<LogThrottle>,
    pub(super) removal_log_throttle: Arc<LogThrottle>,
    pub(super) snapshot_log_throttle: Arc<LogThrottle>,
    pub(super) silence_log: Arc<SilenceLog>,
    pub(super) snapshot_suspicions: Arc<Notify>,
    pub(super) lag_bound: LagBound,
    pub(super) turns: SnapshotTurns,
}

/// Calls to one peer.
pub(crate) struct PeerClient {
    pub(super) client: Result<RaftClient<Channel>, String>,
    pub(super) context: PeerContext,
    pub(super) target: u64,
    pub(super) peer: Peer,
}

pub(super) type PeerCallError = RPCError<TypeConfig>;

impl PeerClient {
    pub(super) fn prepare_call(&self) -> Result<(RaftClient<Channel>, RaftHeader), PeerCallError> {
        let unreachable = |text: &str| PeerCallError::Unreachable(Unreachable::from_string(text));
        let client = self.client.clone().map_err(|e| unreachable(&e))?;
        let header = self
            .context
            .identity_check
            .call_header(self.target, self.peer.incarnation)
            .ok_or_else(|| unreachable("this node belongs to no cluster, or it is stopped"))?;
        Ok((client, header))
    }

    pub(super) async fn call_peer<Q: Serialize, A: DeserializeOwned>(
        &self,
        kind: PeerCallKind,
        request: &Q,
        limit: Duration,
    ) -> Result<A, PeerCallError> {
        let (mut client, header) = self.prepare_call()?;
        let body = record::encode_at_level(kind.format_level(), request)
            .map_err(|e| NetworkError::new(&e))?;
        let limit = limit + kind.transfer_time(body.len());
        let request = RaftRequest {
            header: Some(header),
            body: body.into(),
            acked_end_index: kind.acknowledged_end(),
            checkpoint: match kind {
                PeerCallKind::Append { .. } => self.context.identity_check.newest_checkpoint(),
                _ => None,
            },
        };
        let answer = async {
            match kind {
                PeerCallKind::Append { .. } => client.append(request).await,
                PeerCallKind::Vote => client.vote(request).await,
                PeerCallKind::PreVote => client.pre_vote(request).await,
                PeerCallKind::TransferLeader => client.transfer_leader(request).await,
            }
        };
        let answer = tokio::time::timeout(limit, answer).await;
        if let PeerCallKind::Append { .. } = kind {
            let failure = match &answer {
                Err(_) => Some(format!("no answer within {limit:?}")),
                Ok(Err(status)) => local_cause(status),
                Ok(Ok(_)) => None,
            };
            let silence = &self.context.silence_log;
            silence.record(self.target, &self.peer.address, failure.as_deref());
        }
        let answer = answer.map_err(|_| self.timeout_error(kind.rpc_type(), limit))?;
        let answer = answer
            .map_err(|status| self.call_error(status))?
            .into_inner();
        let peer = (self.target, self.peer.incarnation);
        self.context.peer_levels.record_answer(peer, answer.level);
        if let Some(theirs) = &answer.checkpoint {
            let counted = self
                .context
                .identity_check
                .count_checkpoint(self.target, theirs);
            counted.map_err(|why| PeerCallError::Unreachable(Unreachable::from_string(why)))?;
        }
        let answer = record::decode(&answer.body).map_err(|e| NetworkError::new(&e))?;
        Ok(answer)
    }

    /// Checks a vote in an answer before openraft gets it.
    pub(super) fn check_vote(&self, vote: &Vote) -> Result<(), PeerCallError> {
        let checked = self
            .context
            .identity_check
            .check_vote(vote, VoteSource::Answer);
        checked.map_err(|why| PeerCallError::Unreachable(Unreachable::from_string(why)))
    }

    pub(super) fn timeout_error(&self, action: RPCTypes, timeout: Duration) -> PeerCallError {
        PeerCallError::Timeout(Timeout {
            action,
            id: self.context.identity_check.identity().node,
            target: self.target,
            timeout,
        })
    }

    pub(super) fn call_error(&self, status: Status) -> PeerCallError {
        match rejection_reason(&status) {
            Some(RaftRejectionReason::Removed) => self.log_removal(),
            Some(RaftRejectionReason::AnotherProcess) => {
                self.context.identity_check.stop_as_vote_duplicate();
            }
            Some(reason) if self.context.rejection_log_throttle.allow() => tracing::warn!(
                node = self.target,
                address = %self.peer.address,
                reason = reason.as_str_name(),
                detail = status.message(),
                "calls of this node are rejected"
            ),
            _ => {}
        }
        match status.code() {
            Code::Cancelled | Code::DeadlineExceeded => NetworkError::new(&status).into(),
            _ => Unreachable::new(&status).into(),
        }
    }

    /// Fails if the peer must receive a snapshot and not these entries, see
    /// [`crate::rpc::lag_bound`].
    pub(super) fn check_lag(
        &self,
        rpc: &AppendEntriesRequest<TypeConfig>,
    ) -> Result<(), PeerCallError> {
        let lag = &self.context.lag_bound;
        if !lag.is_exceeded(rpc.prev_log_id, rpc.leader_commit) {
            return Ok(());
        }
        let next = rpc.prev_log_id.map_or(0, |id| id.index + 1);
        tracing::info!(
            node = self.target,
            next,
            committed = rpc.leader_commit.map(|id| id.index),
            "follower lags too far; sending a snapshot instead of entries"
        );
        let text = "the follower lags too far for entries";
        Err(NetworkError::from_string(text).into())
    }

    /// Makes this node check its own snapshot file, see [`crate::node::snapshot_repair`].
    pub(super) fn suspect_snapshot(&self, error: &dyn std::fmt::Display) {
        if self.context.snapshot_log_throttle.allow() {
            tracing::warn!(
                node = self.target,
                address = %self.peer.address,
                %error,
                "follower rejected the snapshot; checking the local snapshot file"
            );
        }
        self.context.snapshot_suspicions.notify_one();
    }

    fn log_removal(&self) {
        if !self.context.removal_log_throttle.allow() {
            return;
        }
        let node = self.context.identity_check.identity().node;
        tracing::warn!(
            node,
            leader = self.target,
            address = %self.peer.address,
            "this node was removed from the cluster; stop it. To use the machine again, start a store with an empty --data-dir and an --id that was never used, and run `seqsvr member add ID=ADDR`"
        );
    }

    /// Calls the peer, which leads, to propose the cluster's first command.
    pub(crate) async fn propose_init(
        &self,
        lease_ms: u32,
        slots: u32,
        limit: Duration,
    ) -> Result<(), String> {
        let (mut client, header) = self.prepare_call().map_err(|e| e.to_string())?;
        let request = RaftInitRequest {
            header: Some(header),
            lease_ms,
            slots,
        };
        match tokio::time::timeout(limit, client.propose_init(request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(status)) => Err(status.message().to_owned()),
            Err(_) => Err(String::from("the leader did not answer in time")),
        }
    }
}

/// Kind of a call, and what it carries in addition to its body.
#[derive(Clone, Copy)]
pub(super) enum PeerCallKind {
    Append { acknowledged: u64, level: u32 },
    Vote,
    PreVote,
    TransferLeader,
}

impl PeerCallKind {
    fn rpc_type(self) -> RPCTypes {
        match self {
            PeerCallKind::Append { .. } => RPCTypes::AppendEntries,
            PeerCallKind::Vote | PeerCallKind::PreVote => RPCTypes::Vote,
            PeerCallKind::TransferLeader => RPCTypes::TransferLeader,
        }
    }

    /// Returns the format level of the call: an older build rejects a call that carries a newer
    /// entry.
    fn format_level(self) -> u32 {
        match self {
            PeerCallKind::Append { level, .. } => level,
            _ => 1,
        }
    }

    /// Returns the time that a body of this size may take on the slowest link that is fast enough.
    fn transfer_time(self, bytes: usize) -> Duration {
        match self {
            PeerCallKind::Append { .. } => Duration::from_secs(bytes as u64) / BYTES_PER_SECOND_MIN,
            _ => Duration::ZERO,
        }
    }

    fn acknowledged_end(self) -> u64 {
        match self {
            PeerCallKind::Append { acknowledged, .. } => acknowledged,
            _ => 0,
        }
    }
}
