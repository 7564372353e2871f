//! The routing table this AllocSvr knows.

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use seqsvr_core::route::{Delta, Error, RoutingTable};
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1;
use tokio::sync::watch;

use crate::own_cluster::OwnCluster;

/// Why a delta was not applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    /// This process belongs to another cluster.
    #[error("{0}")]
    ClusterMismatch(#[from] Fault),
    /// It does not fit the table.
    #[error("{0}")]
    Unfit(#[from] Error),
}

/// Newest routing table; readers never block.
pub(crate) struct RoutingTableCell {
    cluster: Arc<OwnCluster>,
    current: ArcSwapOption<RoutingTable>,
    update: Mutex<()>,
    version: watch::Sender<u64>,
}

impl RoutingTableCell {
    pub(crate) fn new(cluster: Arc<OwnCluster>) -> RoutingTableCell {
        RoutingTableCell {
            cluster,
            current: ArcSwapOption::empty(),
            update: Mutex::new(()),
            version: watch::Sender::new(0),
        }
    }

    /// The table now; None before the first was learnt.
    pub(crate) fn load(&self) -> Option<Arc<RoutingTable>> {
        self.current.load_full()
    }

    /// The same for a moment: cheaper, to be held across no await.
    pub(crate) fn peek(&self) -> Guard<Option<Arc<RoutingTable>>> {
        self.current.load()
    }

    /// Version now; 0 before the first.
    pub(crate) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Wakes at every newer version.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Applies a delta; tells whether anything newer was learnt. A gap is an error: ask again with
    /// the version held.
    ///
    /// # Errors
    /// The delta is of another cluster, or does not fit the table.
    pub(crate) fn apply(&self, delta: Delta) -> Result<bool, ApplyError> {
        let _one_at_a_time = self.update.lock();
        self.cluster.join(ClusterTag::of(delta.cluster))?;
        let next = match self.current.load().as_deref() {
            Some(table) => {
                let mut table = table.clone();
                if !table.apply(delta)? {
                    return Ok(false);
                }
                table
            }
            None => RoutingTable::new(delta)?,
        };
        let version = next.version();
        self.current.store(Some(Arc::new(next)));
        self.version.send_replace(version);
        Ok(true)
    }

    /// What a caller with a table of `version` misses; None if nothing, or if it wants none (0).
    pub(crate) fn routes_since(&self, version: u64) -> Option<v1::RoutingTable> {
        let table = self.current.load();
        let table = table.as_deref()?;
        (version != 0 && version < table.version())
            .then(|| v1::RoutingTable::from(&table.delta_since(version)))
    }
}
