//! Serves calls from the other nodes. Each passes the gate first, then goes to openraft.

use std::sync::Arc;

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest,
};
use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_proto::v1::raft_server;
use seqsvr_proto::v1::{
    RaftHeader, RaftInitRequest, RaftInitResponse, RaftRequest, RaftResponse, RaftSnapshotChunk,
};
use serde::Serialize;
use tonic::{Request, Response, Status, Streaming};

use crate::frame;
use crate::gate::{BearerCall, Gate, Seldom};
use crate::machine::Snapshot;
use crate::node::Node;
use crate::outlive::outliving;
use crate::received::{Received, next, prepare, write_chunks};
use crate::snapshot::SnapshotFile;
use crate::twin::VoteSource;
use crate::types::{SnapshotMeta, TypeConfig, Vote};

/// The Raft service of one node.
pub struct Service {
    node: Node,
    gate: Arc<Gate>,
    /// One snapshot is received at a time.
    receiving: Arc<tokio::sync::Mutex<()>>,
    snapshot_log_limit: Arc<Seldom>,
}

impl Service {
    pub(crate) fn new(node: Node, gate: Arc<Gate>) -> Service {
        Service {
            node,
            gate,
            receiving: Arc::default(),
            snapshot_log_limit: Arc::default(),
        }
    }

    async fn admit<Q: serde::de::DeserializeOwned>(
        &self,
        request: Request<RaftRequest>,
    ) -> Result<Q, Status> {
        let request = request.into_inner();
        self.let_in(request.header).await?;
        frame::decode(&request.body).map_err(|e| Status::invalid_argument(e.to_string()))
    }

    /// Passes a call through the gate, unless this node may take no further part.
    async fn let_in(&self, header: Option<RaftHeader>) -> Result<(), Status> {
        match self.node.lost() {
            Some(why) => Err(Status::unavailable(why)),
            None => self.gate.admit(header).await,
        }
    }

    /// Checks a vote in a call before openraft gets it.
    fn check_vote(&self, vote: &Vote) -> Result<(), Status> {
        let checked = self.gate.check_vote(vote, VoteSource::Request);
        checked.map_err(Status::unavailable)
    }

    fn answer<A: Serialize>(&self, answer: &A) -> Answer {
        let body = frame::encode(answer).map_err(internal)?.into();
        // A build of level 1 answers 0.
        let level = Some(self.gate.level_max()).filter(|level| *level > 1);
        Ok(Response::new(RaftResponse {
            body,
            level: level.unwrap_or(0),
            checkpoint: None,
        }))
    }

    async fn receive(&self, mut chunks: Streaming<RaftSnapshotChunk>) -> Answer {
        let first = next(&mut chunks)
            .await?
            .ok_or_else(|| Status::invalid_argument("an empty stream"))?;
        let process = process_of(first.header.as_ref());
        let sender = first.header.as_ref().map_or(0, |h| h.sender);
        self.let_in(first.header).await?;
        let (vote, meta): (Vote, SnapshotMeta) = frame::decode(&first.description)
            .map_err(|e| Status::invalid_argument(e.to_string()))?;
        self.check_vote(&vote)?;
        self.gate.check_bearer(&vote, process, BearerCall::Leader)?;
        // The sender retries soon, and builds no other snapshot until then.
        let one = self
            .receiving
            .clone()
            .try_lock_owned()
            .map_err(|_| Status::aborted("another snapshot is being received"))?;
        let path = self.gate.snapshots().join("received.part");
        let received = Received::create(path)?;
        // The sender went away before an earlier install was done. openraft answers without the
        // file.
        let is_done = self.node.has_applied(meta.last_log_id);
        if !is_done {
            write_chunks(received.file()?, &mut chunks).await?;
        }
        let snapshot = SnapshotFile::open(&received.0).map_err(internal)?;
        let (node, log_limit) = (self.node.clone(), self.snapshot_log_limit.clone());
        // The install runs to its end without the sender, whose next attempt then finds it done.
        // The file must stay for as long as openraft works with it.
        let answer = outliving(async move {
            let answer = match is_done {
                true => Ok(snapshot),
                false => prepare(snapshot, &meta, sender, &log_limit).await,
            };
            let answer = match answer {
                Ok(snapshot) => {
                    let snapshot = Snapshot { meta, snapshot };
                    node.install(vote, snapshot).await.map_err(unavailable)
                }
                Err(status) => Err(status),
            };
            drop((received, one));
            answer
        })
        .await?;
        self.answer(&answer)
    }
}

