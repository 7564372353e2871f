//! The answers to a frame's items, as columns.

use seqsvr_core::id::Epoch;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::{CurrentKind, CurrentManyResponse, ItemError, NextManyResponse};

use crate::ask::ItemAnswer;

/// Answers of some items, in their order.
#[derive(Default)]
pub(crate) struct BatchResponse {
    /// First numbers, or values of `current`; 0 where the item failed.
    pub(crate) values: Vec<u64>,
    pub(crate) lasts: Vec<u64>,
    kinds: Vec<i32>,
    /// One may stand for all.
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

    /// With an entry for each item in every column.
    pub(crate) fn whole(mut self) -> BatchResponse {
        if self.lasts.is_empty() {
            self.lasts = self.values.clone();
        }
        self.spread_epochs();
        self
    }

    /// Puts the answers of the missed among those of the others, whole.
    pub(crate) fn merge(self, missed: &[u32], mut rest: BatchResponse) -> BatchResponse {
        let others = self.whole();
        rest.spread_epochs();
        for error in &mut rest.errors {
            error.index = missed[error.index as usize];
        }
        BatchResponse {
            values: interleave(others.values, missed, &rest.values),
            lasts: interleave(others.lasts, missed, &rest.lasts),
            kinds: interleave(others.kinds, missed, &rest.kinds),
            epochs: interleave(others.epochs, missed, &rest.epochs),
            errors: rest.errors,
        }
    }

    /// What was read of the only item, if it was.
    pub(crate) fn single(&self) -> Option<ItemAnswer> {
        Some(ItemAnswer::Current {
            kind: CurrentKind::try_from(*self.kinds.first()?).unwrap_or_default(),
            value: *self.values.first()?,
            epoch: Epoch(*self.epochs.first()?),
        })
    }

    /// The next item's answer.
    pub(crate) fn push(&mut self, answer: &Result<ItemAnswer, Fault>) {
        let (value, last, kind, epoch) = match answer {
            Ok(ItemAnswer::Numbers { first, last, epoch }) => {
                (*first, *last, CurrentKind::Unspecified, epoch.0)
            }
            Ok(ItemAnswer::Current { kind, value, epoch }) => (*value, 0, *kind, epoch.0),
            Ok(ItemAnswer::Raised { value, epoch }) => {
                (*value, 0, CurrentKind::Unspecified, epoch.0)
            }
            Err(fault) => {
                self.errors.push(item_error(self.values.len(), fault));
                (0, 0, CurrentKind::Unspecified, 0)
            }
        };
        self.push_epoch(epoch);
        self.values.push(value);
        self.lasts.push(last);
        self.kinds.push(kind.into());
    }

    /// Epoch of the next item, before its value: mostly all have the same.
    #[inline]
    pub(crate) fn push_epoch(&mut self, epoch: u64) {
        match self.epochs.as_slice() {
            [one] if *one == epoch => {}
            [_] => {
                self.spread_epochs();
                self.epochs.push(epoch);
            }
            _ => self.epochs.push(epoch),
        }
    }

    /// Epoch of an item.
    pub(crate) fn epoch(&self, at: usize) -> u64 {
        match self.epochs.as_slice() {
            [one] => *one,
            all => all[at],
        }
    }

    /// One for each.
    fn spread_epochs(&mut self) {
        if let [one] = self.epochs.as_slice() {
            self.epochs = vec![*one; self.values.len()];
        }
    }

    /// Leaves out what a caller of a Pipe can tell by itself, of items that were counted or not.
    pub(crate) fn pack(&mut self, counted: bool) {
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

/// The entries of `rest` at the places `missed`, those of `others` between them.
fn interleave<T: Copy>(others: Vec<T>, missed: &[u32], rest: &[T]) -> Vec<T> {
    if missed.is_empty() {
        return others;
    }
    let n = others.len() + rest.len();
    let mut all = Vec::with_capacity(n);
    let mut others = others.into_iter();
    let mut rest = missed.iter().zip(rest).peekable();
    let next = |i| match rest.next_if(|(at, _)| **at as usize == i) {
        Some((_, entry)) => Some(*entry),
        None => others.next(),
    };
    all.extend((0..n).filter_map(next));
    all
}

/// An item's fault as the contract has it.
pub(crate) fn item_error(index: usize, fault: &Fault) -> ItemError {
    ItemError {
        index: index as u32,
        code: fault.code as i32,
        reason: fault.reason().into(),
        message: fault.message.clone(),
        retry_after_ms: fault.detail.retry_after_ms,
    }
}
