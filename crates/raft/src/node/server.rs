//! Serves calls from the other nodes. Each passes the identity check first, then goes to openraft.

use std::sync::Arc;

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest,
};
use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_net::{StreamMeter, caller_of};
use seqsvr_proto::v1::raft_server::{self, RaftServer};
use seqsvr_proto::v1::{
    RaftHeader, RaftInitRequest, RaftInitResponse, RaftRequest, RaftResponse, RaftSnapshotChunk,
};
use serde::Serialize;
use tonic::{Extensions, Request, Response, Status, Streaming};

use crate::detach_on_drop::detach_on_drop;
use crate::node::RaftNode;
use crate::record;
use crate::rpc::duplicate_id::{VoteClaim, VoteSource};
use crate::rpc::identity_check::IdentityCheck;
use crate::rpc::log_throttle::LogThrottle;
use crate::rpc::peer_client::MESSAGE_BYTES_MAX;
use crate::rpc::snapshot_receiver::{
    ChunkStream, ReceivedFile, prepare_snapshot, snapshot_bytes_max,
};
use crate::rpc::status::{internal_status, unavailable_status};
use crate::state::snapshot::{Snapshot, SnapshotFile};
use crate::types::{SnapshotMeta, TypeConfig, Vote};

/// The Raft service of one node.
pub struct RaftService {
    node: RaftNode,
    identity_check: Arc<IdentityCheck>,
    /// One snapshot is received at a time.
    receive_lock: Arc<tokio::sync::Mutex<()>>,
    snapshot_log_throttle: Arc<LogThrottle>,
}

impl RaftNode {
    /// Returns the service that the other nodes call; mount it under this node's address.
    pub fn service(&self) -> RaftServer<RaftService> {
        RaftServer::new(RaftService {
            node: self.clone(),
            identity_check: self.inner.identity_check.clone(),
            receive_lock: Arc::default(),
            snapshot_log_throttle: Arc::default(),
        })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }
}

impl RaftService {
    async fn decode_authorized<Q: serde::de::DeserializeOwned>(
        &self,
        request: Request<RaftRequest>,
    ) -> Result<(Q, CheckedSender), Status> {
        let (_, extensions, request) = request.into_parts();
        let sender = self.check_header(request.header, &extensions).await?;
        let rpc = record::decode(&request.body);
        let rpc = rpc.map_err(|e| Status::invalid_argument(e.to_string()))?;
        Ok((rpc, sender))
    }

    /// Checks the header of a call and the certificate of its caller, unless this node may take no
    /// further part.
    async fn check_header(
        &self,
        header: Option<RaftHeader>,
        extensions: &Extensions,
    ) -> Result<CheckedSender, Status> {
        let stop_reason = self.identity_check.watch_stop_reason().borrow().clone();
        if let Some(why) = stop_reason {
            return Err(Status::unavailable(why));
        }
        let certificate = caller_of(extensions).certificate()?;
        let sender = CheckedSender {
            id: header.as_ref().map_or(0, |header| header.sender),
            process: header.as_ref().map_or(0, |header| header.sender_process),
            is_certified: certificate.is_some(),
        };
        self.identity_check
            .check_header(header, certificate)
            .await?;
        Ok(sender)
    }

    /// Checks a vote in a call before openraft gets it.
    fn check_vote(&self, vote: &Vote, sender: &CheckedSender) -> Result<(), Status> {
        if !sender.may_carry(vote) {
            let text = format!("the call of node {} carries another node's vote", sender.id);
            return Err(Status::permission_denied(text));
        }
        let checked = self.identity_check.check_vote(vote, VoteSource::Request);
        checked.map_err(Status::unavailable)
    }

    fn encode_answer<A: Serialize>(&self, answer: &A) -> RaftAnswer {
        let body = record::encode(answer).map_err(internal_status)?.into();
        // A build of level 1 answers 0.
        let level = Some(self.identity_check.level_max()).filter(|level| *level > 1);
        Ok(Response::new(RaftResponse {
            body,
            level: level.unwrap_or(0),
            checkpoint: None,
        }))
    }

