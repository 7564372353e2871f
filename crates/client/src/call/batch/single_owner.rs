//! The usual call about many keys: they all have one owner, one frame holds them, and no item
//! fails.
//!
//! Such a call is the columns of one frame each way, without work for each item. This module
//! retries nothing: any other call continues as a batch with retries.

use std::sync::Arc;

use seqsvr_proto::limits::NUMBERS_MAX;
use tokio::sync::oneshot;

use crate::batch_item::BatchItem;
use crate::call::batch::owner_batch::{InFlightBatch, OwnerBatch};
use crate::call::context::CallContext;
use crate::call::pipe_attempt::try_submit_to_owner;
use crate::call::retry_budget::RetryBudget;
use crate::call::sequence_call::{SequenceCall, frame_key, is_keyed, to_frame_items};
use crate::client_core::{ClientCore, OwnerTable};
use crate::error::Error;
use crate::pipe::CallResults;
use crate::routing::locate::{find_namespace, locate_in};

/// Call whose items were all sent in one frame to one owner.
pub(super) struct SingleOwnerCall {
    snapshot: Arc<OwnerTable>,
    /// All items of the call, without their indexes.
    batch: OwnerBatch,
    pub(super) answers: oneshot::Receiver<CallResults>,
}

impl SingleOwnerCall {
    /// Sends all items in one frame to the one owner of all; None if it cannot do that now.
    pub(super) fn try_send<C: SequenceCall>(
        context: &CallContext,
        namespace: &str,
        items: &[C::Item],
        budget: &mut RetryBudget,
    ) -> Option<SingleOwnerCall> {
        let core = &context.core;
        let snapshot = core
            .table
            .snapshot()
            .filter(|_| !core.table.has_missed_update())?;
        let first = items.first()?.key().as_ref();
        if items.len() > core.frame_items_max {
            return None;
        }
        let found = find_namespace(&snapshot.table, namespace, first).ok()?;
        let mut batch = OwnerBatch {
            owner: None,
            items: Vec::new(),
            slots: Vec::with_capacity(items.len()),
            weight: 0,
            keyed: is_keyed(first),
            stride: found.spec.progression.stride,
        };
        for item in items {
            let key = item.key().as_ref();
            if is_keyed(key) != batch.keyed || C::validate(item).is_err() {
                return None;
            }
            let slot = locate_in(&snapshot.table, found, key).ok()?.slot;
            let item_owner = snapshot.owner_index(slot)?;
            if *batch.owner.get_or_insert(item_owner) != item_owner {
                return None;
            }
            batch.weight += u64::from(C::count(item));
            batch.slots.push(slot);
        }
        if batch.weight > NUMBERS_MAX {
            return None;
        }
        let frame_key = frame_key::<C>(context, &snapshot, namespace, batch.keyed);
        let deadline = budget.first_deadline();
        let answers = try_submit_to_owner(core, &snapshot, batch.owner?, |pipe| {
            let frame_items = to_frame_items::<C>(core, items.iter().zip(&batch.slots));
            pipe.submit_batch(&frame_key, batch.weight, frame_items, deadline)
        })?;
        budget.record_attempt();
        Some(SingleOwnerCall {
            snapshot,
            batch,
            answers,
        })
    }

    /// Returns the call as a batch that was sent, whose items may be retried.
    pub(super) fn into_in_flight(self, budget: RetryBudget) -> InFlightBatch {
        InFlightBatch {
            batch: OwnerBatch {
                items: (0..self.batch.slots.len() as u32).collect(),
                ..self.batch
            },
            budget,
            snapshot: self.snapshot,
            address: None,
        }
    }

    /// Returns the results of all items, if none failed and all answers are correct.
    pub(super) fn decode_all<C: SequenceCall>(
        &self,
        core: &ClientCore,
        items: &[C::Item],
        answers: &CallResults,
    ) -> Option<Vec<Result<C::Answer, Error>>> {
        let all = answers.all_answers()?;
        let mut results = Vec::with_capacity(items.len());
        for ((item, slot), raw) in items.iter().zip(&self.batch.slots).zip(all) {
            core.table.observe_epoch(*slot, raw.epoch);
            results.push(Ok(C::decode(raw, item, self.batch.stride).ok()?));
        }
        (results.len() == items.len()).then_some(results)
    }
}
