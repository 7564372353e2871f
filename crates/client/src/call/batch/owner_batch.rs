//! The parts of a call about many keys: items that share a budget, and items of one request.

use std::sync::Arc;

use seqsvr_core::ids::Slot;

use crate::call::retry_budget::RetryBudget;
use crate::call::sequence_call::{SequenceCall, to_frame_items};
use crate::client_core::{ClientCore, OwnerTable};
use crate::pipe::FrameItem;

/// Items with the same history, by index, with the budget that they still have.
pub(super) struct RetryGroup {
    pub(super) items: Vec<u32>,
    pub(super) budget: RetryBudget,
}

/// Content of one request: items of one owner, and of one kind of key, hence of one namespace.
pub(super) struct OwnerBatch {
    /// Index in the table's addresses; None: there is no owner.
    pub(super) owner: Option<usize>,
    pub(super) items: Vec<u32>,
    pub(super) slots: Vec<Slot>,
    /// Numbers that the items take.
    pub(super) weight: u64,
    pub(super) keyed: bool,
    /// Stride of the namespace.
    pub(super) stride: u32,
}

impl OwnerBatch {
    /// Returns an empty batch of the same owner and kind of key.
    pub(super) fn new_like(&self) -> OwnerBatch {
        OwnerBatch {
            items: Vec::new(),
            slots: Vec::new(),
            weight: 0,
            ..*self
        }
    }
}

/// Batch that was sent and is not answered.
pub(super) struct InFlightBatch {
    pub(super) batch: OwnerBatch,
    pub(super) budget: RetryBudget,
    pub(super) snapshot: Arc<OwnerTable>,
    /// Address to which the batch was sent, if not the owner's.
    pub(super) address: Option<String>,
}

impl InFlightBatch {
    /// Returns the address to which the batch was sent.
    pub(super) fn address(&self) -> &str {
        let owner = self.batch.owner;
        let owner = owner.map(|index| self.snapshot.addresses[index].as_str());
        self.address.as_deref().or(owner).unwrap_or_default()
    }
}

/// Returns the items of a batch in the form that a pipe accepts.
pub(super) fn owner_batch_items<'p, C: SequenceCall>(
    core: &'p ClientCore,
    items: &'p [C::Item],
    batch: &'p OwnerBatch,
) -> impl ExactSizeIterator<Item = FrameItem<'p>> + Clone {
    let items = batch.items.iter().map(|i| &items[*i as usize]);
    to_frame_items::<C>(core, items.zip(&batch.slots))
}