    async fn receive_snapshot(
        &self,
        mut chunks: ChunkStream<Streaming<RaftSnapshotChunk>>,
        extensions: &Extensions,
    ) -> RaftAnswer {
        let first = chunks
            .next()
            .await?
            .ok_or_else(|| Status::invalid_argument("an empty stream"))?;
        let sender = self.check_header(first.header, extensions).await?;
        let (vote, meta): (Vote, SnapshotMeta) = record::decode(&first.description)
            .map_err(|e| Status::invalid_argument(e.to_string()))?;
        self.check_vote(&vote, &sender)?;
        self.identity_check
            .claim_vote(&vote, sender.process, VoteClaim::Leader)?;
        // The sender retries soon, and builds no other snapshot until then.
        let permit = self
            .receive_lock
            .clone()
            .try_lock_owned()
            .map_err(|_| Status::aborted("another snapshot is being received"))?;
        let directory = self.identity_check.snapshots_path();
        let received = ReceivedFile::create(directory.join("received.part"))?;
        // The sender went away before an earlier install was done. openraft answers without the
        // file.
        let is_done = self.node.has_applied(meta.last_log_id);
        if !is_done {
            let bytes_max = snapshot_bytes_max(directory);
            chunks.write_to(received.open_append()?, bytes_max).await?;
        }
        let snapshot = SnapshotFile::open(&received.0).map_err(internal_status)?;
        let (node, log_throttle) = (self.node.clone(), self.snapshot_log_throttle.clone());
        // The install runs to its end without the sender, whose next attempt then finds it done.
        // The file must stay for as long as openraft works with it.
        let answer = detach_on_drop(async move {
            let answer = match is_done {
                true => Ok(snapshot),
                false => prepare_snapshot(snapshot, &meta, sender.id, &log_throttle).await,
            };
            let answer = match answer {
                Ok(snapshot) => {
                    let snapshot = Snapshot { meta, snapshot };
                    node.install_snapshot(vote, snapshot)
                        .await
                        .map_err(unavailable_status)
                }
                Err(status) => Err(status),
            };
            drop((received, permit));
            answer
        })
        .await?;
        self.encode_answer(&answer)
    }
}

type RaftAnswer = Result<Response<RaftResponse>, Status>;

/// Sender of a call whose header was checked.
struct CheckedSender {
    id: u64,
    /// Random number of its process; 0: a build of format level 1.
    process: u64,
    /// Whether it has a certificate: the connection is under TLS.
    is_certified: bool,
}

impl CheckedSender {
    /// Returns whether a call of the sender may carry this vote: candidates and leaders send their
    /// own. Without TLS the sender is not known.
    fn may_carry(&self, vote: &Vote) -> bool {
        !self.is_certified || vote.leader_id.voted_for == self.id
    }
}

