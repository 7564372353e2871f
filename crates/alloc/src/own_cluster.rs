//! The cluster that this process belongs to.
//!
//! Invariant: a process belongs to one cluster for its life. The first response of a store that
//! names a cluster decides; from then on nothing of another cluster is sent, accepted or answered
//! here.
//!
//! Schedule that breaks it: the stores are wiped and initialized again while this process lives. It
//! would open a session in the new cluster and keep the table of the old one. If its new session id
//! were one of the old table's, it would serve slots that another process owns in the new cluster.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use seqsvr_core::planted;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::error::{RpcError, cluster_mismatch_error};

/// Tag of the cluster that this process belongs to; none before a store has named it.
#[derive(Debug, Default)]
pub(crate) struct OwnCluster(AtomicU64);

impl OwnCluster {
    pub(crate) fn tag(&self) -> ClusterTag {
        if planted!(NameNoCluster) {
            return ClusterTag::NONE;
        }
        ClusterTag(self.0.load(Relaxed))
    }

    /// Joins a cluster, unless this process belongs to one. A side that names none changes nothing.
    ///
    /// # Errors
    /// This process belongs to another cluster.
    pub(crate) fn join(&self, tag: ClusterTag) -> Result<(), RpcError> {
        if tag != ClusterTag::NONE {
            let _ = self.0.compare_exchange(0, tag.0, Relaxed, Relaxed);
        }
        self.check(tag)
    }

    /// Checks the cluster that a caller names.
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
    use seqsvr_proto::v1::Reason;

    use super::*;

    #[test]
    fn own_cluster_never_changes() {
        let own = OwnCluster::default();
        own.check(ClusterTag(1)).expect("no cluster is known yet");
        own.join(ClusterTag::NONE).expect("no cluster is named");
        own.join(ClusterTag(1)).expect("the first cluster");
        own.join(ClusterTag(1)).expect("the same cluster");
        own.check(ClusterTag::NONE).expect("no cluster is named");
        for refused in [own.join(ClusterTag(2)), own.check(ClusterTag(2))] {
            assert_eq!(refused.unwrap_err().reason(), Reason::ClusterMismatch);
        }
        assert_eq!(own.tag(), ClusterTag(1));
    }
}
