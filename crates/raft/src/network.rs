//! Calls to the other nodes: one kept, lazily reconnecting channel a peer.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use parking_lot::Mutex;
use seqsvr_proto::transport::{Transport, connect_lazy};
use seqsvr_proto::v1::raft_client::RaftClient;
use seqsvr_proto::v1::{
    RaftHeader, RaftInitRequest, RaftRefusalReason, RaftRequest, RaftSnapshotChunk,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::frame::{self, Leveled};
use crate::gate::{Gate, Seldom, refused};
use crate::lag::LagBound;
use crate::levels::SupportedLevels;
use crate::lost::Acknowledged;
use crate::machine::Snapshot;
use crate::snapshot::SnapshotFile;
use crate::transfer::Transfer;
use crate::turns::SnapshotTurns;
use crate::twin::VoteSource;
use crate::types::{Peer, TypeConfig, Vote};

/// Longest message either way. The largest append has [`crate::APPEND_BYTES_MAX`] and an entry of
/// [`crate::ENTRY_BYTES_MAX`]; one of an older build has [`crate::ENTRIES_PER_APPEND`] such entries.
pub(crate) const MESSAGE_BYTES_MAX: usize = frame::BODY_MAX + (64 << 10);
/// Bytes a second of the slowest link over which entries pass: an append may take the time that its
/// bytes take on such a link, on top of its limit.
const BYTES_PER_SECOND_MIN: u32 = 64 << 10;
/// A connection that says nothing for so long is given up.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Makes connections; keeps one channel an address.
#[derive(Clone)]
pub(crate) struct Network {
    gate: Arc<Gate>,
    transport: Arc<dyn Transport>,
    channels: Arc<Mutex<HashMap<String, Channel>>>,
    acknowledged: Arc<Acknowledged>,
    levels: Arc<SupportedLevels>,
    told: Arc<Seldom>,
    told_removed: Arc<Seldom>,
    told_snapshot: Arc<Seldom>,
    suspected: Arc<Notify>,
    lag: Option<LagBound>,
    turns: SnapshotTurns,
}

impl Network {
    pub(crate) fn new(gate: Arc<Gate>, transport: Arc<dyn Transport>) -> Network {
        Network {
            gate,
            transport,
            channels: Arc::default(),
            acknowledged: Arc::default(),
            levels: Arc::default(),
            told: Arc::default(),
            told_removed: Arc::default(),
            told_snapshot: Arc::default(),
            suspected: Arc::default(),
            lag: None,
            turns: SnapshotTurns::default(),
        }
    }

    /// Sends no entries to followers that lag by more than this, and no snapshot while a newer one is built.
    pub(crate) fn with_bounds(self, lag: LagBound, turns: SnapshotTurns) -> Network {
        Network {
            lag: Some(lag),
            turns,
            ..self
        }
    }

    /// Format levels that the peers support.
    pub(crate) fn levels(&self) -> &SupportedLevels {
        &self.levels
    }

    /// Notified when a snapshot that this node sent was refused as damaged, or did not read back.
    pub(crate) fn suspected_snapshot(&self) -> Arc<Notify> {
        self.suspected.clone()
    }

    pub(crate) fn connect(&self, target: u64, peer: &Peer) -> Connection {
        Connection {
            client: self.channel(&peer.address).map(|channel| {
                RaftClient::new(channel)
                    .max_decoding_message_size(MESSAGE_BYTES_MAX)
                    .max_encoding_message_size(MESSAGE_BYTES_MAX)
            }),
            network: self.clone(),
            target,
            peer: peer.clone(),
        }
    }

    /// Addresses come from the membership, so the map is bounded by its size over time.
    fn channel(&self, address: &str) -> Result<Channel, String> {
        let mut channels = self.channels.lock();
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let channel = self.fresh(address)?;
        channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    /// A channel that is not kept.
    pub(crate) fn fresh(&self, address: &str) -> Result<Channel, String> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|e| format!("{address} is not an address: {e}"))?
            .connect_timeout(KEEP_ALIVE)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        Ok(connect_lazy(self.transport.clone(), &endpoint))
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &Peer) -> Connection {
        self.connect(target, node)
    }
}

/// Calls to one peer.
pub(crate) struct Connection {
    client: Result<RaftClient<Channel>, String>,
    network: Network,
    target: u64,
    peer: Peer,
}

type Failure = RPCError<TypeConfig>;

