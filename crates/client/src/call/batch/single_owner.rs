//! The usual call about many keys: they all have one owner, one frame holds them, and no item
//! fails.
//!
//! Such a call is the columns of one frame each way, without work for each item. This module
//! retries nothing: any other call continues as a batch with retries.

use std::sync::Arc;

use seqsvr_core::ids::Slot;
use seqsvr_proto::limits::NUMBERS_MAX;
use tokio::sync::oneshot;

use crate::call::context::CallContext;
use crate::call::pipe_attempt::try_submit_to_owner;
use crate::call::retry_budget::RetryBudget;
use crate::call::sequence_call::{SequenceCall, frame_key, is_keyed, to_frame_items};
use crate::client_core::{ClientCore, OwnerTable};
use crate::error::Error;
use crate::pipe::CallResults;
use crate::routing::locate::{find_namespace, locate_in};

/// Call whose items were all sent in one frame to one owner.
pub(crate) struct SingleOwnerCall {
    pub(crate) snapshot: Arc<OwnerTable>,
    /// Index in the table's addresses.
    pub(crate) owner: usize,
    /// Slot of each item.
    pub(crate) slots: Vec<Slot>,
    /// Numbers that the items take.
    pub(crate) weight: u64,
    pub(crate) keyed: bool,
    /// Stride of the namespace.
    pub(crate) stride: u32,
    pub(crate) answers: oneshot::Receiver<CallResults>,
}

impl SingleOwnerCall {
    /// Sends all items in one frame to the one owner of all; None if it cannot do that now.
    pub(crate) fn try_send<C: SequenceCall>(
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
        let first = C::key(items.first()?).as_ref();
        if items.len() > core.frame_items_max {
            return None;
        }
        let keyed = is_keyed(first);
        let found = find_namespace(&snapshot.table, namespace, first).ok()?;
        let stride = found.spec.progression.stride;
        let mut owner = None;
        let mut weight = 0;
        let mut slots = Vec::with_capacity(items.len());
        for item in items {
            let key = C::key(item).as_ref();
            if is_keyed(key) != keyed || C::validate(item).is_err() {
                return None;
            }
            let slot = locate_in(&snapshot.table, found, key).ok()?.slot;
            let item_owner = snapshot.owner_index(slot)?;
            if *owner.get_or_insert(item_owner) != item_owner {
                return None;
            }
            weight += u64::from(C::count(item));
            slots.push(slot);
        }
        if weight > NUMBERS_MAX {
            return None;
        }
        let owner = owner?;
        let frame_key = frame_key::<C>(context, &snapshot, namespace, keyed);
        let deadline = budget.first_deadline();
        let answers = try_submit_to_owner(core, &snapshot, owner, |pipe| {
            let frame_items = to_frame_items::<C>(core, items.iter().zip(&slots));
            pipe.submit_batch(&frame_key, weight, frame_items, deadline)
        })?;
        budget.record_attempt();
        Some(SingleOwnerCall {
            snapshot,
            owner,
            slots,
            weight,
            keyed,
            stride,
            answers,
        })
    }

    /// Returns the results of all items, if none failed and all answers are correct.
    pub(crate) fn decode_all<C: SequenceCall>(
        &self,
        core: &ClientCore,
        items: &[C::Item],
        answers: &CallResults,
    ) -> Option<Vec<Result<C::Answer, Error>>> {
        let all = answers.all_answers()?;
        let mut results = Vec::with_capacity(items.len());
        for ((item, slot), raw) in items.iter().zip(&self.slots).zip(all) {
            core.table.observe_epoch(*slot, raw.epoch);
            results.push(Ok(C::decode(raw, item, self.stride).ok()?));
        }
        (results.len() == items.len()).then_some(results)
    }
}
