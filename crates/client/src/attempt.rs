//! One try: one request to one address.
//!
//! Invariant: the client learns the routing table of a reply or an error before the caller sees the
//! outcome. It uses nothing of a reply from another cluster. Schedule that breaks it: see
//! [`seqsvr_proto::cluster_tag`].

use tokio::time::timeout;
use tonic::Request;

use crate::budget::Budget;
use crate::client::Inner;
use crate::failure::Failure;
use crate::rpc::Rpc;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::{Reason, RoutingTable};

impl Inner {
    /// Sends `request` to `address` and waits for at most the budget's time for one try. The
    /// request carries that time to the server.
    pub(crate) async fn try_at<R: Rpc>(
        &self,
        address: &str,
        request: R,
        budget: &mut Budget,
    ) -> Result<R::Reply, Failure> {
        budget.asks(address);
        let time = budget.try_time();
        let channel = match self.channels.get(address) {
            Ok(channel) => channel,
            Err(bad) => {
                self.servers.silent(address);
                return Err(Failure::unreachable(address, &bad.to_string()));
            }
        };
        let client = self.table.cluster_tag();
        let mut request = request;
        request.name_cluster(client);
        let mut request = Request::new(request);
        request.set_timeout(time);
        let failure = match timeout(time, R::send(channel, request)).await {
            Ok(Ok(reply)) => {
                let mut reply = reply.into_inner();
                let server = R::cluster_of(&reply);
                if server.conflicts_with(client) {
                    self.servers.note_foreign(address);
                    return Err(Failure::of_other_cluster(address, server, client));
                }
                self.servers.answered(address);
                if let Some(routes) = R::routes(&mut reply) {
                    self.learn(address, &routes)?;
                }
                return Ok(reply);
            }
            Ok(Err(status)) => {
                if let Some(routes) = Fault::from_status(&status).detail.routes {
                    self.learn(address, &routes)?;
                }
                Failure::from_status(address, &status, time)
            }
            Err(_) => Failure::silent(address, time),
        };
        self.note_failure(address, &failure);
        Err(failure)
    }

    /// Notes what a failure says about its server.
    pub(crate) fn note_failure(&self, address: &str, failure: &Failure) {
        if failure.reason == Reason::ClusterMismatch {
            self.servers.note_foreign(address);
        } else if failure.unanswered {
            self.servers.silent(address);
        } else {
            self.servers.answered(address);
        }
    }

    pub(crate) fn learn(&self, address: &str, routes: &RoutingTable) -> Result<(), Failure> {
        let newer = self.table.learn(routes).map_err(|other| {
            self.servers.note_foreign(address);
            Failure::of_other_cluster(address, other.theirs, other.ours)
        })?;
        if newer && let Some(known) = self.table.known() {
            let in_table = |a: &str| known.addresses.iter().any(|b| a == b);
            let keep = |a: &str| in_table(a) || self.servers.is_given(a);
            self.channels.retain(keep);
            self.pipes.retain(keep);
        }
        Ok(())
    }
}
