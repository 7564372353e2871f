//! Calls about one key: locate it, send the request, learn routes, retry. RaiseTo is a unary
//! request; the others use a pipe.

use seqsvr_core::routing_table::KeyRef;
use seqsvr_proto::convert::namespace_name;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::batch_item::BatchItem;
use crate::call::attempt_error::AttemptError;
use crate::call::context::CallContext;
use crate::call::pipe_attempt::{attempt_item, try_submit_to_owner};
use crate::call::retry_budget::RetryBudget;
use crate::call::rpc::RoutedRpc;
use crate::call::table_fetch::get_table;
use crate::call::unary_attempt::attempt_unary;
use crate::client_core::{ClientCore, OwnerTable};
use crate::error::Error;
use crate::key::Key;
use crate::pipe::{FrameItem, FrameKey, ItemResult, PipeOperation, RawAnswer};
use crate::routing::locate::{KeyLocation, RouteOwner, locate, route_owner};

/// Call about one key through a pipe.
pub(crate) struct SingleCall<'a> {
    pub(crate) operation: PipeOperation,
    pub(crate) namespace: &'a str,
    pub(crate) key: &'a Key,
    /// Numbers to take; 0 for `current`.
    pub(crate) count: u32,
    /// Last number that the caller has seen, 0: none.
    pub(crate) floor: u64,
}

impl SingleCall<'_> {
    /// Retries until the item is answered, permanently rejected, or out of time. `decode` makes the
    /// answer from what the server sent, or returns what is wrong with it.
    pub(crate) async fn run<T>(
        self,
        context: &CallContext,
        decode: impl Fn(RawAnswer, KeyLocation) -> Result<T, &'static str>,
    ) -> Result<T, Error> {
        let mut budget = RetryBudget::new(context.deadline);
        let core = &context.core;
        let mut failure = match self.try_submit(context, &mut budget) {
            Some((location, previous_owner, answer)) => match to_item_answer(answer.await) {
                Ok(raw) => {
                    core.table.observe_epoch(location.slot, raw.epoch);
                    match decode(raw, location) {
                        Ok(answer) => return Ok(answer),
                        Err(problem) => {
                            let address = core.owner_address(previous_owner).unwrap_or_default();
                            Some(AttemptError::malformed_reply(&address, problem))
                        }
                    }
                }
                Err(failure) => {
                    if let Some(address) = core.owner_address(previous_owner) {
                        budget.record_address(&address);
                    }
                    Some(core.with_route_context(location.slot, previous_owner, failure))
                }
            },
            None => None,
        };
        // Boxed, so that the future of the usual call is small.
        Box::pin(async {
            loop {
                if let Some(failure) = failure {
                    let pause = core.plan_retry(&mut budget, &failure)?;
                    sleep(pause).await;
                }
                failure = match self.attempt(context, &mut budget, &decode).await {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => Some(failure),
                };
            }
        })
        .await
    }

    /// Submits in the usual case, without waiting: there is a table, the owner is not suspect, and
    /// its pipe accepts the item.
    fn try_submit(
        &self,
        context: &CallContext,
        budget: &mut RetryBudget,
    ) -> Option<(KeyLocation, RouteOwner, oneshot::Receiver<ItemResult>)> {
        let core = &context.core;
        let snapshot = core.table.snapshot_guard();
        let snapshot = snapshot
            .as_ref()
            .filter(|_| !core.table.has_missed_update())?;
        let location = locate(&snapshot.table, self.namespace, self.key.as_ref()).ok()?;
        let owner = snapshot.owner_index(location.slot)?;
        let deadline = budget.first_deadline();
        let frame_key = self.frame_key(context, snapshot);
        let item = self.frame_item(core, location);
        let answer = try_submit_to_owner(core, snapshot, owner, |pipe| {
            pipe.submit_single(&frame_key, item, deadline)
        })?;
        budget.record_attempt();
        Some((
            location,
            route_owner(snapshot.table.route(location.slot)),
            answer,
        ))
    }

    fn frame_key(&self, context: &CallContext, snapshot: &OwnerTable) -> FrameKey<'_> {
        FrameKey {
            operation: self.operation,
            namespace: self.namespace,
            keyed: matches!(self.key, Key::Key(_)),
            strict: context.strict,
            table_version: snapshot.table.version(),
        }
    }

    fn frame_item(&self, core: &ClientCore, location: KeyLocation) -> FrameItem<'_> {
        FrameItem {
            key: self.key.key(),
            count: self.count,
            floor: self.floor,
            epoch: core.table.epoch_seen(location.slot),
        }
    }

    async fn attempt<T>(
        &self,
        context: &CallContext,
        budget: &mut RetryBudget,
        decode: &impl Fn(RawAnswer, KeyLocation) -> Result<T, &'static str>,
    ) -> Result<T, AttemptError> {
        let core = &context.core;
        let key = self.key.as_ref();
        let names = [namespace_name(self.namespace, key)];
        let snapshot = get_table(core, &names, budget).await?;
        let location = locate(&snapshot.table, self.namespace, key)?;
        let address = core.choose_address(&snapshot, snapshot.owner_index(location.slot));
        let frame_key = self.frame_key(context, &snapshot);
        let item = self.frame_item(core, location);
        let raw = attempt_item(core, &address, &frame_key, item, budget)
            .await
            .map_err(|failure| {
                let previous_owner = route_owner(snapshot.table.route(location.slot));
                core.with_route_context(location.slot, previous_owner, failure)
            })?;
        core.table.observe_epoch(location.slot, raw.epoch);
        decode(raw, location).map_err(|problem| AttemptError::malformed_reply(&address, problem))
    }
}

