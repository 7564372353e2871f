//! Counters of the cluster during a run.

use futures::future::join_all;
use seqsvr_client::Admin;
use serde::Serialize;

/// Sums of the counters of all processes that answered.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct ClusterCounters {
    /// Numbers that all AllocSvrs issued, to this program and to others.
    pub(crate) numbers_issued: u64,
    /// Confirmed raises of windows.
    pub(crate) raises: u64,
    /// Log entries that carried raises.
    pub(crate) raise_entries: u64,
    /// Syncs of the log of the store that had the most.
    pub(crate) fsyncs: u64,
    /// Calls that had to wait for a raise.
    pub(crate) window_waits: u64,
    /// Items that the receiving AllocSvr forwarded to the owner.
    pub(crate) forwarded: u64,
}

impl ClusterCounters {
    /// Reads the counters of all processes.
    ///
    /// # Errors
    /// The status of the cluster cannot be read.
    pub(crate) async fn read(admin: &Admin) -> Result<ClusterCounters, seqsvr_client::Error> {
        let cluster = admin.cluster_status().await?;
        let stores = cluster.stores.iter().map(|s| &s.address);
        let addresses = stores.chain(cluster.sessions.iter().map(|s| &s.address));
        let nodes = join_all(addresses.map(|address| admin.node_status(address))).await;
        let mut sum = ClusterCounters::default();
        for node in nodes {
            // A process that does not answer counts 0.
            let Ok(node) = node else { continue };
            let counter = |name: &str| node.counters.get(name).copied().unwrap_or(0);
            sum.numbers_issued += counter("numbers_issued");
            sum.raises += counter("raises");
            sum.window_waits += counter("window_waits");
            sum.forwarded += counter("forwarded");
            sum.raise_entries += counter("proposer_raise_entries");
            sum.fsyncs = sum.fsyncs.max(counter("raft_log_syncs"));
        }
        Ok(sum)
    }

    /// Returns the increase since `before`. A process that was restarted counts from 0.
    pub(crate) fn increase_since(self, before: ClusterCounters) -> ClusterCounters {
        ClusterCounters {
            numbers_issued: self.numbers_issued.saturating_sub(before.numbers_issued),
            raises: self.raises.saturating_sub(before.raises),
            raise_entries: self.raise_entries.saturating_sub(before.raise_entries),
            fsyncs: self.fsyncs.saturating_sub(before.fsyncs),
            window_waits: self.window_waits.saturating_sub(before.window_waits),
            forwarded: self.forwarded.saturating_sub(before.forwarded),
        }
    }
}
