//! One call to one peer: its header, its time limit, and the meaning of its answer or refusal.

use std::time::Duration;

use openraft::RPCTypes;
use openraft::errors::{NetworkError, RPCError, Timeout, Unreachable};
use openraft::raft::AppendEntriesRequest;
use seqsvr_proto::v1::raft_client::RaftClient;
use seqsvr_proto::v1::{RaftHeader, RaftInitRequest, RaftRefusalReason, RaftRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::Network;
use crate::frame;
use crate::gate::refused;
use crate::twin::VoteSource;
use crate::types::{Peer, TypeConfig, Vote};

/// Bytes a second of the slowest link over which entries pass. An append may take the time that its
/// bytes take on such a link, in addition to its limit.
const BYTES_PER_SECOND_MIN: u32 = 64 << 10;

/// Calls to one peer.
pub(crate) struct Connection {
    pub(super) client: Result<RaftClient<Channel>, String>,
    pub(super) network: Network,
    pub(super) target: u64,
    pub(super) peer: Peer,
}

pub(super) type Failure = RPCError<TypeConfig>;

impl Connection {
    pub(super) fn start(&self) -> Result<(RaftClient<Channel>, RaftHeader), Failure> {
        let unreachable = |text: &str| Failure::Unreachable(Unreachable::from_string(text));
        let client = self.client.clone().map_err(|e| unreachable(&e))?;
        let header = self
            .network
            .gate
            .header(self.target, self.peer.incarnation)
            .ok_or_else(|| {
                unreachable("this node belongs to no cluster, or takes no further part")
            })?;
        Ok((client, header))
    }

    pub(super) async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        kind: Kind,
        request: &Q,
        limit: Duration,
    ) -> Result<A, Failure> {
        let (mut client, header) = self.start()?;
        let body = frame::encode_at(kind.level(), request).map_err(|e| NetworkError::new(&e))?;
        let limit = limit + kind.transfer_time(body.len());
        let request = RaftRequest {
            header: Some(header),
            body: body.into(),
            acknowledged: kind.acknowledged(),
            checkpoint: match kind {
                Kind::Append { .. } => self.network.gate.newest_checkpoint(),
                _ => None,
            },
        };
        let answer = async {
            match kind {
                Kind::Append { .. } => client.append(request).await,
                Kind::Vote => client.vote(request).await,
                Kind::PreVote => client.pre_vote(request).await,
                Kind::TransferLeader => client.transfer_leader(request).await,
            }
        };
        let answer = tokio::time::timeout(limit, answer).await;
        let answer = answer.map_err(|_| self.timeout(kind.rpc_type(), limit))?;
        let answer = answer.map_err(|status| self.failure(status))?.into_inner();
        let peer = (self.target, self.peer.incarnation);
        self.network.levels.note(peer, answer.level);
        if let Some(theirs) = &answer.checkpoint {
            let counted = self.network.gate.count_checkpoint(self.target, theirs);
            counted.map_err(|why| Failure::Unreachable(Unreachable::from_string(why)))?;
        }
        let answer = frame::decode(&answer.body).map_err(|e| NetworkError::new(&e))?;
        Ok(answer)
    }

    /// Checks a vote in an answer before openraft gets it.
    pub(super) fn check_vote(&self, vote: &Vote) -> Result<(), Failure> {
        let checked = self.network.gate.check_vote(vote, VoteSource::Answer);
        checked.map_err(|why| Failure::Unreachable(Unreachable::from_string(why)))
    }

    pub(super) fn timeout(&self, action: RPCTypes, timeout: Duration) -> Failure {
        Failure::Timeout(Timeout {
            action,
            id: self.network.gate.identity().node,
            target: self.target,
            timeout,
        })
    }

    pub(super) fn failure(&self, status: Status) -> Failure {
        match refused(&status) {
            Some(RaftRefusalReason::Removed) => self.tell_removed(),
            Some(RaftRefusalReason::AnotherProcess) => {
                self.network.gate.end_bearer();
            }
            Some(reason) if self.network.refusal_log_limit.allow() => tracing::warn!(
                node = self.target,
                address = %self.peer.address,
                reason = reason.as_str_name(),
                "the node refuses our calls: {}",
                status.message()
            ),
            _ => {}
        }
        match status.code() {
            Code::Cancelled | Code::DeadlineExceeded => NetworkError::new(&status).into(),
            _ => Unreachable::new(&status).into(),
        }
    }

    /// Fails if the peer must receive a snapshot and not these entries, see [`crate::lag`].
    pub(super) fn check_lag(&self, rpc: &AppendEntriesRequest<TypeConfig>) -> Result<(), Failure> {
        let Some(lag) = &self.network.lag else {
            return Ok(());
        };
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

    /// Makes this node check its own snapshot file, see [`crate::rot`].
    pub(super) fn suspect_snapshot(&self, error: &dyn std::fmt::Display) {
        if self.network.snapshot_log_limit.allow() {
            tracing::warn!(
                node = self.target,
                address = %self.peer.address,
                %error,
                "snapshot not accepted as whole; checking the own file"
            );
        }
        self.network.suspected.notify_one();
    }

    fn tell_removed(&self) {
        if !self.network.removal_log_limit.allow() {
            return;
        }
        let node = self.network.gate.identity().node;
        tracing::warn!(
            node,
            leader = self.target,
            address = %self.peer.address,
            "this node was removed from the cluster and takes no further part: stop it. To use the machine again, start a store with an empty --data-dir and an --id that was never used, and run `seqsvr member add ID=ADDR`"
        );
    }

    /// Calls the peer, which leads, to propose the cluster's first command.
    pub(crate) async fn propose_init(
        &self,
        lease_ms: u32,
        slots: u32,
        limit: Duration,
    ) -> Result<(), String> {
        let (mut client, header) = self.start().map_err(|e| e.to_string())?;
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
pub(super) enum Kind {
    Append { acknowledged: u64, level: u32 },
    Vote,
    PreVote,
    TransferLeader,
}

impl Kind {
    fn rpc_type(self) -> RPCTypes {
        match self {
            Kind::Append { .. } => RPCTypes::AppendEntries,
            Kind::Vote | Kind::PreVote => RPCTypes::Vote,
            Kind::TransferLeader => RPCTypes::TransferLeader,
        }
    }

    /// Returns the format level of the call: an older build rejects a call that carries a newer
    /// entry.
    fn level(self) -> u32 {
        match self {
            Kind::Append { level, .. } => level,
            _ => 1,
        }
    }

    /// Returns the time that a body of this size may take on the slowest link that is fast enough.
    fn transfer_time(self, bytes: usize) -> Duration {
        match self {
            Kind::Append { .. } => Duration::from_secs(bytes as u64) / BYTES_PER_SECOND_MIN,
            _ => Duration::ZERO,
        }
    }

    fn acknowledged(self) -> u64 {
        match self {
            Kind::Append { acknowledged, .. } => acknowledged,
            _ => 0,
        }
    }
}
