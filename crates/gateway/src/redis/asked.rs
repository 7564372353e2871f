//! The requests to the service, as batches of one namespace, and its answers.

use std::ops::Range;

use bytes::Bytes;
use futures::future::join_all;
use seqsvr_core::namespace::KEYS;
use seqsvr_proto::LocalSequence;
use seqsvr_proto::limits::NUMBERS_MAX;
use seqsvr_proto::transport::Share;
use seqsvr_proto::v1::{
    CurrentKind, CurrentManyRequest, ItemError, NextManyRequest, NextRequest, RaiseToRequest,
    RoutesRequest, next_request, raise_to_request,
};
use tonic::{Request, Status};

use super::about::About;
use super::go::{Set, TURN_ITEMS};
use super::place::{Key, Place};
use super::plan::{Group, Item};
use super::refusal::Refusal;
use crate::stride::stride;

/// Most RaiseTos in flight at one time.
const SETS_AT_ONCE: usize = 32;

/// Sender of requests to the service for one connection.
pub(super) struct Asked<'a, S> {
    pub(super) sequence: &'a S,
    pub(super) about: &'a About,
    pub(super) share: &'a Share,
    /// Most items of one batch.
    pub(super) items_max: usize,
}

/// Answers to a batch's items: columns, and the items that failed, rising.
pub(super) struct Answered<T> {
    groups: Vec<Column<T>>,
}

#[derive(Default)]
struct Column<T> {
    values: Vec<T>,
    failed: Vec<(usize, Refusal)>,
}

/// The result of a batch: one entry an item, and the items that failed.
type Batch<T> = Result<(Vec<T>, Vec<ItemError>), Status>;
/// The first number of an item and the last.
type Numbers = (u64, u64);

