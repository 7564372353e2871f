//! The calls that a Pipe carries, of one key or of many: what an item requests, and how a reply
//! becomes its answer.

use std::marker::PhantomData;

use seqsvr_core::ids::Slot;
use seqsvr_core::key::KeyRef;
use seqsvr_proto::v1;

use crate::batch_item::BatchItem;
use crate::call::context::CallContext;
use crate::client_core::{ClientCore, OwnerTable};
use crate::error::Error;
use crate::pipe::{FrameItem, FrameKey, PipeOperation, RawAnswer};
use crate::types::{Current, CurrentKind, IssuedRange, validate_count};

/// Call that a Pipe carries.
pub(crate) trait SequenceCall {
    type Item: BatchItem;
    type Answer: Send;
    const OPERATION: PipeOperation;

    /// Rejects an item that would fail the whole request.
    fn validate(item: &Self::Item) -> Result<(), Error>;
    /// Returns how many numbers the item takes.
    fn count(item: &Self::Item) -> u32;
    /// Returns the last number that the caller has seen; 0: none.
    fn floor(item: &Self::Item) -> u64;
    /// Makes the answer from a reply, in a namespace of this stride, or returns what is wrong with
    /// the reply.
    fn decode(raw: RawAnswer, item: &Self::Item, stride: u32)
    -> Result<Self::Answer, &'static str>;
}

/// Call that takes numbers of keys.
pub(crate) struct NextCall<I>(PhantomData<I>);

impl<I: BatchItem> SequenceCall for NextCall<I> {
    type Item = I;
    type Answer = IssuedRange;
    const OPERATION: PipeOperation = PipeOperation::Next;

    fn validate(item: &I) -> Result<(), Error> {
        validate_count(item.count())
    }

    fn count(item: &I) -> u32 {
        item.count()
    }

    fn floor(item: &I) -> u64 {
        item.floor().unwrap_or(0)
    }

    /// Checks that the reply has as many numbers as requested, all above the floor.
    fn decode(raw: RawAnswer, item: &I, stride: u32) -> Result<IssuedRange, &'static str> {
        let numbers = IssuedRange {
            first: raw.value,
            last: raw.last,
            epoch: raw.epoch,
            stride,
        };
        let span = u64::from(item.count().max(1) - 1) * u64::from(numbers.stride);
        if numbers.first == 0 || numbers.last.checked_sub(numbers.first) != Some(span) {
            return Err("number count differs from the request");
        }
        if item.floor().is_some_and(|floor| numbers.first <= floor) {
            return Err("numbers are not above the floor");
        }
        Ok(numbers)
    }
}

/// Call that reads the last numbers of keys.
pub(crate) struct CurrentCall<I>(PhantomData<I>);

impl<I: BatchItem> SequenceCall for CurrentCall<I> {
    type Item = I;
    type Answer = Current;
    const OPERATION: PipeOperation = PipeOperation::Current;

    fn validate(_: &I) -> Result<(), Error> {
        Ok(())
    }

    fn count(_: &I) -> u32 {
        0
    }

    fn floor(_: &I) -> u64 {
        0
    }

    fn decode(raw: RawAnswer, _: &I, _: u32) -> Result<Current, &'static str> {
        let kind = match v1::CurrentKind::try_from(raw.kind) {
            Ok(v1::CurrentKind::Exact) => CurrentKind::Exact,
            Ok(v1::CurrentKind::Never) => CurrentKind::Never,
            Ok(v1::CurrentKind::AtMost) => CurrentKind::AtMost,
            Ok(v1::CurrentKind::Unspecified) | Err(_) => return Err("unknown kind of current"),
        };
        Ok(Current {
            kind,
            value: raw.value,
            epoch: raw.epoch,
        })
    }
}

/// Returns what the items of a call, located by this table, have in common.
pub(crate) fn frame_key<'a, C: SequenceCall>(
    context: &CallContext,
    snapshot: &OwnerTable,
    namespace: &'a str,
    keyed: bool,
) -> FrameKey<'a> {
    FrameKey {
        operation: C::OPERATION,
        namespace,
        keyed,
        strict: context.strict,
        table_version: snapshot.table.version(),
    }
}

/// Returns an item in the form that a pipe accepts.
pub(crate) fn to_frame_item<'p, C: SequenceCall>(
    core: &ClientCore,
    item: &'p C::Item,
    slot: Slot,
) -> FrameItem<'p> {
    FrameItem {
        key: item.key(),
        count: C::count(item),
        floor: C::floor(item),
        epoch: core.table.epoch_seen(slot),
    }
}

/// Returns items, each with its slot, in the form that a pipe accepts.
pub(crate) fn to_frame_items<'p, B: SequenceCall>(
    core: &'p ClientCore,
    located: impl ExactSizeIterator<Item = (&'p B::Item, &'p Slot)> + Clone,
) -> impl ExactSizeIterator<Item = FrameItem<'p>> + Clone
where
    B::Item: 'p,
{
    located.map(move |(item, slot)| to_frame_item::<B>(core, item, *slot))
}

/// Returns whether a key belongs to keyed namespaces.
pub(crate) fn is_keyed(key: KeyRef<'_>) -> bool {
    matches!(key, KeyRef::Key(_))
}
