//! The calls that openraft makes to a peer.

use std::future::Future;

use openraft::errors::{NetworkError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{RPCTypes, RaftNetworkV2};
use seqsvr_proto::v1::RaftSnapshotChunk;
use tonic::{Code, Status};

use super::peer_client::{PeerCallError, PeerCallKind, PeerClient};
use crate::record::{self, HasFormatLevel};
use crate::rpc::snapshot_transfer::SnapshotTransfer;
use crate::state::snapshot::{Snapshot, SnapshotFile};
use crate::types::{TypeConfig, Vote};

impl RaftNetworkV2<TypeConfig> for PeerClient {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, PeerCallError> {
        // openraft's limit is one heartbeat interval. That is right for heartbeats. Entries are
        // answered after a sync of the other disk, and a shorter limit only sends them again.
        let limit = match rpc.entries.is_empty() {
            true => option.soft_ttl(),
            false => option.hard_ttl() * 10,
        };
        if !rpc.entries.is_empty() {
            self.check_lag(&rpc)?;
        }
        let peer = (self.target, self.peer.incarnation);
        let known = &self.context.acks;
        let acknowledged = known.acknowledged_end(peer, &rpc.vote);
        let levels = rpc.entries.iter().map(|entry| entry.payload.format_level());
        let kind = PeerCallKind::Append {
            acknowledged,
            level: levels.max().unwrap_or(1),
        };
        let answer = self.call_peer(kind, &rpc, limit).await?;
        if let AppendEntriesResponse::HigherVote(vote) = &answer {
            self.check_vote(vote)?;
        }
        known.record_answer(peer, &rpc, &answer);
        Ok(answer)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, PeerCallError> {
        // The whole time that openraft waits: it includes the voter's fdatasync.
        let answer: VoteResponse<TypeConfig> = self
            .call_peer(PeerCallKind::Vote, &rpc, option.hard_ttl())
            .await?;
        self.check_vote(&answer.vote)?;
        Ok(answer)
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, PeerCallError> {
        let answer: VoteResponse<TypeConfig> = self
            .call_peer(PeerCallKind::PreVote, &rpc, option.soft_ttl())
            .await?;
        self.check_vote(&answer.vote)?;
        Ok(answer)
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, PeerCallError> {
        self.call_peer(PeerCallKind::TransferLeader, &req, option.soft_ttl())
            .await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let (mut client, header) = self.prepare_call()?;
        let mut turn = self.context.turns.try_send().ok_or_else(|| {
            // openraft requests the newest snapshot again, soon.
            Unreachable::from_string("a newer snapshot is being built")
        })?;
        let last = snapshot.meta.last_log_id;
        let description =
            record::encode(&(vote, snapshot.meta)).map_err(|e| NetworkError::new(&e))?;
        let first = RaftSnapshotChunk {
            header: Some(header),
            description: description.into(),
            data: Default::default(),
        };
        let (transfer, chunks) = SnapshotTransfer::start(snapshot.snapshot, first);
        let sending = client.install_snapshot(chunks);
        let limit = option.soft_ttl();
        let answer = tokio::select! {
            answer = sending => Some(answer),
            () = transfer.wait_until_stalled(limit) => None,
            closed = cancel => return Err(closed.into()),
        };
        let is_busy = |answer: &Result<_, Status>| {
            let status = answer.as_ref().err();
            status.is_some_and(|status| status.code() == Code::Aborted)
        };
        if transfer.is_peer_active() || answer.as_ref().is_some_and(|a| a.is_ok() || is_busy(a)) {
            turn.mark_peer_active();
        }
        // A file that cannot be read ends the stream early. The receiver rejects the incomplete
        // file, and this logs why.
        if let Ok(Err(e)) = transfer.reader.await {
            self.suspect_snapshot(&e);
            return Err(NetworkError::new(&e).into());
        }
        let answer = answer.ok_or_else(|| self.timeout_error(RPCTypes::InstallSnapshot, limit))?;
        let answer = answer.map_err(|status| {
            if status.code() == Code::DataLoss {
                self.suspect_snapshot(&status.message());
            }
            self.call_error(status)
        })?;
        let answer = answer.into_inner();
        let answer: SnapshotResponse<TypeConfig> =
            record::decode(&answer.body).map_err(|e| NetworkError::new(&e))?;
        self.check_vote(&answer.vote)?;
        self.context.lag_bound.note_installed(last);
        Ok(answer)
    }
}