impl<S: LocalSequence> Asked<'_, S> {
    /// Takes the numbers of all items.
    pub(super) async fn take(&self, data: &Bytes, groups: &[Group<'_>]) -> Answered<Numbers> {
        let batches = batches(groups, self.items_max);
        let mut answers = Vec::with_capacity(batches.len());
        for some in batches.chunks(self.at_once(&batches)) {
            // Mostly there is one.
            if let [(group, items)] = some {
                answers.push(self.take_batch(data, &groups[*group], items.clone()).await);
            } else {
                let mut calls = Vec::with_capacity(some.len());
                for (group, items) in some {
                    calls.push(self.take_batch(data, &groups[*group], items.clone()));
                }
                answers.extend(join_all(calls).await);
            }
            turn(some).await;
        }
        Answered::of(groups, &batches, answers)
    }

    /// Reads the current numbers of all items; None: none was given out yet.
    pub(super) async fn read(&self, data: &Bytes, groups: &[Group<'_>]) -> Answered<Option<u64>> {
        let batches = batches(groups, self.items_max);
        let mut answers = Vec::with_capacity(batches.len());
        for some in batches.chunks(self.at_once(&batches)) {
            // Mostly there is one.
            if let [(group, items)] = some {
                answers.push(self.read_batch(data, &groups[*group], items.clone()).await);
            } else {
                let mut calls = Vec::with_capacity(some.len());
                for (group, items) in some {
                    calls.push(self.read_batch(data, &groups[*group], items.clone()));
                }
                answers.extend(join_all(calls).await);
            }
            turn(some).await;
        }
        Answered::of(groups, &batches, answers)
    }

    /// Returns how many batches are sent together: those of several namespaces are short, those of
    /// one are not.
    fn at_once(&self, batches: &[(usize, Range<usize>)]) -> usize {
        let items: usize = batches.iter().map(|(_, items)| items.len()).sum();
        match items > self.items_max {
            true => 1,
            false => batches.len().max(1),
        }
    }

    async fn take_batch(
        &self,
        data: &Bytes,
        group: &Group<'_>,
        items: Range<usize>,
    ) -> Batch<Numbers> {
        let (uids, keys) = columns(data, &group.keys[items.clone()]);
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
        let answer = self.sequence.take_many(request, self.share).await?;
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
        group: &Group<'_>,
        items: Range<usize>,
    ) -> Batch<Option<u64>> {
        let (uids, keys) = columns(data, &group.keys[items]);
        let request = CurrentManyRequest {
            namespace: group.namespace.unwrap_or_default().to_owned(),
            uids,
            keys,
            ..CurrentManyRequest::default()
        };
        let answer = self.sequence.current_many(self.request(request)).await?;
        let answer = answer.into_inner();
        let never = i32::from(CurrentKind::Never);
        let values = answer.kinds.iter().zip(answer.values);
        let current = values.map(|(kind, value)| (*kind != never).then_some(value));
        Ok((current.collect(), answer.errors))
    }

    /// Takes the numbers of one command alone; returns the last of them.
    pub(super) async fn take_one(
        &self,
        data: &Bytes,
        place: Place<'_>,
        count: u32,
    ) -> Result<u64, Refusal> {
        let request = NextRequest {
            namespace: place.namespace.unwrap_or_default().to_owned(),
            key_kind: Some(match place.key {
                Key::Uid(uid) => next_request::KeyKind::Uid(uid),
                Key::Bytes(key) => next_request::KeyKind::Key(data.slice_ref(key)),
            }),
            count: Some(count),
            ..NextRequest::default()
        };
        let answer = self.sequence.next(self.request(request)).await;
        Ok(answer
            .map_err(|status| Refusal::from(&status))?
            .into_inner()
            .last)
    }

    /// Raises each key; rejects a key whose number is above already.
    pub(super) async fn set(&self, data: &Bytes, sets: &[Set<'_>]) -> Vec<Result<(), Refusal>> {
        let mut all = Vec::with_capacity(sets.len());
        for some in sets.chunks(SETS_AT_ONCE) {
            let mut calls = Vec::with_capacity(some.len());
            for set in some {
                calls.push(self.set_one(data, set));
            }
            all.extend(join_all(calls).await);
        }
        all
    }

    async fn set_one(&self, data: &Bytes, set: &Set<'_>) -> Result<(), Refusal> {
        let Set { place, value } = set;
        let request = RaiseToRequest {
            namespace: place.namespace.unwrap_or_default().to_owned(),
            key_kind: Some(match place.key {
                Key::Uid(uid) => raise_to_request::KeyKind::Uid(uid),
                Key::Bytes(key) => raise_to_request::KeyKind::Key(data.slice_ref(key)),
            }),
            value: *value,
            ..RaiseToRequest::default()
        };
        let answer = self.sequence.raise_to(self.request(request)).await;
        let now = answer
            .map_err(|status| Refusal::from(&status))?
            .into_inner()
            .value;
        // Rounded up to a number of the namespace, it is less than a stride above.
        if now == *value || now - value < self.stride(place.namespace).await? {
            return Ok(());
        }
        Err(Refusal::below(now, *value))
    }

    /// Returns a namespace's stride, requested once: it never changes.
    async fn stride(&self, namespace: Option<&str>) -> Result<u64, Refusal> {
        let name = namespace.unwrap_or(KEYS);
        if let Some(stride) = self.about.stride(name) {
            return Ok(stride);
        }
        let request = self.request(RoutesRequest::default());
        let table = self.sequence.routes(request).await;
        let table = table.map_err(|status| Refusal::from(&status))?.into_inner();
        let strides = table.namespaces.into_iter();
        self.about
            .know(strides.map(|known| (known.name, u64::from(known.stride.max(1)))));
        Ok(self.about.stride(name).unwrap_or(1))
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.extensions_mut().insert(self.share.clone());
        request
    }
}

impl<T: Default + Clone> Column<T> {
    /// Adds the answers of the next `n` items.
    fn add(&mut self, n: usize, answer: Batch<T>) {
        let begin = self.values.len();
        match answer {
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
                let refusal = Refusal::from(&status);
                self.failed
                    .extend((0..n).map(|i| (begin + i, refusal.clone())));
            }
        }
        self.values.resize(begin + n, T::default());
    }
}

impl<T: Copy + Default> Answered<T> {
    /// Makes columns from the results of the batches.
    fn of(
        groups: &[Group<'_>],
        batches: &[(usize, Range<usize>)],
        answers: Vec<Batch<T>>,
    ) -> Answered<T> {
        let mut columns: Vec<Column<T>> = groups.iter().map(|_| Column::default()).collect();
        for ((group, items), answer) in batches.iter().zip(answers) {
            columns[*group].add(items.len(), answer);
        }
        Answered { groups: columns }
    }

    fn item(&self, item: Item) -> Result<T, Refusal> {
        let column = &self.groups[item.group as usize];
        let at = item.item as usize;
        match column.failed.binary_search_by_key(&at, |(at, _)| *at) {
            Ok(i) => Err(column.failed[i].1.clone()),
            Err(_) => Ok(column.values[at]),
        }
    }

    /// Returns whether the item was answered.
    pub(super) fn known(&self, item: Item) -> Result<(), Refusal> {
        self.item(item).map(drop)
    }
}

impl Answered<Numbers> {
    /// Returns the `upto`th of an item's `count` numbers.
    pub(super) fn last(&self, item: Item, count: u32, upto: u32) -> Result<u64, Refusal> {
        let (first, last) = self.item(item)?;
        Ok(first + u64::from(upto.max(1) - 1) * stride(first, last, count))
    }
}

impl Answered<Option<u64>> {
    /// Returns the current number; None: no number was given out yet.
    pub(super) fn current(&self, item: Item) -> Result<Option<u64>, Refusal> {
        self.item(item)
    }
}

/// Lets other tasks have their turn after many items.
async fn turn(batches: &[(usize, Range<usize>)]) {
    if batches.iter().any(|(_, items)| items.len() >= TURN_ITEMS) {
        tokio::task::yield_now().await;
    }
}

fn columns(data: &Bytes, keys: &[Key<'_>]) -> (Vec<u64>, Vec<Bytes>) {
    let (mut uids, mut bytes) = (Vec::new(), Vec::new());
    match keys.first() {
        Some(Key::Uid(_)) => uids.reserve_exact(keys.len()),
        _ => bytes.reserve_exact(keys.len()),
    }
    for key in keys {
        match key {
            Key::Uid(uid) => uids.push(*uid),
            Key::Bytes(key) => bytes.push(data.slice_ref(key)),
        }
    }
    (uids, bytes)
}

/// Splits the groups into parts within the contract's bounds of items and of numbers.
fn batches(groups: &[Group<'_>], items_max: usize) -> Vec<(usize, Range<usize>)> {
    let mut all = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let (mut begin, mut numbers) = (0, 0);
        for (i, count) in group.counts.iter().enumerate() {
            let count = u64::from(*count);
            if i - begin >= items_max || numbers + count > NUMBERS_MAX {
                all.push((at, begin..i));
                (begin, numbers) = (i, 0);
            }
            numbers += count;
        }
        all.push((at, begin..group.counts.len()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_within_the_contract() {
        let group = |counts: &[u32]| Group {
            counts: counts.to_vec(),
            ..Group::default()
        };
        let all = batches(&[group(&[1; 5]), group(&[1])], 2);
        assert_eq!(all, [(0, 0..2), (0, 2..4), (0, 4..5), (1, 0..1)]);
        let large = batches(&[group(&[100_000; 250])], 1_000);
        assert_eq!(large, [(0, 0..100), (0, 100..200), (0, 200..250)]);
    }
}
