//! The loop of every call about one key: locate it, send the request, learn from the reply, retry.

use std::sync::Arc;

use seqsvr_core::key::KeyRef;
use seqsvr_proto::convert::namespace_name;

use crate::attempt::attempt_error::AttemptError;
use crate::call::context::CallContext;
use crate::call::retry_budget::RetryBudget;
use crate::call::table_fetch::get_table;
use crate::client_core::OwnerTable;
use crate::error::Error;
use crate::routing::locate::{KeyLocation, locate, route_owner};

/// Request about one key.
pub(crate) trait KeyCall: Sync {
    type Reply: Send;
    type Answer: Send;

    fn namespace(&self) -> &str;
    fn key(&self) -> KeyRef<'_>;

    /// Sends the request once.
    fn send(
        &self,
        context: &CallContext,
        to: &KeyRoute,
        budget: &mut RetryBudget,
    ) -> impl Future<Output = Result<Self::Reply, AttemptError>> + Send;

    /// Returns the epoch that a reply names.
    fn reply_epoch(reply: &Self::Reply) -> u64;

    /// Makes the answer from a reply, or returns what is wrong with the reply.
    fn decode(
        &self,
        reply: Self::Reply,
        location: KeyLocation,
    ) -> Result<Self::Answer, &'static str>;
}

/// Route of one attempt of a request.
pub(crate) struct KeyRoute {
    pub(crate) snapshot: Arc<OwnerTable>,
    pub(crate) location: KeyLocation,
    pub(crate) address: String,
}

/// Attempts a call until it is answered, permanently rejected, or out of time. `failure` is that of
/// an attempt that was made already, if there was one.
pub(crate) async fn call_until_answered<C: KeyCall>(
    context: &CallContext,
    call: &C,
    mut budget: RetryBudget,
    mut failure: Option<AttemptError>,
) -> Result<C::Answer, Error> {
    loop {
        if let Some(failure) = failure {
            budget.pause_for_retry(&context.core, &failure).await?;
        }
        failure = match attempt_call(context, call, &mut budget).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => Some(failure),
        };
    }
}

/// Locates the key, sends the request once and reads the reply.
async fn attempt_call<C: KeyCall>(
    context: &CallContext,
    call: &C,
    budget: &mut RetryBudget,
) -> Result<C::Answer, AttemptError> {
    let core = &context.core;
    let (namespace, key) = (call.namespace(), call.key());
    let snapshot = get_table(core, &[namespace_name(namespace, key)], budget).await?;
    let location = locate(&snapshot.table, namespace, key)?;
    let route = KeyRoute {
        address: core.choose_address(
            &snapshot,
            snapshot.owner_index(location.slot),
            budget.avoided(),
        ),
        location,
        snapshot,
    };
    let reply = call
        .send(context, &route, budget)
        .await
        .map_err(|failure| {
            let previous_owner = route_owner(route.snapshot.table.route(location.slot));
            let failure = core.with_route_context(location.slot, previous_owner, failure);
            budget.record_failure(&route.address, &failure);
            failure
        })?;
    core.table
        .observe_epoch(location.slot, C::reply_epoch(&reply));
    call.decode(reply, location)
        .map_err(|problem| AttemptError::malformed_reply(&route.address, problem))
}
