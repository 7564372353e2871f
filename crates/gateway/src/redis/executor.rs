//! Sends the items of a command batch to the service, in calls of one namespace each, and collects
//! the results.

use std::ops::Range;

use bytes::Bytes;
use futures::future::join_all;
use seqsvr_access::Caller;
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::DEFAULT_KEYED_NAMESPACE;
use seqsvr_net::{ConnectionQuota, LocalSequence};
use seqsvr_proto::key::{KeyBuf, key_columns};
use seqsvr_proto::limits::NUMBERS_MAX;
use seqsvr_proto::v1::{
    CurrentKind, CurrentManyRequest, ItemError, NextManyRequest, NextRequest, RaiseToRequest,
};
use tonic::{Request, Status};

use super::batch_plan::{ItemPosition, NamespaceGroup, RaiseStep};
use super::error::RedisError;
use super::key::RedisKey;
use crate::stride::stride_of;

/// Maximum RaiseTo calls in flight for one connection; more wait.
const RAISES_IN_FLIGHT_MAX: usize = 32;
/// Items of one call after which other tasks of the thread may run.
const YIELD_AFTER_ITEMS: usize = 256;

/// The service as one connection calls it.
pub(super) struct BatchTarget<'a, S> {
    pub(super) sequence: &'a S,
    pub(super) share: &'a ConnectionQuota,
    /// Maximum items of one call.
    pub(super) batch_items_max: usize,
}

/// Sender of the requests of one batch, on behalf of its caller.
pub(super) struct BatchExecutor<'a, S> {
    pub(super) target: &'a BatchTarget<'a, S>,
    pub(super) caller: &'a Caller,
}

/// Results of a batch's items, one column a group.
pub(super) struct BatchResults<T> {
    columns: Vec<ResultColumn<T>>,
}

/// Results of the items of one group.
#[derive(Default)]
struct ResultColumn<T> {
    values: Vec<T>,
    /// Items that failed, by ascending index.
    failed: Vec<(usize, RedisError)>,
}

/// The result of a call: one entry an item, and the items that failed.
type BatchOutcome<T> = Result<(Vec<T>, Vec<ItemError>), Status>;
/// The first and the last number of an item.
type FirstAndLast = (u64, u64);

