//! One attempt: one unary request to one address.
//!
//! Invariant: the client learns the routing table of a reply or an error before the caller sees the
//! outcome. It uses nothing of a reply from another cluster. Schedule that breaks it: see
//! [`seqsvr_proto::cluster_tag`].

use seqsvr_net::ChannelPool;
use seqsvr_proto::error::RpcError;
use tokio::time::timeout;
use tonic::Request;

use crate::attempt::attempt_error::AttemptError;
use crate::call::retry_budget::RetryBudget;
use crate::call::rpc::Rpc;
use crate::client_core::ClientCore;
use crate::pipe::PipeObserver;

/// Sends `request` to `address` and waits at most for the budget's time of one attempt. The
/// request carries that time to the server.
pub(crate) async fn attempt_unary<R: Rpc>(
    core: &ClientCore,
    address: &str,
    request: R,
    budget: &mut RetryBudget,
) -> Result<R::Reply, AttemptError> {
    attempt_unary_over(core, &core.channels, address, request, budget).await
}

/// Sends `request` as [`attempt_unary`] does, over other channels of the client.
pub(crate) async fn attempt_unary_over<R: Rpc>(
    core: &ClientCore,
    channels: &ChannelPool,
    address: &str,
    request: R,
    budget: &mut RetryBudget,
) -> Result<R::Reply, AttemptError> {
    budget.record_attempt_at(address);
    let time_limit = budget.attempt_timeout();
    let channel = match channels.get(address) {
        Ok(channel) => channel,
        Err(bad) => {
            core.servers.mark_unresponsive(address);
            return Err(AttemptError::unreachable(address, &bad.to_string()));
        }
    };
    let client = core.table.cluster_tag();
    let mut request = Request::new(request);
    R::name_cluster(&mut request, client);
    request.set_timeout(time_limit);
    let authorized = channels.authorize(address, request.metadata_mut());
    authorized.map_err(|why| AttemptError::unauthorized(address, &why))?;
    let failure = match timeout(time_limit, R::send(channel, request)).await {
        Ok(Ok(reply)) => {
            let mut reply = reply.into_inner();
            let server = R::reply_cluster(&reply);
            if server.conflicts_with(client) {
                core.servers.mark_foreign(address);
                return Err(AttemptError::foreign_cluster(address, server, client));
            }
            core.servers.mark_responsive(address);
            if let Some(routes) = R::take_routes(&mut reply) {
                core.learn_routes(address, &routes)?;
            }
            return Ok(reply);
        }
        Ok(Err(status)) => {
            if let Some(routes) = RpcError::from_status(&status).detail.routes {
                core.learn_routes(address, &routes)?;
            }
            AttemptError::from_status(address, &status, time_limit)
        }
        Err(_) => AttemptError::timed_out(address, time_limit),
    };
    core.record_failure(address, &failure);
    Err(failure)
}
