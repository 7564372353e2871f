//! A frame that is being filled: columns, and which callers wait for which part of them.

use bytes::Bytes;
use seqsvr_proto::limits::NUMBERS_MAX;
use seqsvr_proto::v1::{self, pipe_request};
use tokio::time::Instant;

use crate::batch_item::BatchItemKey;
use crate::pipe::call_waiter::CallWaiter;
use crate::pipe::frame_key::{FrameItem, FrameKey, PipeOperation};
use crate::pipe::in_flight::InFlightFrame;

/// Frame that is being filled.
pub(super) struct FrameBuilder {
    operation: PipeOperation,
    namespace: String,
    keyed: bool,
    strict: bool,
    table_version: u64,
    item_count: usize,
    uids: Vec<u64>,
    keys: Vec<Bytes>,
    counts: FrameColumn<u32>,
    floors: FrameColumn<u64>,
    epochs: FrameColumn<u64>,
    /// Least id that the answer may have; None: its ids need not rise, or it has none.
    least_id: Option<u64>,
    weight: u64,
    pub(super) waiters: Vec<CallWaiter>,
    /// Expiry of the last caller.
    last_expiry: Instant,
}

impl FrameBuilder {
    /// Creates a frame with capacity for this many items and callers.
    pub(super) fn new(frame_key: &FrameKey<'_>, items: usize, callers: usize) -> FrameBuilder {
        let (uids, keys) = match (frame_key.operation, frame_key.keyed) {
            (PipeOperation::Ids, _) => (0, 0),
            (_, true) => (0, items),
            (_, false) => (items, 0),
        };
        FrameBuilder {
            operation: frame_key.operation,
            namespace: frame_key.namespace.to_owned(),
            keyed: frame_key.keyed,
            strict: frame_key.strict,
            table_version: frame_key.table_version,
            item_count: 0,
            uids: Vec::with_capacity(uids),
            keys: Vec::with_capacity(keys),
            counts: FrameColumn::Uniform(1),
            floors: FrameColumn::Uniform(0),
            epochs: FrameColumn::Uniform(0),
            least_id: None,
            weight: 0,
            waiters: Vec::with_capacity(callers),
            last_expiry: Instant::now(),
        }
    }

    pub(super) fn item_count(&self) -> usize {
        self.item_count
    }

    /// Returns how many of the items have keys.
    pub(super) fn key_count(&self) -> usize {
        self.uids.len() + self.keys.len()
    }

    /// Returns whether this many more items with this key fit into the frame.
    pub(super) fn may_join(
        &self,
        frame_key: &FrameKey<'_>,
        items: usize,
        weight: u64,
        batch_items_max: usize,
    ) -> bool {
        self.item_count() + items <= batch_items_max
            && self.weight + weight <= NUMBERS_MAX
            && self.table_version == frame_key.table_version
            && (self.operation, self.keyed, self.strict)
                == (frame_key.operation, frame_key.keyed, frame_key.strict)
            && self.namespace == frame_key.namespace
    }

