//! Counters of the cluster during a run.

use futures::future::join_all;
use seqsvr_client::Admin;
use serde::Serialize;

/// Sums of the counters of all processes that answered.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Effort {
    /// Numbers that all AllocSvrs issued, to this program and to others.
    pub(crate) numbers: u64,
    /// Confirmed raises of windows.
    pub(crate) raises: u64,
    /// Log entries that carried raises.
    pub(crate) raise_entries: u64,
    /// Syncs of the log of the store that had the most.
    pub(crate) fsyncs: u64,
    /// Calls that had to wait for a raise.
    pub(crate) waited_for_refill: u64,
    /// Items that the receiving AllocSvr forwarded to the owner.
    pub(crate) forwarded: u64,
}

impl Effort {
    /// Reads the counters of all processes.
    ///
    /// # Errors
    /// The status of the cluster cannot be read.
    pub(crate) async fn now(admin: &Admin) -> Result<Effort, seqsvr_client::Error> {
        let cluster = admin.cluster_status().await?;
        let stores = cluster.stores.iter().map(|s| &s.address);
        let addresses = stores.chain(cluster.sessions.iter().map(|s| &s.address));
        let nodes = join_all(addresses.map(|address| admin.node_status(address))).await;
        let mut sum = Effort::default();
        for node in nodes {
            // A process that does not answer counts 0.
            let Ok(node) = node else { continue };
            let get = |name: &str| node.counters.get(name).copied().unwrap_or(0);
            sum.numbers += get("numbers");
            sum.raises += get("raises");
            sum.waited_for_refill += get("waited_for_refill");
            sum.forwarded += get("forwarded");
            sum.raise_entries += get("proposer_raise_entries");
            sum.fsyncs = sum.fsyncs.max(get("raft_log_syncs"));
        }
        Ok(sum)
    }

    /// Returns the increase since `before`. A process that was restarted counts from 0.
    pub(crate) fn since(self, before: Effort) -> Effort {
        Effort {
            numbers: self.numbers.saturating_sub(before.numbers),
            raises: self.raises.saturating_sub(before.raises),
            raise_entries: self.raise_entries.saturating_sub(before.raise_entries),
            fsyncs: self.fsyncs.saturating_sub(before.fsyncs),
            waited_for_refill: self
                .waited_for_refill
                .saturating_sub(before.waited_for_refill),
            forwarded: self.forwarded.saturating_sub(before.forwarded),
        }
    }
}
