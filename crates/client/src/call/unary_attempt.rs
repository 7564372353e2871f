//! One attempt: one unary request to one address.
//!
//! Invariant: the client learns the routing table of a reply or an error before the caller sees the
//! outcome. It uses nothing of a reply from another cluster. Schedule that breaks it: see
//! [`seqsvr_proto::cluster_tag`].

use tokio::time::timeout;
use tonic::Request;

use crate::call::attempt_error::AttemptError;
use crate::call::retry_budget::RetryBudget;
use crate::call::rpc::Rpc;
use crate::client::ClientCore;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::{Reason, RoutingTable};

impl ClientCore {
    /// Sends `request` to `address` and waits at most for the budget's time of one attempt. The
    /// request carries that time to the server.
    pub(crate) async fn attempt_unary<R: Rpc>(
        &self,
        address: &str,
        request: R,
        budget: &mut RetryBudget,
    ) -> Result<R::Reply, AttemptError> {
        budget.record_attempt_at(address);
        let time_limit = budget.attempt_timeout();
        let channel = match self.channels.get(address) {
            Ok(channel) => channel,
            Err(bad) => {
                self.servers.mark_unresponsive(address);
                return Err(AttemptError::unreachable(address, &bad.to_string()));
            }
        };
        let client = self.table.cluster_tag();
        let mut request = request;
        request.set_cluster(client);
        let mut request = Request::new(request);
        request.set_timeout(time_limit);
        let failure = match timeout(time_limit, R::send(channel, request)).await {
            Ok(Ok(reply)) => {
                let mut reply = reply.into_inner();
                let server = R::reply_cluster(&reply);
                if server.conflicts_with(client) {
                    self.servers.mark_foreign(address);
                    return Err(AttemptError::foreign_cluster(address, server, client));
                }
                self.servers.mark_responsive(address);
                if let Some(routes) = R::take_routes(&mut reply) {
                    self.learn_routes(address, &routes)?;
                }
                return Ok(reply);
            }
            Ok(Err(status)) => {
                if let Some(routes) = Fault::from_status(&status).detail.routes {
                    self.learn_routes(address, &routes)?;
                }
                AttemptError::from_status(address, &status, time_limit)
            }
            Err(_) => AttemptError::timed_out(address, time_limit),
        };
        self.record_failure(address, &failure);
        Err(failure)
    }

    /// Records what a failure says about its server.
    pub(crate) fn record_failure(&self, address: &str, failure: &AttemptError) {
        if failure.reason == Reason::ClusterMismatch {
            self.servers.mark_foreign(address);
        } else if failure.unanswered {
            self.servers.mark_unresponsive(address);
        } else {
            self.servers.mark_responsive(address);
        }
    }

    /// Applies a routing table that a server attached to an answer.
    ///
    /// # Errors
    /// The table is that of another cluster.
    pub(crate) fn learn_routes(
        &self,
        address: &str,
        routes: &RoutingTable,
    ) -> Result<(), AttemptError> {
        let is_newer = self.table.apply_update(routes).map_err(|other| {
            self.servers.mark_foreign(address);
            AttemptError::foreign_cluster(address, other.theirs, other.ours)
        })?;
        if is_newer && let Some(snapshot) = self.table.snapshot() {
            let in_table = |a: &str| snapshot.addresses.iter().any(|b| a == b);
            let keep = |a: &str| in_table(a) || self.servers.is_configured(a);
            self.channels.retain(keep);
            self.pipes.retain(keep);
        }
        Ok(())
    }
}