    /// Adds the items of a call, which take `weight` numbers, and the caller that waits for them.
    /// Usually the items differ only in their keys.
    #[inline]
    pub(super) fn push_call<'p>(
        &mut self,
        frame_items: impl ExactSizeIterator<Item = FrameItem<'p>> + Clone,
        weight: u64,
        waiter: CallWaiter,
    ) {
        let (first_index, added) = (self.item_count, frame_items.len());
        if first_index == 0
            && let Some(first) = frame_items.clone().next()
        {
            self.counts = FrameColumn::Uniform(first.count);
            self.floors = FrameColumn::Uniform(first.floor);
            self.epochs = FrameColumn::Uniform(first.epoch);
        }
        let uniform = (
            self.counts.uniform_value(),
            self.floors.uniform_value(),
            self.epochs.uniform_value(),
        );
        let mut is_uniform = true;
        for item in frame_items.clone() {
            is_uniform &= uniform == (Some(item.count), Some(item.floor), Some(item.epoch));
            match item.key {
                BatchItemKey::Uid(uid) => self.uids.push(uid),
                BatchItemKey::Key(key) => self.keys.push(key.clone()),
            }
        }
        if !is_uniform {
            self.counts
                .push_values(first_index, frame_items.clone().map(|item| item.count));
            self.floors
                .push_values(first_index, frame_items.clone().map(|item| item.floor));
            self.epochs
                .push_values(first_index, frame_items.map(|item| item.epoch));
        }
        self.push_waiter(added, weight, waiter);
    }

    /// Adds a call for `count` ids, not below `least_id` if they rise, and its caller. All calls of
    /// a frame are of one family, so that the ids of all rise, or need not.
    pub(super) fn push_ids(&mut self, count: usize, least_id: Option<u64>, waiter: CallWaiter) {
        self.least_id = self.least_id.max(least_id);
        self.push_waiter(count, count as u64, waiter);
    }

    fn push_waiter(&mut self, added: usize, weight: u64, waiter: CallWaiter) {
        self.item_count += added;
        self.weight += weight;
        self.last_expiry = self.last_expiry.max(waiter.deadline.expires_at);
        self.waiters.push(waiter);
    }

    /// Returns the request to send, and the frame that waits for its answer.
    pub(super) fn seal(self, id: u64) -> (v1::PipeRequest, InFlightFrame) {
        let items = self.item_count();
        // A value that all items share and that the server assumes is left out.
        let counts = self.counts.into_values_unless(items, 1);
        let has_counts = !counts.is_empty();
        let floors = self.floors.into_values_unless(items, 0);
        let epochs = match self.epochs {
            // One for all, or none if none was seen.
            FrameColumn::Uniform(0) => Vec::new(),
            FrameColumn::Uniform(epoch) => vec![epoch],
            FrameColumn::PerItem(epochs) => epochs,
        };
        let timeout = self.last_expiry.saturating_duration_since(Instant::now());
        let flight = InFlightFrame::new(
            self.operation,
            items,
            has_counts,
            self.least_id,
            self.waiters,
            self.last_expiry,
        );
        let operation = match self.operation {
            PipeOperation::Next => pipe_request::Operation::Next(v1::NextManyRequest {
                namespace: self.namespace,
                uids: self.uids,
                keys: self.keys,
                counts,
                floors,
                epochs,
                strict: self.strict,
                table_version: self.table_version,
                forwarded: false,
                // The cluster is named once, when the pipe is opened.
                cluster_tag: 0,
            }),
            PipeOperation::Current => pipe_request::Operation::Current(v1::CurrentManyRequest {
                namespace: self.namespace,
                uids: self.uids,
                keys: self.keys,
                strict: self.strict,
                table_version: self.table_version,
                forwarded: false,
                epochs,
                cluster_tag: 0,
            }),
            PipeOperation::Ids => pipe_request::Operation::Ids(v1::NextIdsRequest {
                family: self.namespace,
                count: u32::try_from(items).ok(),
                runs: false,
                floor: self.least_id.and_then(|least| least.checked_sub(1)),
            }),
        };
        let request = v1::PipeRequest {
            id,
            timeout_ms: u32::try_from(timeout.as_millis())
                .unwrap_or(u32::MAX)
                .max(1),
            operation: Some(operation),
        };
        (request, flight)
    }
}

/// Column that usually has the same value for all items.
enum FrameColumn<T> {
    Uniform(T),
    PerItem(Vec<T>),
}

impl<T: Copy + PartialEq> FrameColumn<T> {
    /// Returns the value that all items share, if they do.
    #[inline]
    fn uniform_value(&self) -> Option<T> {
        match self {
            FrameColumn::Uniform(value) => Some(*value),
            FrameColumn::PerItem(_) => None,
        }
    }

    /// Adds the values of the next items; the first of them is the item at `first_index`.
    fn push_values(&mut self, first_index: usize, added: impl Iterator<Item = T> + Clone) {
        if let FrameColumn::Uniform(uniform) = self {
            let uniform = *uniform;
            if added.clone().all(|value| value == uniform) {
                return;
            }
            *self = FrameColumn::PerItem(vec![uniform; first_index]);
        }
        if let FrameColumn::PerItem(values) = self {
            values.extend(added);
        }
    }

    /// Returns the values of all items; none if every value is `implied`.
    fn into_values_unless(self, items: usize, implied: T) -> Vec<T> {
        match self {
            FrameColumn::Uniform(value) if value == implied => Vec::new(),
            FrameColumn::Uniform(value) => vec![value; items],
            FrameColumn::PerItem(values) => values,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;
    use crate::attempt::attempt_deadline::AttemptDeadline;

    #[test]
    fn frame_of_ids_has_the_greatest_floor_and_no_columns() {
        let frame_key = FrameKey {
            operation: PipeOperation::Ids,
            namespace: "orders",
            keyed: false,
            strict: false,
            table_version: 0,
        };
        let mut frame = FrameBuilder::new(&frame_key, 1_000, 3);
        for least_id in [10, 30, 20] {
            let deadline = AttemptDeadline {
                expires_at: Instant::now(),
                timeout: Duration::ZERO,
            };
            let waiter = CallWaiter::batch(oneshot::channel().0, 500, deadline);
            frame.push_ids(500, Some(least_id), waiter);
        }
        assert_eq!((frame.key_count(), frame.uids.capacity()), (0, 0));
        let (request, _) = frame.seal(1);
        let expected = v1::NextIdsRequest {
            family: "orders".into(),
            count: Some(1_500),
            runs: false,
            floor: Some(29),
        };
        assert_eq!(
            request.operation,
            Some(pipe_request::Operation::Ids(expected))
        );
    }
}
