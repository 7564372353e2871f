//! What all calls of the `Sequence` service use.

use std::sync::Arc;

use seqsvr_access::Access;
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_net::{ChangeLog, ConnectionQuota};
use seqsvr_proto::cluster_tag::ClusterTagged;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::RoutesRequest;
use tokio::time::Instant;

use crate::fast_path::FastPath;
use crate::ids::family_holders::{FamilyHolders, TakenIds};
use crate::shared_parts::SharedParts;
use crate::slow_path::SlowPath;

/// Parts that the calls of the `Sequence` service and its Pipes share.
pub(crate) struct SequenceParts {
    pub(crate) shared: SharedParts,
    pub(crate) fast_path: Arc<FastPath>,
    pub(crate) slow_path: Arc<SlowPath>,
    pub(crate) families: Arc<FamilyHolders>,
    /// Maximum items of one NextMany or CurrentMany; a larger request is rejected.
    pub(crate) batch_items_max: usize,
    /// Log of forced raises.
    pub(crate) changes: ChangeLog,
    /// Judge of the callers within this process, which the layer of calls does not see.
    pub(crate) access: Access,
}

impl SequenceParts {
    /// Waits for ids that a family does not have now.
    ///
    /// # Errors
    /// Too many requests wait, or there are not as many ids until the deadline.
    pub(crate) async fn wait_for_ids(
        &self,
        taken: &mut TakenIds,
        share: Option<&ConnectionQuota>,
        deadline: Instant,
    ) -> Result<(), RpcError> {
        let limiter = &self.slow_path.wait_limiter;
        let mut permits = limiter.permits_for(share, taken.waiting_items());
        permits.acquire(&self.shared.counters.queue_rejections)?;
        taken.take_waiting(deadline).await
    }

    /// Returns a table that is not older than the one of the caller, if a store has a newer one in
    /// time.
    ///
    /// # Errors
    /// The caller names another cluster, or there is no table before the deadline.
    pub(crate) async fn table_for(
        &self,
        request: &RoutesRequest,
        deadline: Instant,
    ) -> Result<Arc<RoutingTable>, RpcError> {
        let table = self.slow_path.wait_for_table(deadline).await?;
        self.shared.own_cluster.check(request.cluster_tag())?;
        if request.base <= table.version() {
            return Ok(table);
        }
        self.shared.renewals.renew_and_wait(deadline).await;
        self.slow_path.wait_for_table(deadline).await
    }
}
