//! The newest routing table of this AllocSvr.

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use seqsvr_access::{Caller, GrantTarget};
use seqsvr_core::routing_table::{RoutingDelta, RoutingTable, RoutingUpdateError};
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::encoded_message::EncodedMessage;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::own_cluster::OwnCluster;
use crate::session::encoded_routes::EncodedRoutes;

/// Error that prevents a delta from being applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    /// This process belongs to another cluster.
    #[error("{0}")]
    ClusterMismatch(#[from] RpcError),
    /// It does not fit the table.
    #[error("{0}")]
    Unfit(#[from] RoutingUpdateError),
}

/// Cell of the newest routing table; readers never block.
pub(crate) struct RoutingTableCell {
    cluster: Arc<OwnCluster>,
    current: ArcSwapOption<RoutingTable>,
    update: Mutex<()>,
    encoded: EncodedRoutes,
    version: watch::Sender<u64>,
}

impl RoutingTableCell {
    pub(crate) fn new(cluster: Arc<OwnCluster>) -> RoutingTableCell {
        RoutingTableCell {
            cluster,
            current: ArcSwapOption::empty(),
            update: Mutex::new(()),
            encoded: EncodedRoutes::default(),
            version: watch::Sender::new(0),
        }
    }

    /// Returns the table; None before the first was applied.
    pub(crate) fn load(&self) -> Option<Arc<RoutingTable>> {
        self.current.load_full()
    }

    /// Borrows the table: cheaper than [`RoutingTableCell::load`]. Hold it across no await.
    pub(crate) fn peek(&self) -> Guard<Option<Arc<RoutingTable>>> {
        self.current.load()
    }

    /// Returns the table; waits for the first one until the deadline.
    pub(crate) async fn wait_for_first(&self, deadline: Instant) -> Option<Arc<RoutingTable>> {
        if let Some(table) = self.load() {
            return Some(table);
        }
        let mut version = self.subscribe();
        let _ = timeout_at(deadline, version.wait_for(|v| *v > 0)).await;
        self.load()
    }

    /// Returns the version of the table; 0 before the first.
    pub(crate) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Subscribes to newer versions.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Applies a delta, and returns whether it made the table newer. A gap is an error: the caller
    /// requests a delta to the current version.
    ///
    /// # Errors
    /// The delta is of another cluster, or does not fit the table.
    pub(crate) fn apply(&self, delta: RoutingDelta) -> Result<bool, ApplyError> {
        let _one_at_a_time = self.update.lock();
        self.cluster
            .check(ClusterTag::from_cluster_id(delta.cluster))?;
        let next = match self.current.load().as_deref() {
            Some(table) => {
                let mut table = table.clone();
                if !table.apply_delta(delta)? {
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

    /// Returns what a caller's table of version `base` misses, or the full table, in the bytes that
    /// all callers share who may see all of it; None before the first table.
    pub(crate) fn encoded_since(&self, base: u64, caller: &Caller) -> Option<EncodedMessage> {
        let table = self.current.load();
        let table = table.as_deref()?;
        Some(match caller.grants() {
            None => self.encoded.since(table, base),
            Some(_) => {
                let delta = visible_delta(table, base, caller);
                EncodedMessage::new(&v1::RoutingTable::from(&delta))
            }
        })
    }

    /// Returns the routes that a caller with a table of `version` lacks; None if it lacks none, or
    /// requests none (0).
    pub(crate) fn routes_since(&self, version: u64, caller: &Caller) -> Option<v1::RoutingTable> {
        let table = self.current.load();
        let table = table.as_deref()?;
        (version != 0 && version < table.version())
            .then(|| v1::RoutingTable::from(&visible_delta(table, version, caller)))
    }
}

/// Returns what a caller's table of version `base` misses, without the namespaces and families on
/// which it has no right: it receives no hint that there are any.
pub(crate) fn visible_delta(table: &RoutingTable, base: u64, caller: &Caller) -> RoutingDelta {
    let mut delta = table.delta_since(base);
    if caller.grants().is_some() {
        delta
            .namespaces
            .retain(|namespace| caller.may_see(GrantTarget::Namespace(&namespace.spec.name)));
        delta
            .families
            .retain(|family| caller.may_see(GrantTarget::Family(&family.spec.name)));
    }
    delta
}
