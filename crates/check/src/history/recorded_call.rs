//! One call of a history, as a value.
//!
//! Invariant: a value holds no more than the caller can be sure of. Only an answered call has
//! numbers, and a call without an answer has no end.

use std::num::NonZeroU64;

use super::sequence_name::SequenceName;

/// One call on one sequence. An item of a batch is a call of its own, with the batch's stamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCall {
    /// Sequence that the request named.
    pub sequence: SequenceName,
    /// Monotonic nanoseconds, read *before* the request was sent (the first time, if retried).
    /// Every stamp of a history is read from the same clock.
    pub begin: u64,
    /// Result that the caller saw.
    pub outcome: CallOutcome,
}

/// Result of a call as the caller saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// The caller received an answer.
    Ok {
        /// Monotonic nanoseconds, read *after* the answer was received.
        end: u64,
        /// Epoch of the slot that the answer names; `None` if the answer names none.
        epoch: Option<u64>,
        /// The answer.
        answer: CallAnswer,
    },
    /// The caller received an error: numbers may have been discarded; the call constrains nothing.
    Error {
        /// Monotonic nanoseconds, read after the error was received.
        end: u64,
        /// Kind of the request.
        kind: CallKind,
    },
    /// The caller received no answer; the call constrains nothing.
    Unknown {
        /// Kind of the request.
        kind: CallKind,
    },
}

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// `Next`, or one item of `NextMany`.
    Next,
    /// `Current`, or one item of `CurrentMany`.
    Current,
    /// `RaiseTo`.
    RaiseTo,
}

/// Answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallAnswer {
    /// The server handed out the numbers `first, first + stride, … last`.
    Next {
        /// Lowest number handed out.
        first: u64,
        /// Highest number handed out.
        last: u64,
        /// Distance of two neighboring numbers of the namespace; 1 in most.
        stride: NonZeroU64,
    },
    /// Answer `exact n` to `current`.
    Exact(u64),
    /// Answer `never` to `current`.
    Never,
    /// Answer `at most n` to `current`.
    AtMost(u64),
    /// The server raised the sequence.
    RaiseTo {
        /// The requested number.
        requested: u64,
        /// The number that the answer names: the requested one, rounded up to a number of the
        /// namespace.
        to: u64,
    },
}

impl CallAnswer {
    /// Makes the answer that hands out `first ..= last` in a namespace with stride 1.
    #[must_use]
    pub fn next_range(first: u64, last: u64) -> Self {
        Self::Next {
            first,
            last,
            stride: NonZeroU64::MIN,
        }
    }

    /// Returns the kind of the request that has this answer.
    #[must_use]
    pub fn kind(&self) -> CallKind {
        match self {
            Self::Next { .. } => CallKind::Next,
            Self::Exact(_) | Self::Never | Self::AtMost(_) => CallKind::Current,
            Self::RaiseTo { .. } => CallKind::RaiseTo,
        }
    }
}
