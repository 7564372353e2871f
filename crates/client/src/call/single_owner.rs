//! The usual call about many keys: they all have one owner, one frame holds them, and no item
//! fails.
//!
//! Such a call is the columns of one frame each way, without work for each item. This module
//! retries nothing: any other call continues as a batch with retries.

use std::sync::Arc;

use seqsvr_core::id::Slot;
use seqsvr_core::route::KeyRef;
use tokio::sync::oneshot;

use crate::call::batch_call::BatchCall;
use crate::call::retry_budget::RetryBudget;
use crate::client::Client;
use crate::error::Error;
use crate::pipe::{CallResults, FRAME_ITEMS_MAX, FrameItem, FrameKey};
use crate::routing::locate::{find_namespace, locate_in};
use crate::routing::table_cache::TableSnapshot;
use seqsvr_proto::limits::NUMBERS_MAX;

/// Call whose items were all sent in one frame to one owner.
pub(crate) struct SingleOwnerCall {
    pub(crate) snapshot: Arc<TableSnapshot>,
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

impl Client {
    /// Sends all items in one frame to the one owner of all; None if it cannot do that now.
    pub(crate) fn send_to_single_owner<B: BatchCall>(
        &self,
        namespace: &str,
        items: &[B::Item],
        budget: &mut RetryBudget,
    ) -> Option<SingleOwnerCall> {
        let core = &self.core;
        let snapshot = core
            .table
            .snapshot()
            .filter(|_| !core.table.has_missed_update())?;
        let first = B::key(items.first()?).as_ref();
        if items.len() > core.frame_items_max.min(FRAME_ITEMS_MAX) {
            return None;
        }
        let keyed = is_keyed(first);
        let found = find_namespace(&snapshot, namespace, first).ok()?;
        let stride = found.spec.progression.stride;
        let mut owner = None;
        let mut weight = 0;
        let mut slots = Vec::with_capacity(items.len());
        for item in items {
            let key = B::key(item).as_ref();
            if is_keyed(key) != keyed || B::validate(item).is_err() {
                return None;
            }
            let slot = locate_in(&snapshot, found, key).ok()?.slot;
            let item_owner = snapshot.owner_index(slot)?;
            if *owner.get_or_insert(item_owner) != item_owner {
                return None;
            }
            weight += u64::from(B::count(item));
            slots.push(slot);
        }
        if weight > NUMBERS_MAX {
            return None;
        }
        let owner = owner?;
        let frame_key = FrameKey {
            operation: B::OPERATION,
            namespace,
            keyed,
            strict: self.strict,
            table_version: snapshot.table.version(),
        };
        let deadline = budget.first_deadline();
        let answers = core.try_submit_to_owner(&snapshot, owner, |pipe| {
            let frame_items = frame_items::<B>(self, items.iter().zip(&slots));
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
    pub(crate) fn decode_from_single_owner<B: BatchCall>(
        &self,
        items: &[B::Item],
        sent: &SingleOwnerCall,
        answers: &CallResults,
    ) -> Option<Vec<Result<B::Answer, Error>>> {
        let all = answers.all_answers()?;
        let mut results = Vec::with_capacity(items.len());
        for ((item, slot), raw) in items.iter().zip(&sent.slots).zip(all) {
            self.core.table.observe_epoch(*slot, raw.epoch);
            results.push(Ok(B::decode(raw, item, sent.stride).ok()?));
        }
        (results.len() == items.len()).then_some(results)
    }
}

/// Returns items, each with its slot, in the form that a pipe accepts.
pub(crate) fn frame_items<'p, B: BatchCall>(
    client: &'p Client,
    located: impl ExactSizeIterator<Item = (&'p B::Item, &'p Slot)> + Clone,
) -> impl ExactSizeIterator<Item = FrameItem<'p>> + Clone
where
    B::Item: 'p,
{
    located.map(move |(item, slot)| FrameItem {
        key: B::key(item),
        count: B::count(item),
        floor: B::floor(item),
        epoch: client.core.table.epoch_seen(*slot),
    })
}

/// Returns whether a key belongs to keyed namespaces.
pub(crate) fn is_keyed(key: KeyRef<'_>) -> bool {
    matches!(key, KeyRef::Key(_))
}
