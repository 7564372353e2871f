//! One call of a history, as a value.
//!
//! Invariant: a value says no more than the caller knows. Only an answered call has numbers, and
//! a call without an answer has no end.

use std::num::NonZeroU64;

use crate::{Problem, Sequence};

/// One call on one sequence. An item of a batch is a call of its own, with the batch's stamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The sequence that was asked.
    pub sequence: Sequence,
    /// Monotonic nanoseconds, read *before* the request was sent (the first time, if retried).
    /// Every stamp of a history is read from the same clock.
    pub begin: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Ok {
        /// Monotonic nanoseconds, read *after* the answer was received.
        end: u64,
        /// Epoch of the slot as named by the answer; `None` if the answer names none.
        epoch: Option<u64>,
        /// The answer.
        answer: Answer,
    },
    /// It was answered with an error: numbers may have been burned, nothing is constrained.
    Error {
        /// Monotonic nanoseconds, read after the error was received.
        end: u64,
        /// What was asked.
        kind: Kind,
    },
    /// No answer came; nothing is constrained.
    Unknown {
        /// What was asked.
        kind: Kind,
    },
}

/// What a call asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `Next`, or one item of `NextMany`.
    Next,
    /// `Current`, or one item of `CurrentMany`.
    Current,
    /// `RaiseTo`.
    RaiseTo,
}

/// The answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The numbers `first, first + stride, … last` were handed out.
    Next {
        /// Lowest number handed out.
        first: u64,
        /// Highest number handed out.
        last: u64,
        /// Distance of two neighbouring numbers of the namespace; 1 in most.
        stride: NonZeroU64,
    },
    /// `current` said `exact n`.
    Exact(u64),
    /// `current` said `never`.
    Never,
    /// `current` said `at most n`.
    AtMost(u64),
    /// The sequence was raised.
    RaiseTo {
        /// The number asked for.
        asked: u64,
        /// The number the answer names (asked, rounded up to a number of the namespace).
        to: u64,
    },
}

impl Answer {
    /// The numbers `first ..= last` of a namespace with stride 1.
    #[must_use]
    pub fn next(first: u64, last: u64) -> Self {
        Self::Next {
            first,
            last,
            stride: NonZeroU64::MIN,
        }
    }

    /// What was asked.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Next { .. } => Kind::Next,
            Self::Exact(_) | Self::Never | Self::AtMost(_) => Kind::Current,
            Self::RaiseTo { .. } => Kind::RaiseTo,
        }
    }
}

impl Call {
    /// A fault of the record itself (not of the system that answered).
    pub(crate) fn problem(&self) -> Option<Problem> {
        match self.outcome {
            Outcome::Ok { end, .. } | Outcome::Error { end, .. } if end < self.begin => {
                Some(Problem::Backwards {
                    begin: self.begin,
                    end,
                })
            }
            _ => None,
        }
    }
}