#[tonic::async_trait]
impl raft_server::Raft for RaftService {
    async fn append(&self, request: Request<RaftRequest>) -> RaftAnswer {
        let acknowledged = request.get_ref().acked_end_index;
        let theirs = request.get_ref().checkpoint.clone();
        let (rpc, sender): (AppendEntriesRequest<TypeConfig>, _) =
            self.decode_authorized(request).await?;
        self.check_vote(&rpc.vote, &sender)?;
        let checked = self
            .identity_check
            .claim_vote(&rpc.vote, sender.process, VoteClaim::Leader);
        checked?;
        let checked = self.node.check_log_extent(&rpc.vote, acknowledged);
        checked.map_err(Status::unavailable)?;
        let compared = theirs.map(|theirs| self.identity_check.compare_checkpoint(&theirs));
        let own = compared.transpose().map_err(Status::unavailable)?.flatten();
        let raft = self.node.inner.raft.clone();
        let answer = detach_on_drop(async move { raft.append_entries(rpc).await }).await;
        let answer = answer.map_err(unavailable_status)?;
        if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
            self.node.note_leader_contact();
        }
        let mut answer = self.encode_answer(&answer)?;
        answer.get_mut().checkpoint = own;
        Ok(answer)
    }

    async fn vote(&self, request: Request<RaftRequest>) -> RaftAnswer {
        let (rpc, sender): (VoteRequest<TypeConfig>, _) = self.decode_authorized(request).await?;
        self.check_vote(&rpc.vote, &sender)?;
        let checked = self
            .identity_check
            .claim_vote(&rpc.vote, sender.process, VoteClaim::Vote);
        checked?;
        let raft = self.node.inner.raft.clone();
        let answer = detach_on_drop(async move { raft.vote(rpc).await }).await;
        self.encode_answer(&answer.map_err(unavailable_status)?)
    }

    async fn pre_vote(&self, request: Request<RaftRequest>) -> RaftAnswer {
        let (rpc, sender): (VoteRequest<TypeConfig>, _) = self.decode_authorized(request).await?;
        self.check_vote(&rpc.vote, &sender)?;
        // A leader with a quorum grants no pre-vote anyway. This answer says why, so that the
        // removed node can report it to its operator.
        if self.node.has_removed(sender.id) {
            return Err(self.identity_check.removed_status());
        }
        let raft = self.node.inner.raft.clone();
        let answer = detach_on_drop(async move { raft.pre_vote(rpc).await }).await;
        self.encode_answer(&answer.map_err(unavailable_status)?)
    }

    async fn transfer_leader(&self, request: Request<RaftRequest>) -> RaftAnswer {
        let (rpc, sender): (TransferLeaderRequest<TypeConfig>, _) =
            self.decode_authorized(request).await?;
        self.check_vote(rpc.from_leader(), &sender)?;
        let raft = self.node.inner.raft.clone();
        let answer = detach_on_drop(async move { raft.handle_transfer_leader(rpc).await }).await;
        self.encode_answer(&answer.map_err(unavailable_status)?)
    }

    async fn install_snapshot(&self, request: Request<Streaming<RaftSnapshotChunk>>) -> RaftAnswer {
        let (_, extensions, chunks) = request.into_parts();
        let meter = extensions.get::<StreamMeter>().cloned();
        self.receive_snapshot(ChunkStream::new(chunks, meter), &extensions)
            .await
    }

    async fn propose_init(
        &self,
        request: Request<RaftInitRequest>,
    ) -> Result<Response<RaftInitResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        self.check_header(request.header, &extensions).await?;
        let cluster = self
            .identity_check
            .identity()
            .cluster
            .ok_or_else(|| Status::internal("let in without a cluster"))?;
        let init = Command::Init {
            cluster,
            lease_ms: request.lease_ms,
            slots: request.slots,
        };
        let batch = Batch {
            commands: vec![init],
        };
        let replies = self.node.propose(batch).await.map_err(unavailable_status)?;
        match replies.first() {
            Some(Reply::Done) => Ok(Response::new(RaftInitResponse {})),
            Some(Reply::Rejected(refusal)) => Err(Status::invalid_argument(refusal.to_string())),
            other => Err(Status::internal(format!("unexpected reply {other:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Schedule: the holder of the key of store 2 requests votes for store 3 in a call of store 2.
    #[test]
    fn certified_sender_carries_its_own_vote_only() {
        let vote_of_3 = Vote::new(7, 3);
        for (id, is_certified, expected) in [
            (3, true, true),
            (2, true, false),
            (3, false, true),
            (2, false, true),
        ] {
            let sender = CheckedSender {
                id,
                process: 1,
                is_certified,
            };
            assert_eq!(
                sender.may_carry(&vote_of_3),
                expected,
                "{id} {is_certified}"
            );
        }
    }
}
