//! Answers to the items of a batch, in columns.

use seqsvr_core::ids::Epoch;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{CurrentKind, CurrentManyResponse, ItemError, NextManyResponse};

use crate::batch::item::ItemAnswer;

/// Answers of some items, in their order.
#[derive(Default)]
pub(crate) struct BatchResponse {
    /// First numbers, or values of `current`; 0 where the item failed.
    pub(crate) values: Vec<u64>,
    pub(crate) lasts: Vec<u64>,
    kinds: Vec<i32>,
    /// One entry may stand for all items.
    epochs: Vec<u64>,
    errors: Vec<ItemError>,
}

impl BatchResponse {
    pub(crate) fn with_capacity(n: usize) -> BatchResponse {
        BatchResponse {
            values: Vec::with_capacity(n),
            ..BatchResponse::default()
        }
    }

    /// Fills every column with an entry for each item.
    pub(crate) fn expand_columns(mut self) -> BatchResponse {
        if self.lasts.is_empty() {
            self.lasts = self.values.clone();
        }
        self.expand_epochs();
        self
    }

    /// Merges the answers of the missed items with those of the fast path, with full columns.
    pub(crate) fn merge_missed(
        self,
        missed: &[u32],
        mut missed_answers: BatchResponse,
    ) -> BatchResponse {
        let fast_answers = self.expand_columns();
        missed_answers.expand_epochs();
        for error in &mut missed_answers.errors {
            error.index = missed[error.index as usize];
        }
        BatchResponse {
            values: interleave(fast_answers.values, missed, &missed_answers.values),
            lasts: interleave(fast_answers.lasts, missed, &missed_answers.lasts),
            kinds: interleave(fast_answers.kinds, missed, &missed_answers.kinds),
            epochs: interleave(fast_answers.epochs, missed, &missed_answers.epochs),
            errors: missed_answers.errors,
        }
    }

    /// Returns the answer to Current of the only item, if it was read.
    pub(crate) fn to_single_current(&self) -> Option<ItemAnswer> {
        Some(ItemAnswer::Current {
            kind: CurrentKind::try_from(*self.kinds.first()?).unwrap_or_default(),
            value: *self.values.first()?,
            epoch: Epoch(*self.epochs.first()?),
        })
    }

    /// Appends the answer of the next item.
    pub(crate) fn push_answer(&mut self, answer: &Result<ItemAnswer, RpcError>) {
        let (value, last, kind, epoch) = match answer {
            Ok(ItemAnswer::Numbers { first, last, epoch }) => {
                (*first, *last, CurrentKind::Unspecified, epoch.0)
            }
            Ok(ItemAnswer::Current { kind, value, epoch }) => (*value, 0, *kind, epoch.0),
            Ok(ItemAnswer::Raised { value, epoch, .. }) => {
                (*value, 0, CurrentKind::Unspecified, epoch.0)
            }
            Err(fault) => {
                self.errors.push(fault.to_item_error(self.values.len()));
                (0, 0, CurrentKind::Unspecified, 0)
            }
        };
        self.push_epoch(epoch);
        self.values.push(value);
        self.lasts.push(last);
        self.kinds.push(kind.into());
    }

    /// Appends the epoch of the next item, before its value. Mostly all items have the same epoch.
    #[inline]
    pub(crate) fn push_epoch(&mut self, epoch: u64) {
        match self.epochs.as_slice() {
            [one] if *one == epoch => {}
            [_] => {
                self.expand_epochs();
                self.epochs.push(epoch);
            }
            _ => self.epochs.push(epoch),
        }
    }

    /// Returns the epoch of an item.
    pub(crate) fn epoch_at(&self, index: usize) -> u64 {
        match self.epochs.as_slice() {
            [one] => *one,
            all => all[index],
        }
    }

    /// Expands a shared epoch to one for each item.
    fn expand_epochs(&mut self) {
        if let [one] = self.epochs.as_slice() {
            self.epochs = vec![*one; self.values.len()];
        }
    }

    /// Drops columns that the caller of a Pipe can derive. `counted`: whether its items had counts.
    pub(crate) fn drop_implied_columns(&mut self, counted: bool) {
        if !counted {
            self.lasts.clear();
        }
    }

    pub(crate) fn into_next(self) -> NextManyResponse {
        NextManyResponse {
            firsts: self.values,
            lasts: self.lasts,
            epochs: self.epochs,
            errors: self.errors,
            routes: None,
            cluster_tag: 0,
        }
    }

    pub(crate) fn into_current(self) -> CurrentManyResponse {
        CurrentManyResponse {
            kinds: self.kinds,
            values: self.values,
            epochs: self.epochs,
            errors: self.errors,
            routes: None,
            cluster_tag: 0,
        }
    }
}

/// Returns the entries of `missed_answers` at the indexes `missed`, and those of `fast_answers`
/// between them.
fn interleave<T: Copy>(fast_answers: Vec<T>, missed: &[u32], missed_answers: &[T]) -> Vec<T> {
    if missed.is_empty() {
        return fast_answers;
    }
    let n = fast_answers.len() + missed_answers.len();
    let mut all = Vec::with_capacity(n);
    let mut fast_answers = fast_answers.into_iter();
    let mut missed_answers = missed.iter().zip(missed_answers).peekable();
    let next = |i| match missed_answers.next_if(|(index, _)| **index as usize == i) {
        Some((_, entry)) => Some(*entry),
        None => fast_answers.next(),
    };
    all.extend((0..n).filter_map(next));
    all
}
