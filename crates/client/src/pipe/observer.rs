//! What a pipe reports to its client.

use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::v1::RoutingTable;

use crate::attempt::attempt_error::AttemptError;

/// Receiver of the routes that answers carry, and of what a pipe finds out about its server.
pub(crate) trait PipeObserver: Send + Sync + 'static {
    /// Returns the tag of the client's cluster; none before the first table.
    fn cluster_tag(&self) -> ClusterTag;

    /// Applies a routing table that a server attached to an answer.
    ///
    /// # Errors
    /// The table is that of another cluster.
    fn learn_routes(&self, address: &str, routes: &RoutingTable) -> Result<(), AttemptError>;

    /// Records what a failure says about its server.
    fn record_failure(&self, address: &str, failure: &AttemptError);

    /// Records that a server answered.
    fn mark_responsive(&self, address: &str);

    /// Records that a server could not be reached or did not respond.
    fn mark_unresponsive(&self, address: &str);
}