impl<S: LocalSequence> BatchExecutor<'_, S> {
    /// Takes the numbers of all items.
    pub(super) async fn take_numbers(
        &self,
        data: &Bytes,
        groups: &[NamespaceGroup<'_>],
    ) -> BatchResults<FirstAndLast> {
        let take = |group, items| self.take_batch(data, group, items);
        self.send_batches(groups, take).await
    }

    /// Reads the current numbers of all items; None: no number was issued yet.
    pub(super) async fn read_current(
        &self,
        data: &Bytes,
        groups: &[NamespaceGroup<'_>],
    ) -> BatchResults<Option<u64>> {
        let read = |group, items| self.read_batch(data, group, items);
        self.send_batches(groups, read).await
    }

    /// Splits the groups into batches, and makes a call with `send` for each.
    async fn send_batches<'g, T, F>(
        &self,
        groups: &'g [NamespaceGroup<'g>],
        send: impl Fn(&'g NamespaceGroup<'g>, Range<usize>) -> F,
    ) -> BatchResults<T>
    where
        T: Copy + Default,
        F: Future<Output = BatchOutcome<T>>,
    {
        let batches = split_batches(groups, self.target.batch_items_max);
        let mut outcomes = Vec::with_capacity(batches.len());
        for in_flight in batches.chunks(self.batches_in_flight_max(&batches)) {
            // Usually there is one call.
            if let [(group, items)] = in_flight {
                outcomes.push(send(&groups[*group], items.clone()).await);
            } else {
                let calls = in_flight.iter();
                let calls = calls.map(|(group, items)| send(&groups[*group], items.clone()));
                outcomes.extend(join_all(calls).await);
            }
            yield_after_large_batch(in_flight).await;
        }
        BatchResults::from_outcomes(groups, &batches, outcomes)
    }

    /// Returns how many calls are in flight together: calls for several namespaces are short,
    /// several calls for one namespace are not.
    fn batches_in_flight_max(&self, batches: &[(usize, Range<usize>)]) -> usize {
        let items: usize = batches.iter().map(|(_, items)| items.len()).sum();
        match items > self.target.batch_items_max {
            true => 1,
            false => batches.len().max(1),
        }
    }

    async fn take_batch(
        &self,
        data: &Bytes,
        group: &NamespaceGroup<'_>,
        items: Range<usize>,
    ) -> BatchOutcome<FirstAndLast> {
        let (uids, keys) = group_columns(data, &group.keys[items.clone()]);
        let counts = &group.counts[items];
        let request = NextManyRequest {
            namespace: group.namespace.unwrap_or_default().to_owned(),
            uids,
            keys,
            counts: match counts.iter().all(|count| *count == 1) {
                true => Vec::new(),
                false => counts.to_vec(),
            },
            ..NextManyRequest::default()
        };
        let (sequence, caller) = (self.target.sequence, self.caller);
        let taking = sequence.next_many_local(caller, request, self.target.share);
        let answer = taking.await?;
        let firsts = answer.firsts.into_iter();
        let numbers = match answer.lasts.is_empty() {
            true => firsts.map(|first| (first, first)).collect(),
            false => firsts.zip(answer.lasts).collect(),
        };
        Ok((numbers, answer.errors))
    }

    async fn read_batch(
        &self,
        data: &Bytes,
        group: &NamespaceGroup<'_>,
        items: Range<usize>,
    ) -> BatchOutcome<Option<u64>> {
        let (uids, keys) = group_columns(data, &group.keys[items]);
        let request = CurrentManyRequest {
            namespace: group.namespace.unwrap_or_default().to_owned(),
            uids,
            keys,
            ..CurrentManyRequest::default()
        };
        let answer = self
            .target
            .sequence
            .current_many(self.with_share(request))
            .await?;
        let answer = answer.into_inner();
        let never = i32::from(CurrentKind::Never);
        let values = answer.kinds.iter().zip(answer.values);
        let current = values.map(|(kind, value)| (*kind != never).then_some(value));
        Ok((current.collect(), answer.errors))
    }

    /// Takes the numbers of one command alone; returns the last of them.
    pub(super) async fn take_single(
        &self,
        data: &Bytes,
        key: RedisKey<'_>,
        count: u32,
    ) -> Result<u64, RedisError> {
        let request = NextRequest {
            namespace: key.namespace.unwrap_or_default().to_owned(),
            key_kind: Some(key.to_key_buf(data).into()),
            count: Some(count),
            ..NextRequest::default()
        };
        let answer = self.target.sequence.next(self.with_share(request)).await?;
        Ok(answer.into_inner().last)
    }

    /// Raises each key, and returns whether it did: a step with `if_none` raises no key that has a
    /// number. Another step rejects a key whose number is above the value already.
    pub(super) async fn raise_keys(
        &self,
        data: &Bytes,
        raises: &[RaiseStep<'_>],
    ) -> Vec<Result<bool, RedisError>> {
        let mut all = Vec::with_capacity(raises.len());
        for in_flight in raises.chunks(RAISES_IN_FLIGHT_MAX) {
            let mut calls = Vec::with_capacity(in_flight.len());
            for raise in in_flight {
                calls.push(self.raise_single(data, raise));
            }
            all.extend(join_all(calls).await);
        }
        all
    }

    async fn raise_single(&self, data: &Bytes, raise: &RaiseStep<'_>) -> Result<bool, RedisError> {
        let RaiseStep {
            key,
            value,
            if_none,
        } = raise;
        let mut request = RaiseToRequest {
            namespace: key.namespace.unwrap_or_default().to_owned(),
            key_kind: Some(key.to_key_buf(data).into()),
            ..RaiseToRequest::default()
        };
        match if_none {
            true => request.value_if_none = *value,
            false => request.value = *value,
        }
        let answer = self
            .target
            .sequence
            .raise_to(self.with_share(request))
            .await;
        if *if_none {
            let answer = answer.map_err(RedisError::of_raise_if_none)?;
            return Ok(!answer.into_inner().had_number);
        }
        let current = answer?.into_inner().value;
        // The service rounds the value up to a number of the namespace: by less than a stride.
        if current == *value || current - value < self.namespace_stride(key.namespace).await? {
            return Ok(true);
        }
        Err(RedisError::below_current(current, *value))
    }

    async fn namespace_stride(&self, namespace: Option<&str>) -> Result<u64, RedisError> {
        let name = namespace.unwrap_or(DEFAULT_KEYED_NAMESPACE);
        let namespace = self.target.sequence.namespace(name).await?;
        Ok(namespace.map_or(1, |namespace| namespace.spec.progression.stride.into()))
    }

    /// Makes a request on behalf of this connection.
    fn with_share<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.extensions_mut().insert(self.target.share.clone());
        request.extensions_mut().insert(self.caller.clone());
        request
    }
}

