//! Answers to the items of a frame, and the part of them that belongs to one call.

use std::ops::Range;
use std::sync::Arc;

use seqsvr_proto::v1;

use crate::attempt::attempt_error::AttemptError;

/// Unchecked answer to one item: the numbers, or kind and value of `current`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawAnswer {
    pub(crate) value: u64,
    pub(crate) last: u64,
    pub(crate) kind: i32,
    pub(crate) epoch: u64,
}

/// Answer or failure of one item.
pub(crate) type ItemResult = Result<RawAnswer, Box<AttemptError>>;

/// Results of the items of one call, in their order.
pub(crate) enum CallResults {
    /// A range of the columns of a frame that was answered together without a failed item.
    Columns(Arc<AnswerColumns>, Range<usize>),
    PerItem(std::vec::IntoIter<ItemResult>),
    /// The same failure of this many items.
    Failed(Box<AttemptError>, usize),
}

/// Ids of one call.
pub(crate) struct CallIds(Arc<AnswerColumns>, Range<usize>);

impl CallIds {
    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.0.values[self.1.clone()]
    }
}

impl CallResults {
    /// Returns all answers, if their frame was answered together and no item failed.
    pub(crate) fn all_answers(&self) -> Option<impl Iterator<Item = RawAnswer>> {
        match self {
            CallResults::Columns(columns, at) => Some(at.clone().map(|at| columns.answer_at(at))),
            CallResults::PerItem(_) | CallResults::Failed(..) => None,
        }
    }

    /// Returns the ids of a call for ids, or why there are none.
    pub(crate) fn into_ids(self) -> Result<CallIds, AttemptError> {
        match self {
            CallResults::Columns(columns, range) => Ok(CallIds(columns, range)),
            mut others => match others.find_map(Result::err) {
                Some(failure) => Err(*failure),
                None => Err(AttemptError::pipe_lost("the AllocSvr")),
            },
        }
    }
}

impl Iterator for CallResults {
    type Item = ItemResult;

    #[inline]
    fn next(&mut self) -> Option<ItemResult> {
        match self {
            CallResults::Columns(columns, at) => Some(Ok(columns.answer_at(at.next()?))),
            CallResults::PerItem(entries) => entries.next(),
            CallResults::Failed(failure, items) => {
                *items = items.checked_sub(1)?;
                Some(Err(failure.clone()))
            }
        }
    }
}

/// Columns of an answer to `next` or `current`.
pub(crate) struct AnswerColumns {
    values: Vec<u64>,
    /// Last numbers; empty: the values are also the last numbers.
    lasts: Vec<u64>,
    kinds: Vec<i32>,
    /// Epochs; one may stand for all.
    epochs: Vec<u64>,
    pub(super) errors: Vec<v1::ItemError>,
}

impl From<v1::NextManyResponse> for AnswerColumns {
    fn from(next: v1::NextManyResponse) -> AnswerColumns {
        AnswerColumns {
            values: next.firsts,
            lasts: next.lasts,
            kinds: Vec::new(),
            epochs: next.epochs,
            errors: next.errors,
        }
    }
}

impl From<v1::CurrentManyResponse> for AnswerColumns {
    fn from(current: v1::CurrentManyResponse) -> AnswerColumns {
        AnswerColumns {
            values: current.values,
            lasts: Vec::new(),
            kinds: current.kinds,
            epochs: current.epochs,
            errors: current.errors,
        }
    }
}

impl From<v1::NextIdsResponse> for AnswerColumns {
    fn from(next: v1::NextIdsResponse) -> AnswerColumns {
        AnswerColumns {
            values: next.ids,
            lasts: Vec::new(),
            kinds: Vec::new(),
            // Ids have no epoch of a slot.
            epochs: vec![0],
            errors: Vec::new(),
        }
    }
}

impl AnswerColumns {
    /// Returns whether the values rise, the first of them from `least` on.
    pub(super) fn rise_from(&self, least: u64) -> bool {
        self.values.first().is_none_or(|first| *first >= least)
            && self.values.is_sorted_by(|a, b| a < b)
    }

    /// Returns whether the columns answer `items` items. `with_lasts`: some item requests other
    /// than one number; `with_kinds`: the items request the current number.
    pub(super) fn has_shape(&self, items: usize, with_lasts: bool, with_kinds: bool) -> bool {
        let last_count = self.lasts.len();
        let lasts_fit = last_count == items || (last_count == 0 && !with_lasts);
        let kinds_fit = self.kinds.len() == if with_kinds { items } else { 0 };
        let epochs_fit = [1, items].contains(&self.epochs.len());
        let errors_rise = self.errors.is_sorted_by(|a, b| a.index < b.index);
        self.values.len() == items && lasts_fit && kinds_fit && epochs_fit && errors_rise
    }

    /// Returns the answer of an item that did not fail; the columns must [have the
    /// shape](AnswerColumns::has_shape) of the request.
    #[inline]
    pub(super) fn answer_at(&self, at: usize) -> RawAnswer {
        let value = self.values[at];
        RawAnswer {
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
