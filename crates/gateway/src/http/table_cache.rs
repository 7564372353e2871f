//! A cache of the service's routing table. Each use requests the changes since the last use.

use std::sync::Arc;

use parking_lot::Mutex;
use seqsvr_core::routing_table::{RoutingDelta, RoutingTable};
use seqsvr_proto::v1::RoutesRequest;
use seqsvr_proto::v1::sequence_server::Sequence;
use tonic::{Request, Status};

/// The newest routing table that was received.
#[derive(Clone, Default)]
pub(super) struct RoutingTableCache(Arc<Mutex<Option<Arc<RoutingTable>>>>);

impl RoutingTableCache {
    /// Returns the table that the service has now, and caches it.
    ///
    /// # Errors
    /// The service returns an error.
    pub(super) async fn fetch_newest(
        &self,
        sequence: &impl Sequence,
        request: impl Fn(RoutesRequest) -> Request<RoutesRequest>,
    ) -> Result<Arc<RoutingTable>, Status> {
        let cached = self.0.lock().clone();
        if let Some(cached) = cached {
            let base = cached.version();
            let delta = sequence
                .routes(request(RoutesRequest {
                    base,
                    cluster_tag: 0,
                }))
                .await?;
            let delta = delta.into_inner();
            if delta.version == base {
                return Ok(cached);
            }
            // If the delta does not apply, for example one of another cluster, fetch the full
            // table.
            let mut table = (*cached).clone();
            if RoutingDelta::try_from(&delta).is_ok_and(|delta| table.apply_delta(delta).is_ok()) {
                return Ok(self.replace(table));
            }
        }
        let full_table = sequence.routes(request(RoutesRequest::default())).await?;
        let full_table = RoutingDelta::try_from(&full_table.into_inner());
        let full_table = full_table.map_err(|e| Status::internal(e.to_string()))?;
        let table = RoutingTable::new(full_table).map_err(|e| Status::internal(e.to_string()))?;
        Ok(self.replace(table))
    }

    fn replace(&self, table: RoutingTable) -> Arc<RoutingTable> {
        let table = Arc::new(table);
        *self.0.lock() = Some(table.clone());
        table
    }
}
