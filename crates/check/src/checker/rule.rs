//! The rules that a history must keep.
//!
//! All of them apply to the answered calls of one sequence; calls with an error or without an
//! answer constrain nothing. *Before* means `end(a) < begin(b)`; calls that touch or overlap in
//! time may have happened in either order.
//!
//! Together they require one order of the calls that keeps real time and in which a single counter
//! gave all the answers, where any number may be discarded at any time. The numbers themselves fix
//! that order, so it is enough to compare pairs, except for one case below. (A test searches for
//! the order itself and compares.)
//!
//! - `next` hands out numbers above all that was handed out, exactly named, or raised to before.
//! - `exact n`: no greater number was handed out, exactly named, or raised to before, and every
//!   later `next` is above n. A range is handed out at once, so n never lies inside one.
//! - `never`: nothing was handed out or exactly named before. A raise alone hands out nothing (one
//!   to below the namespace's start leaves the sequence as it was) and does not contradict it.
//! - `at most n`: as `exact n` towards the past; nothing follows from it for later calls, and a
//!   later bound may be lower.
//! - `raise-to`, answered with n: every later `next` is above n. It never lowers, so it may
//!   answer less than was handed out before. A range that begins at or below n, and an exact number
//!   below n, therefore came before the raise, even if all overlap in time. A call after the raise
//!   is also after them (it takes three calls to see this).
//! - Epochs never fall along that order, between calls of any two kinds.

use std::fmt;

/// Largest number of a sequence.
pub const NUMBER_MAX: u64 = i64::MAX as u64;

/// One rule that a call, or a pair of calls, can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HistoryRule {
    /// The numbers of a `next` are no range from 1 to 2^63-1 in steps of the stride.
    Range,
    /// A `raise-to` was answered with less than the requested number.
    RaiseShort,
    /// The numbers of a sequence do not all lie one stride apart.
    Stride,
    /// A number was handed out twice.
    Duplicate,
    /// A later `next` got a number that is not above an earlier one.
    Order,
    /// A later call was answered at a lower epoch.
    Epoch,
    /// `exact n`, though more had been reached before.
    ExactLow,
    /// A `next` after `exact n` got a number that is not above n.
    ExactPassed,
    /// `exact n`, with n inside a range that was handed out at once.
    ExactInside,
    /// `never`, though something had been handed out before.
    NeverAfter,
    /// `at most n`, though more had been reached before.
    AtMostLow,
    /// A `next` after a raise to n got a number that is not above n.
    RaiseLost,
}

impl HistoryRule {
    /// Returns the short name for tables and tests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RaiseShort => "raise-short",
            Self::Stride => "stride",
            Self::Duplicate => "duplicate",
            Self::Order => "order",
            Self::Epoch => "epoch",
            Self::ExactLow => "exact-low",
            Self::ExactPassed => "exact-passed",
            Self::ExactInside => "exact-inside",
            Self::NeverAfter => "never-after",
            Self::AtMostLow => "at-most-low",
            Self::RaiseLost => "raise-lost",
        }
    }
}

impl fmt::Display for HistoryRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
