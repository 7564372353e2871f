//! The cluster that this process belongs to.
//!
//! Invariant: a process belongs to one cluster for its life, and so does each process that is
//! started on the same state directory. More than half of the configured stores decide which one,
//! or the state directory and one store. A single store that answers first never does. Until then
//! this process registers nowhere, applies no table and relays no call. From then on nothing of
//! another cluster is sent, accepted or answered here.
//!
//! Schedules that break it:
//!
//! 1. The stores are wiped and initialized again while this process lives. It would open a session
//!    in the new cluster and keep the table of the old one. If its new session id were one of the
//!    old table's, it would serve slots that another process owns in the new cluster.
//! 2. A backup is restored on two hosts. That makes two clusters, and each gives the same numbers.
//!    This process has both stores in its list. It registers at the first one and gives 1,010,001.
//!    That store is stopped, the process is started again, registers at the second one, and gives
//!    1,010,001 again. Each of the clusters is without a fault.
//!
//! Who decides: `store_client/cluster_votes.rs`. What is kept: `session/state_dir.rs`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use seqsvr_core::ids::ClusterId;
use seqsvr_core::planted;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::error::{RpcError, cluster_mismatch_error};
use seqsvr_proto::v1::Reason;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Time after which a call is retried that came before the decision.
const UNDECIDED_RETRY_MS: u32 = 100;

/// Cluster that this process belongs to; none before it was decided.
#[derive(Debug, Default)]
pub(crate) struct OwnCluster {
    /// Tag of `id`; 0 before the decision. Each call reads it.
    tag: AtomicU64,
    id: OnceLock<ClusterId>,
    is_decided: watch::Sender<bool>,
    /// Why there is no decision yet.
    undecided: Mutex<Option<RpcError>>,
    /// Whether the state directory records the cluster durably.
    is_recorded: AtomicBool,
    /// Why it does not yet, while a session waits for that.
    unrecorded: Mutex<Option<String>>,
    /// Stores that answered last for another cluster.
    stray_stores: AtomicU64,
}

impl OwnCluster {
    pub(crate) fn tag(&self) -> ClusterTag {
        if planted!(NameNoCluster) {
            return ClusterTag::NONE;
        }
        ClusterTag(self.tag.load(Relaxed))
    }

    /// Returns the id of the cluster; None before it was decided.
    pub(crate) fn id(&self) -> Option<ClusterId> {
        self.id.get().copied()
    }

    /// Decides the cluster. A process that belongs to one keeps it.
    pub(crate) fn decide(&self, cluster: ClusterId) {
        let cluster = *self.id.get_or_init(|| cluster);
        let tag = ClusterTag::from_cluster_id(cluster);
        self.tag.store(tag.0, Relaxed);
        *self.undecided.lock() = None;
        self.is_decided.send_replace(true);
    }

    /// Waits until the cluster is decided.
    pub(crate) async fn wait_until_decided(&self) {
        // Fails only if the sender is gone, which is a field of `self`.
        let _ = self.is_decided.subscribe().wait_for(|is| *is).await;
    }

    /// Waits until the cluster is decided, at most until the deadline.
    ///
    /// # Errors
    /// It is not decided; the text says why.
    pub(crate) async fn wait_until_decided_by(&self, deadline: Instant) -> Result<(), RpcError> {
        let decided = timeout_at(deadline, self.wait_until_decided()).await;
        decided.map_err(|_| self.why_undecided())
    }

    fn why_undecided(&self) -> RpcError {
        let none = || RpcError::new(Reason::Unreachable, "no store has answered yet");
        self.undecided_error().unwrap_or_else(none)
    }

    /// Records why the cluster is not decided yet. Returns whether that is another reason than the
    /// last one.
    pub(crate) fn set_undecided(&self, why: RpcError) -> bool {
        let mut undecided = self.undecided.lock();
        let is_new = undecided
            .as_ref()
            .is_none_or(|last| last.message != why.message);
        *undecided = Some(why);
        is_new
    }