type Answer = Result<Response<RaftResponse>, Status>;

/// Returns the random number of the sender's process; 0: a build of format level 1.
fn process_of(header: Option<&RaftHeader>) -> u64 {
    header.map_or(0, |header| header.sender_process)
}

#[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
pub(crate) fn internal(error: std::io::Error) -> Status {
    Status::internal(error.to_string())
}

fn unavailable(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

#[tonic::async_trait]
impl raft_server::Raft for Service {
    async fn append(&self, request: Request<RaftRequest>) -> Answer {
        let acknowledged = request.get_ref().acknowledged;
        let theirs = request.get_ref().checkpoint.clone();
        let process = process_of(request.get_ref().header.as_ref());
        let rpc: AppendEntriesRequest<TypeConfig> = self.admit(request).await?;
        self.check_vote(&rpc.vote)?;
        let checked = self
            .gate
            .check_bearer(&rpc.vote, process, BearerCall::Leader);
        checked?;
        let judged = self.node.judge(&rpc.vote, acknowledged);
        judged.map_err(Status::unavailable)?;
        let compared = theirs.map(|theirs| self.gate.compare_checkpoint(&theirs));
        let own = compared.transpose().map_err(Status::unavailable)?.flatten();
        let raft = self.node.raft().clone();
        let answer = outliving(async move { raft.append_entries(rpc).await }).await;
        let answer = answer.map_err(unavailable)?;
        if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
            self.node.note_leader();
        }
        let mut answer = self.answer(&answer)?;
        answer.get_mut().checkpoint = own;
        Ok(answer)
    }

    async fn vote(&self, request: Request<RaftRequest>) -> Answer {
        let process = process_of(request.get_ref().header.as_ref());
        let rpc: VoteRequest<TypeConfig> = self.admit(request).await?;
        self.check_vote(&rpc.vote)?;
        let checked = self.gate.check_bearer(&rpc.vote, process, BearerCall::Vote);
        checked?;
        let raft = self.node.raft().clone();
        let answer = outliving(async move { raft.vote(rpc).await }).await;
        self.answer(&answer.map_err(unavailable)?)
    }

    async fn pre_vote(&self, request: Request<RaftRequest>) -> Answer {
        let header = request.get_ref().header.as_ref();
        let sender = header.map_or(0, |h| h.sender);
        let rpc: VoteRequest<TypeConfig> = self.admit(request).await?;
        self.check_vote(&rpc.vote)?;
        // A leader with a quorum grants no pre-vote anyway. This answer says why, so that the
        // removed node can report it to its operator.
        if self.node.has_removed(sender) {
            return Err(self.gate.removed());
        }
        let raft = self.node.raft().clone();
        let answer = outliving(async move { raft.pre_vote(rpc).await }).await;
        self.answer(&answer.map_err(unavailable)?)
    }

    async fn transfer_leader(&self, request: Request<RaftRequest>) -> Answer {
        let rpc: TransferLeaderRequest<TypeConfig> = self.admit(request).await?;
        self.check_vote(rpc.from_leader())?;
        let raft = self.node.raft().clone();
        let answer = outliving(async move { raft.handle_transfer_leader(rpc).await }).await;
        self.answer(&answer.map_err(unavailable)?)
    }

    async fn install_snapshot(&self, request: Request<Streaming<RaftSnapshotChunk>>) -> Answer {
        self.receive(request.into_inner()).await
    }

    async fn propose_init(
        &self,
        request: Request<RaftInitRequest>,
    ) -> Result<Response<RaftInitResponse>, Status> {
        let request = request.into_inner();
        self.let_in(request.header).await?;
        let cluster = self
            .gate
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
        let replies = self.node.propose(batch).await.map_err(unavailable)?;
        match replies.first() {
            Some(Reply::Done) => Ok(Response::new(RaftInitResponse {})),
            Some(Reply::Refused(refusal)) => Err(Status::invalid_argument(refusal.to_string())),
            other => Err(Status::internal(format!("unexpected reply {other:?}"))),
        }
    }
}
