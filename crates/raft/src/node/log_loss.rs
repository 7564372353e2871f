//! Stops a node whose log lost what it acknowledged; see [`crate::rpc::ack_tracker`].

use openraft::errors::Fatal;
use openraft::raft::SnapshotResponse;

use super::RaftNode;
use crate::error::Error;
use crate::rpc::ack_tracker;
use crate::state::snapshot::Snapshot;
use crate::types::{TypeConfig, Vote};

impl RaftNode {
    /// Checks whether the log still has what the leader of `vote` says it acknowledged, before
    /// openraft gets the append. If not, this node stops: openraft, so that it does not request
    /// votes either, and with [`RaftNode::watch_failure`] the process.
    ///
    /// # Errors
    /// Returns why the node stops.
    pub(crate) fn check_log_extent(&self, vote: &Vote, acknowledged: u64) -> Result<(), String> {
        // A node without a log has shut down.
        let Some(log) = self.inner.log.upgrade() else {
            return Ok(());
        };
        let Some(what) = ack_tracker::find_log_loss(&log.extent(), vote, acknowledged) else {
            return Ok(());
        };
        let log = log.path().to_owned();
        let why = Error::LogLost { log, what }.to_string();
        self.inner.identity_check.stop_node(why.clone());
        Err(why)
    }

    /// Hands a snapshot to openraft; until openraft rejects it, what it covers counts as held.
    pub(crate) async fn install_snapshot(
        &self,
        vote: Vote,
        snapshot: Snapshot,
    ) -> Result<SnapshotResponse<TypeConfig>, Fatal<TypeConfig>> {
        let log = self.inner.log.clone();
        if let Some(log) = log.upgrade() {
            log.offer_snapshot(snapshot.meta.last_log_id);
        }
        let answer = self.inner.raft.install_full_snapshot(vote, snapshot).await;
        if let Some(log) = log.upgrade() {
            log.settle_snapshot(answer.as_ref().is_ok_and(|answer| answer.vote == vote));
        }
        answer
    }
}
