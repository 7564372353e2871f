//! Follows the routing table as a store applies it.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{Reason, WatchRequest};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::sections::table_updater::TableUpdater;
use crate::shared_parts::SharedParts;
use crate::store_client::store_group::StoreGroupClient;

/// Maximum time to open a watch at a store; after it the next attempt begins.
const WATCH_OPEN_TIMEOUT: Duration = Duration::from_secs(1);

/// Follows the routing table.
pub(crate) struct TableWatcher {
    pub(crate) shared: SharedParts,
    pub(crate) stores: StoreGroupClient,
    pub(crate) table_updater: Arc<TableUpdater>,
}

impl TableWatcher {
    /// Follows the routing table as any store applies it, until canceled.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        // A table of the first store that answers would decide the cluster.
        let decided = self.shared.own_cluster.wait_until_decided();
        cancel.run_until_cancelled(decided).await;
        while !cancel.is_cancelled() {
            if let Some(Err(fault)) = cancel.run_until_cancelled(self.follow_table()).await {
                tracing::debug!(%fault, "watch of the routing table failed");
            }
            let _ = cancel
                .run_until_cancelled(sleep(self.shared.random.jitter(Duration::from_millis(100))))
                .await;
        }
    }

    async fn follow_table(&self) -> Result<(), RpcError> {
        let (_, channel) = self.stores.preferred_channel()?;
        let request = WatchRequest {
            table_version: self.shared.table.version(),
            cluster_tag: self.shared.own_cluster.tag().0,
        };
        let opened = timeout(WATCH_OPEN_TIMEOUT, StoreClient::new(channel).watch(request)).await;
        let late = |_| RpcError::new(Reason::Unreachable, "the store did not answer");
        let mut stream = opened
            .map_err(late)?
            .map_err(|s| RpcError::from_status(&s))?
            .into_inner();
        while let Some(routes) = stream
            .message()
            .await
            .map_err(|s| RpcError::from_status(&s))?
        {
            self.table_updater.apply_routes(Some(&routes))?;
        }
        Ok(())
    }
}
