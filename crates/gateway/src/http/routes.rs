//! A copy of the service's routing table: each look at it requests what is new since the last one.

use std::sync::Arc;

use parking_lot::Mutex;
use seqsvr_core::route::{Delta, RoutingTable};
use seqsvr_proto::v1::RoutesRequest;
use seqsvr_proto::v1::sequence_server::Sequence;
use tonic::{Request, Status};

/// The newest table seen.
#[derive(Clone, Default)]
pub(super) struct Routes(Arc<Mutex<Option<Arc<RoutingTable>>>>);

impl Routes {
    /// Returns the table that the service has now.
    ///
    /// # Errors
    /// The service returns an error.
    pub(super) async fn newest(
        &self,
        sequence: &impl Sequence,
        request: impl Fn(RoutesRequest) -> Request<RoutesRequest>,
    ) -> Result<Arc<RoutingTable>, Status> {
        let kept = self.0.lock().clone();
        if let Some(kept) = kept {
            let base = kept.version();
            let news = sequence
                .routes(request(RoutesRequest {
                    base,
                    cluster_tag: 0,
                }))
                .await?;
            let news = news.into_inner();
            if news.version == base {
                return Ok(kept);
            }
            // If the change does not fit, for example of another cluster, fetch the whole table.
            let mut table = (*kept).clone();
            if Delta::try_from(&news).is_ok_and(|news| table.apply(news).is_ok()) {
                return Ok(self.keep(table));
            }
        }
        let whole = sequence.routes(request(RoutesRequest::default())).await?;
        let whole = Delta::try_from(&whole.into_inner());
        let whole = whole.map_err(|e| Status::internal(e.to_string()))?;
        let table = RoutingTable::new(whole).map_err(|e| Status::internal(e.to_string()))?;
        Ok(self.keep(table))
    }

    fn keep(&self, table: RoutingTable) -> Arc<RoutingTable> {
        let table = Arc::new(table);
        *self.0.lock() = Some(table.clone());
        table
    }
}