    /// Returns why the cluster is not decided yet, if a store has answered or failed to.
    pub(crate) fn undecided_error(&self) -> Option<RpcError> {
        self.undecided.lock().clone()
    }

    /// Records that the state directory has the cluster durably.
    pub(crate) fn set_recorded(&self) {
        self.is_recorded.store(true, Relaxed);
        *self.unrecorded.lock() = None;
    }

    /// Returns whether the state directory is known to have the cluster durably.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded.load(Relaxed)
    }

    /// Records why the state directory does not have the cluster. Returns whether that is another
    /// reason than the last one.
    pub(crate) fn set_unrecorded(&self, why: &str) -> bool {
        let last = self.unrecorded.lock().replace(why.to_owned());
        last.as_deref() != Some(why)
    }

    /// Returns why the state directory does not have the cluster, if a session waits for that.
    pub(crate) fn unrecorded(&self) -> Option<String> {
        self.unrecorded.lock().clone()
    }

    /// Sets how many stores answer for another cluster.
    pub(crate) fn set_stray_stores(&self, count: usize) {
        self.stray_stores.store(count as u64, Relaxed);
    }

    /// Returns how many stores answer for another cluster.
    pub(crate) fn stray_stores(&self) -> u64 {
        self.stray_stores.load(Relaxed)
    }

    /// Checks the cluster that a caller, a store or a table names.
    ///
    /// # Errors
    /// It is not this process's.
    #[inline]
    pub(crate) fn check(&self, caller: ClusterTag) -> Result<(), RpcError> {
        let own = self.tag();
        match own.conflicts_with(caller) && !planted!(ForwardAnyCluster) {
            false => Ok(()),
            true => Err(cluster_mismatch_error(own, caller).with_cluster_tag(own)),
        }
    }

    /// Checks the cluster that a caller names whose call is relayed or acts on this process.
    ///
    /// Schedule that breaks a check of a decided cluster alone: this process is started at the
    /// address of one that belonged to another cluster. A call of a holder there arrives before the
    /// decision and waits for it, and the holder gets a grant of this cluster: its ids exist.
    ///
    /// # Errors
    /// The caller names another cluster, or one before the decision.
    pub(crate) fn check_relayed(&self, caller: ClusterTag) -> Result<(), RpcError> {
        match self.id().is_none() && caller != ClusterTag::NONE {
            true => Err(self.why_undecided().with_retry_after_ms(UNDECIDED_RETRY_MS)),
            false => self.check(caller),
        }
    }

    /// Checks the cluster that an answer names, or the error in its place. Errors of another
    /// cluster say nothing about this one.
    ///
    /// # Errors
    /// The answer is of another cluster; or it is the error that came.
    pub(crate) fn check_answer<T>(
        &self,
        answer: Result<T, RpcError>,
        tag: impl FnOnce(&T) -> ClusterTag,
    ) -> Result<T, RpcError> {
        let named = match &answer {
            Ok(answer) => tag(answer),
            Err(fault) => ClusterTag(fault.detail.cluster_tag),
        };
        let own = self.tag();
        match own.conflicts_with(named) {
            false => answer,
            true => Err(cluster_mismatch_error(named, own).with_cluster_tag(own)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn own_cluster_never_changes() {
        let own = OwnCluster::default();
        own.check(ClusterTag(1)).expect("no cluster is known yet");
        let now = Instant::now();
        let undecided = own.wait_until_decided_by(now).await.unwrap_err();
        assert_eq!(undecided.reason(), Reason::Unreachable);
        own.decide(ClusterId(1));
        own.decide(ClusterId(2));
        own.wait_until_decided_by(now).await.expect("it is decided");
        own.check(ClusterTag(1)).expect("the same cluster");
        own.check(ClusterTag::NONE).expect("no cluster is named");
        let refused = own.check(ClusterTag(2)).unwrap_err();
        assert_eq!(refused.reason(), Reason::ClusterMismatch);
        assert_eq!((own.tag(), own.id()), (ClusterTag(1), Some(ClusterId(1))));
    }
}
