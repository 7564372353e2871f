//! The answers to the items of a frame, and the part of them that belongs to one call.

use std::ops::Range;
use std::sync::Arc;

use seqsvr_proto::v1;

use crate::failure::Failure;

/// The answer to one item, unchecked: the numbers, or kind and value of `current`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Got {
    pub(crate) value: u64,
    pub(crate) last: u64,
    pub(crate) kind: i32,
    pub(crate) epoch: u64,
}

/// The result of an item.
pub(crate) type Entry = Result<Got, Box<Failure>>;

/// The results of the items of one call, in their order.
pub(crate) enum Answers {
    /// Their whole frame was answered together and none failed: they are these of its columns.
    Whole(Arc<Columns>, Range<usize>),
    Each(std::vec::IntoIter<Entry>),
}

impl Answers {
    /// Returns all answers, if their frame was answered together and no item failed.
    pub(crate) fn whole(&self) -> Option<impl Iterator<Item = Got>> {
        match self {
            Answers::Whole(columns, at) => Some(at.clone().map(|at| columns.got(at))),
            Answers::Each(_) => None,
        }
    }
}

impl Iterator for Answers {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        match self {
            Answers::Whole(columns, at) => Some(Ok(columns.got(at.next()?))),
            Answers::Each(entries) => entries.next(),
        }
    }
}

/// Columns of an answer of either kind.
pub(crate) struct Columns {
    values: Vec<u64>,
    /// Last numbers; empty: the values are also the last numbers.
    lasts: Vec<u64>,
    kinds: Vec<i32>,
    /// Epochs; one may stand for all.
    epochs: Vec<u64>,
    pub(super) errors: Vec<v1::ItemError>,
}

impl From<v1::NextManyResponse> for Columns {
    fn from(next: v1::NextManyResponse) -> Columns {
        Columns {
            values: next.firsts,
            lasts: next.lasts,
            kinds: Vec::new(),
            epochs: next.epochs,
            errors: next.errors,
        }
    }
}

impl From<v1::CurrentManyResponse> for Columns {
    fn from(current: v1::CurrentManyResponse) -> Columns {
        Columns {
            values: current.values,
            lasts: Vec::new(),
            kinds: current.kinds,
            epochs: current.epochs,
            errors: current.errors,
        }
    }
}

impl Columns {
    /// Returns whether they are of `n` items. `counted`: an item requests other than one number;
    /// `kinds`: the items request the current one.
    pub(super) fn fit(&self, n: usize, counted: bool, kinds: bool) -> bool {
        let last = self.lasts.len();
        let lasts = last == n || (last == 0 && !counted);
        let kinds = self.kinds.len() == if kinds { n } else { 0 };
        let epochs = [1, n].contains(&self.epochs.len());
        let rising = self.errors.is_sorted_by(|a, b| a.index < b.index);
        self.values.len() == n && lasts && kinds && epochs && rising
    }

    /// Returns the answer of an item that did not fail; the columns must [`fit`](Columns::fit).
    #[inline]
    pub(super) fn got(&self, at: usize) -> Got {
        let value = self.values[at];
        Got {
            value,
            last: self.lasts.get(at).copied().unwrap_or(value),
            kind: self.kinds.get(at).copied().unwrap_or_default(),
            epoch: match self.epochs.as_slice() {
                [one] => *one,
                all => all[at],
            },
        }
    }
}
