//! The usual call about many keys: one owner has them all, one frame holds them, and nothing fails.
//!
//! Such a call is one frame's worth of columns each way, without anything an item. For any other
//! call `many` takes over with what there is: nothing here is retried.

use std::sync::Arc;

use seqsvr_core::id::Slot;
use seqsvr_core::route::KeyRef;
use tokio::sync::oneshot;

use crate::batch::Batch;
use crate::budget::Budget;
use crate::client::Client;
use crate::error::Error;
use crate::pipe::{Answers, FRAME_MAX, Lot, Parcel};
use crate::routing::{namespace_in, place_in};
use crate::table::Known;
use seqsvr_proto::limits::NUMBERS_MAX;

/// All items of a call, sent.
pub(crate) struct Together {
    pub(crate) known: Arc<Known>,
    /// Index in the table's addresses.
    pub(crate) owner: usize,
    /// Slot of each item.
    pub(crate) slots: Vec<Slot>,
    /// Numbers that the items take.
    pub(crate) weight: u64,
    pub(crate) keyed: bool,
    /// Stride of the namespace.
    pub(crate) stride: u32,
    pub(crate) answers: oneshot::Receiver<Answers>,
}

impl Client {
    /// Sends all items in one frame to the one owner of all; None if it cannot do that now.
    pub(crate) fn send_together<B: Batch>(
        &self,
        namespace: &str,
        items: &[B::Item],
        budget: &mut Budget,
    ) -> Option<Together> {
        let inner = &self.inner;
        let known = inner.table.known().filter(|_| !inner.table.has_gap())?;
        let first = B::key(items.first()?).as_ref();
        if items.len() > inner.items_max.min(FRAME_MAX) {
            return None;
        }
        let keyed = is_keyed(first);
        let place = namespace_in(&known, namespace, first).ok()?;
        let stride = place.spec.progression.stride;
        let mut owner = None;
        let mut weight = 0;
        let mut slots = Vec::with_capacity(items.len());
        for item in items {
            let key = B::key(item).as_ref();
            if is_keyed(key) != keyed || B::check(item).is_err() {
                return None;
            }
            let slot = place_in(&known, place, key).ok()?.slot;
            let its = known.owner(slot)?;
            if *owner.get_or_insert(its) != its {
                return None;
            }
            weight += u64::from(B::count(item));
            slots.push(slot);
        }
        if weight > NUMBERS_MAX {
            return None;
        }
        let owner = owner?;
        let lot = Lot {
            asks: B::ASKS,
            namespace,
            keyed,
            strict: self.strict,
            version: known.table.version(),
        };
        let patience = budget.first_patience();
        let answers = inner.at_owner(&known, owner, |pipe| {
            let parcels = parcels::<B>(self, items.iter().zip(&slots));
            pipe.submit_many(&lot, weight, parcels, patience)
        })?;
        budget.tried();
        Some(Together {
            known,
            owner,
            slots,
            weight,
            keyed,
            stride,
            answers,
        })
    }

    /// Returns the answers of all items, if none failed and all are correct.
    pub(crate) fn read_together<B: Batch>(
        &self,
        items: &[B::Item],
        sent: &Together,
        answers: &Answers,
    ) -> Option<Vec<Result<B::Answer, Error>>> {
        let all = answers.whole()?;
        let mut results = Vec::with_capacity(items.len());
        for ((item, slot), got) in items.iter().zip(&sent.slots).zip(all) {
            self.inner.table.saw(*slot, got.epoch);
            results.push(Ok(B::read(got, item, sent.stride).ok()?));
        }
        (results.len() == items.len()).then_some(results)
    }
}

/// Returns items, each with its slot, in the form that a pipe takes.
pub(crate) fn parcels<'p, B: Batch>(
    client: &'p Client,
    placed: impl ExactSizeIterator<Item = (&'p B::Item, &'p Slot)> + Clone,
) -> impl ExactSizeIterator<Item = Parcel<'p>> + Clone
where
    B::Item: 'p,
{
    placed.map(move |(item, slot)| Parcel {
        key: B::key(item),
        count: B::count(item),
        floor: B::floor(item),
        epoch: client.inner.table.epoch(*slot),
    })
}

pub(crate) fn is_keyed(key: KeyRef<'_>) -> bool {
    matches!(key, KeyRef::Key(_))
}