/// Retries `request` until it is answered, permanently rejected, or out of time. `decode` makes
/// the answer from the reply, or returns what is wrong with it.
pub(crate) async fn call_routed<R: RoutedRpc, T>(
    context: &CallContext,
    namespace: &str,
    key: KeyRef<'_>,
    request: R,
    decode: impl Fn(R::Reply, KeyLocation) -> Result<T, &'static str>,
) -> Result<T, Error> {
    let mut budget = RetryBudget::new(context.deadline);
    loop {
        let failure =
            match attempt_routed(context, namespace, key, &request, &mut budget, &decode).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
        let pause = context.core.plan_retry(&mut budget, &failure)?;
        sleep(pause).await;
    }
}

async fn attempt_routed<R: RoutedRpc, T>(
    context: &CallContext,
    namespace: &str,
    key: KeyRef<'_>,
    request: &R,
    budget: &mut RetryBudget,
    decode: &impl Fn(R::Reply, KeyLocation) -> Result<T, &'static str>,
) -> Result<T, AttemptError> {
    let core = &context.core;
    let snapshot = get_table(core, &[namespace_name(namespace, key)], budget).await?;
    let location = locate(&snapshot.table, namespace, key)?;
    let address = core.choose_address(&snapshot, snapshot.owner_index(location.slot));
    let mut request = request.clone();
    request.set_route(
        snapshot.table.version(),
        core.table.epoch_seen(location.slot),
    );
    let reply = attempt_unary(core, &address, request, budget)
        .await
        .map_err(|failure| {
            let previous_owner = route_owner(snapshot.table.route(location.slot));
            core.with_route_context(location.slot, previous_owner, failure)
        })?;
    core.table
        .observe_epoch(location.slot, R::reply_epoch(&reply));
    decode(reply, location).map_err(|problem| AttemptError::malformed_reply(&address, problem))
}

/// Returns the result of an item that was submitted.
fn to_item_answer(
    answer: Result<ItemResult, oneshot::error::RecvError>,
) -> Result<RawAnswer, AttemptError> {
    match answer {
        Ok(result) => result.map_err(|failure| *failure),
        Err(_) => Err(AttemptError::unreachable(
            "the owner",
            "the pipe ended without a reason",
        )),
    }
}