impl<T: Default + Clone> ResultColumn<T> {
    /// Appends the results of the next `item_count` items.
    fn append(&mut self, item_count: usize, outcome: BatchOutcome<T>) {
        let begin = self.values.len();
        match outcome {
            Ok((values, errors)) => {
                let failed = errors.iter();
                self.failed
                    .extend(failed.map(|error| (begin + error.index as usize, error.into())));
                match self.values.is_empty() {
                    true => self.values = values,
                    false => self.values.extend(values),
                }
            }
            Err(status) => {
                let error = RedisError::from(status);
                self.failed
                    .extend((0..item_count).map(|i| (begin + i, error.clone())));
            }
        }
        self.values.resize(begin + item_count, T::default());
    }
}

impl<T: Copy + Default> BatchResults<T> {
    /// Makes columns from the results of the batches.
    fn from_outcomes(
        groups: &[NamespaceGroup<'_>],
        batches: &[(usize, Range<usize>)],
        outcomes: Vec<BatchOutcome<T>>,
    ) -> BatchResults<T> {
        let mut columns: Vec<ResultColumn<T>> =
            groups.iter().map(|_| ResultColumn::default()).collect();
        for ((group, items), outcome) in batches.iter().zip(outcomes) {
            columns[*group].append(items.len(), outcome);
        }
        BatchResults { columns }
    }

    /// Returns the result of an item.
    ///
    /// # Errors
    /// The item failed.
    pub(super) fn result(&self, item: ItemPosition) -> Result<T, RedisError> {
        let column = &self.columns[item.group as usize];
        let index = item.index as usize;
        match column
            .failed
            .binary_search_by_key(&index, |(index, _)| *index)
        {
            Ok(i) => Err(column.failed[i].1.clone()),
            Err(_) => Ok(column.values[index]),
        }
    }
}

impl BatchResults<FirstAndLast> {
    /// Returns number `last_ordinal` of the `count` numbers of an item; the first is number 1.
    pub(super) fn last_number(
        &self,
        item: ItemPosition,
        count: u32,
        last_ordinal: u32,
    ) -> Result<u64, RedisError> {
        let (first, last) = self.result(item)?;
        Ok(first + u64::from(last_ordinal.max(1) - 1) * stride_of(first, last, count))
    }
}

/// Yields after a large call, so that the other connections of this thread are served.
async fn yield_after_large_batch(batches: &[(usize, Range<usize>)]) {
    if batches
        .iter()
        .any(|(_, items)| items.len() >= YIELD_AFTER_ITEMS)
    {
        tokio::task::yield_now().await;
    }
}

/// Returns the keys of one group as the columns of a call.
fn group_columns(data: &Bytes, keys: &[KeyRef<'_>]) -> (Vec<u64>, Vec<Bytes>) {
    key_columns(keys.iter().map(|key| match key {
        KeyRef::Uid(uid) => KeyBuf::Uid(*uid),
        KeyRef::Key(key) => KeyBuf::Key(data.slice_ref(key)),
    }))
}

/// Splits the groups into calls within the limits of items and of numbers. Returns the group and
/// the range of items of each call.
fn split_batches(
    groups: &[NamespaceGroup<'_>],
    batch_items_max: usize,
) -> Vec<(usize, Range<usize>)> {
    let mut all = Vec::new();
    for (group_index, group) in groups.iter().enumerate() {
        let (mut begin, mut numbers) = (0, 0);
        for (i, count) in group.counts.iter().enumerate() {
            let count = u64::from(*count);
            if i - begin >= batch_items_max || numbers + count > NUMBERS_MAX {
                all.push((group_index, begin..i));
                (begin, numbers) = (i, 0);
            }
            numbers += count;
        }
        all.push((group_index, begin..group.counts.len()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_batches_respects_item_and_number_limits() {
        let group = |counts: &[u32]| NamespaceGroup {
            counts: counts.to_vec(),
            ..NamespaceGroup::default()
        };
        let all = split_batches(&[group(&[1; 5]), group(&[1])], 2);
        assert_eq!(all, [(0, 0..2), (0, 2..4), (0, 4..5), (1, 0..1)]);
        let large = split_batches(&[group(&[100_000; 250])], 1_000);
        assert_eq!(large, [(0, 0..100), (0, 100..200), (0, 200..250)]);
    }
}
