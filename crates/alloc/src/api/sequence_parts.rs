//! What all calls of the `Sequence` service use.

use std::sync::Arc;

use seqsvr_core::routing_table::RoutingTable;
use seqsvr_proto::cluster_tag::ClusterTagged;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::RoutesRequest;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::background_executor::BackgroundExecutor;
use crate::fast_path::FastPath;
use crate::metrics::call_metrics::CallMetrics;
use crate::own_cluster::OwnCluster;
use crate::session::current_session::CurrentSession;
use crate::session::renewal_signal::RenewalSignal;
use crate::session::routing_table_cell::RoutingTableCell;
use crate::slow_path::SlowPath;

/// Parts that the calls of the `Sequence` service and its Pipes share.
pub(crate) struct SequenceParts {
    pub(crate) fast_path: Arc<FastPath>,
    pub(crate) slow_path: Arc<SlowPath>,
    pub(crate) own_cluster: Arc<OwnCluster>,
    pub(crate) session: Arc<CurrentSession>,
    pub(crate) table: Arc<RoutingTableCell>,
    pub(crate) renewals: Arc<RenewalSignal>,
    pub(crate) call_metrics: Arc<CallMetrics>,
    pub(crate) background: BackgroundExecutor,
    /// Maximum items of one NextMany or CurrentMany; a larger request is rejected.
    pub(crate) batch_items_max: usize,
    /// Canceled when calls in progress must end.
    pub(crate) stopping: CancellationToken,
}

impl SequenceParts {
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
        self.own_cluster.check(request.cluster_tag())?;
        if request.base <= table.version() {
            return Ok(table);
        }
        self.renewals.renew_and_wait(deadline).await;
        self.slow_path.wait_for_table(deadline).await
    }
}
