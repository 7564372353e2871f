//! A call about one key through a Pipe. In the usual case the item is submitted without waiting.

use seqsvr_core::key::KeyRef;
use tokio::sync::oneshot;

use crate::attempt::attempt_error::AttemptError;
use crate::batch_item::BatchItem;
use crate::call::context::CallContext;
use crate::call::key::key_call::{KeyCall, KeyRoute, call_until_answered};
use crate::call::pipe_attempt::{attempt_item, try_submit_to_owner};
use crate::call::retry_budget::RetryBudget;
use crate::call::sequence_call::{SequenceCall, frame_key, is_keyed, to_frame_item};
use crate::client_core::OwnerTable;
use crate::error::Error;
use crate::pipe::{FrameKey, ItemResult, RawAnswer};
use crate::routing::locate::{KeyLocation, RouteOwner, locate, route_owner};

/// Call about one key through a Pipe.
pub(crate) struct SingleCall<'a, C: SequenceCall> {
    pub(crate) namespace: &'a str,
    pub(crate) item: &'a C::Item,
}

impl<C: SequenceCall> SingleCall<'_, C> {
    /// Retries until the item is answered, permanently rejected, or out of time.
    pub(crate) async fn run(self, context: &CallContext) -> Result<C::Answer, Error> {
        C::validate(self.item)?;
        let mut budget = RetryBudget::new(context.deadline);
        let core = &context.core;
        let failure = match self.try_submit(context, &mut budget) {
            Some((location, previous_owner, answer)) => match to_item_answer(answer.await) {
                Ok(raw) => {
                    core.table.observe_epoch(location.slot, raw.epoch);
                    match self.decode(raw, location) {
                        Ok(answer) => return Ok(answer),
                        Err(problem) => {
                            let address = core.owner_address(previous_owner).unwrap_or_default();
                            Some(AttemptError::malformed_reply(&address, problem))
                        }
                    }
                }
                Err(failure) => {
                    let address = core.owner_address(previous_owner);
                    let failure = core.with_route_context(location.slot, previous_owner, failure);
                    if let Some(address) = address {
                        budget.record_address(&address);
                        budget.record_failure(&address, &failure);
                    }
                    Some(failure)
                }
            },
            None => None,
        };
        // Boxed, so that the future of the usual call is small.
        Box::pin(call_until_answered(context, &self, budget, failure)).await
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
        let location = locate(&snapshot.table, self.namespace, self.key()).ok()?;
        let owner = snapshot.owner_index(location.slot)?;
        let deadline = budget.first_deadline();
        let frame_key = self.frame_key(context, snapshot);
        let item = to_frame_item::<C>(core, self.item, location.slot);
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
        frame_key::<C>(context, snapshot, self.namespace, is_keyed(self.key()))
    }
}

impl<C: SequenceCall> KeyCall for SingleCall<'_, C> {
    type Reply = RawAnswer;
    type Answer = C::Answer;

    fn namespace(&self) -> &str {
        self.namespace
    }

    fn key(&self) -> KeyRef<'_> {
        self.item.key().as_ref()
    }

    async fn send(
        &self,
        context: &CallContext,
        to: &KeyRoute,
        budget: &mut RetryBudget,
    ) -> Result<RawAnswer, AttemptError> {
        let frame_key = self.frame_key(context, &to.snapshot);
        let item = to_frame_item::<C>(&context.core, self.item, to.location.slot);
        attempt_item(&context.core, &to.address, &frame_key, item, budget).await
    }

    fn reply_epoch(reply: &RawAnswer) -> u64 {
        reply.epoch
    }

    fn decode(&self, reply: RawAnswer, location: KeyLocation) -> Result<C::Answer, &'static str> {
        C::decode(reply, self.item, location.stride)
    }
}

/// Returns the result of an item that was submitted.
fn to_item_answer(
    answer: Result<ItemResult, oneshot::error::RecvError>,
) -> Result<RawAnswer, AttemptError> {
    match answer {
        Ok(result) => result.map_err(|failure| *failure),
        Err(_) => Err(AttemptError::pipe_lost("the owner")),
    }
}