impl Connection {
    fn start(&self) -> Result<(RaftClient<Channel>, RaftHeader), Failure> {
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

    async fn call<Q: Serialize, A: DeserializeOwned>(
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
    fn check_vote(&self, vote: &Vote) -> Result<(), Failure> {
        let checked = self.network.gate.check_vote(vote, VoteSource::Answer);
        checked.map_err(|why| Failure::Unreachable(Unreachable::from_string(why)))
    }

    fn timeout(&self, action: RPCTypes, timeout: Duration) -> Failure {
        Failure::Timeout(Timeout {
            action,
            id: self.network.gate.identity().node,
            target: self.target,
            timeout,
        })
    }

    fn failure(&self, status: Status) -> Failure {
        match refused(&status) {
            Some(RaftRefusalReason::Removed) => self.tell_removed(),
            Some(RaftRefusalReason::AnotherProcess) => {
                self.network.gate.end_bearer();
            }
            Some(reason) if self.network.told.allow() => tracing::warn!(
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

    /// Fails if the peer is to be sent a snapshot and not these entries, see [`crate::lag`].
    fn check_lag(&self, rpc: &AppendEntriesRequest<TypeConfig>) -> Result<(), Failure> {
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

    /// Has this node check its own snapshot file, see [`crate::rot`].
    fn suspect_snapshot(&self, error: &dyn std::fmt::Display) {
        if self.network.told_snapshot.allow() {
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
        if !self.network.told_removed.allow() {
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

    /// Asks the peer, which leads, to propose the cluster's first command.
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

#[derive(Clone, Copy)]
enum Kind {
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

    /// Format level of the call: an older build rejects a call that carries a newer entry.
    fn level(self) -> u32 {
        match self {
            Kind::Append { level, .. } => level,
            _ => 1,
        }
    }

    /// Time that a body of so many bytes may take on a link that is only just fast enough.
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

impl RaftNetworkV2<TypeConfig> for Connection {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, Failure> {
        // openraft's limit is one heartbeat interval. That is right for heartbeats; entries are
        // answered after a sync of the other disk, and giving up earlier only sends them again.
        let limit = match rpc.entries.is_empty() {
            true => option.soft_ttl(),
            false => option.hard_ttl() * 10,
        };
        if !rpc.entries.is_empty() {
            self.check_lag(&rpc)?;
        }
        let peer = (self.target, self.peer.incarnation);
        let known = &self.network.acknowledged;
        let acknowledged = known.end(peer, &rpc.vote);
        let levels = rpc.entries.iter().map(|entry| entry.payload.level());
        let kind = Kind::Append {
            acknowledged,
            level: levels.max().unwrap_or(1),
        };
        let answer = self.call(kind, &rpc, limit).await?;
        if let AppendEntriesResponse::HigherVote(vote) = &answer {
            self.check_vote(vote)?;
        }
        known.note(peer, &rpc, &answer);
        Ok(answer)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Failure> {
        // The whole time that openraft waits: the voter's fdatasync is in it.
        let answer: VoteResponse<TypeConfig> =
            self.call(Kind::Vote, &rpc, option.hard_ttl()).await?;
        self.check_vote(&answer.vote)?;
        Ok(answer)
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Failure> {
        let answer: VoteResponse<TypeConfig> =
            self.call(Kind::PreVote, &rpc, option.soft_ttl()).await?;
        self.check_vote(&answer.vote)?;
        Ok(answer)
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, Failure> {
        self.call(Kind::TransferLeader, &req, option.soft_ttl())
            .await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let (mut client, header) = self.start()?;
        let mut turn = self.network.turns.try_send().ok_or_else(|| {
            // openraft asks for the newest snapshot again, soon.
            Unreachable::from_string("a newer snapshot is being built")
        })?;
        let last = snapshot.meta.last_log_id;
        let description =
            frame::encode(&(vote, snapshot.meta)).map_err(|e| NetworkError::new(&e))?;
        let first = RaftSnapshotChunk {
            header: Some(header),
            description: description.into(),
            data: Default::default(),
        };
        let (transfer, chunks) = Transfer::begin(snapshot.snapshot, first);
        let sending = client.install_snapshot(chunks);
        let limit = option.soft_ttl();
        let answer = tokio::select! {
            answer = sending => Some(answer),
            () = transfer.stalled(limit) => None,
            closed = cancel => return Err(closed.into()),
        };
        let is_busy = |answer: &Result<_, Status>| {
            let status = answer.as_ref().err();
            status.is_some_and(|status| status.code() == Code::Aborted)
        };
        if transfer.is_taken() || answer.as_ref().is_some_and(|a| a.is_ok() || is_busy(a)) {
            turn.note_taken();
        }
        // A file that cannot be read ends the stream early; the receiver refuses the stump, and
        // this says why.
        if let Ok(Err(e)) = transfer.reader.await {
            self.suspect_snapshot(&e);
            return Err(NetworkError::new(&e).into());
        }
        let answer = answer.ok_or_else(|| self.timeout(RPCTypes::InstallSnapshot, limit))?;
        let answer = answer.map_err(|status| {
            if status.code() == Code::DataLoss {
                self.suspect_snapshot(&status.message());
            }
            self.failure(status)
        })?;
        let answer = answer.into_inner();
        let answer: SnapshotResponse<TypeConfig> =
            frame::decode(&answer.body).map_err(|e| NetworkError::new(&e))?;
        self.check_vote(&answer.vote)?;
        if let Some(lag) = &self.network.lag {
            lag.note_installed(last);
        }
        Ok(answer)
    }
}
