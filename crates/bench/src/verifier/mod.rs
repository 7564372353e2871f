//! Verifies all numbers that the callers of this process receive, when they arrive.
//!
//! Invariant: a range is accepted only if all of it is greater than every number of its key that
//! had been received when its call began, and none of it was received before.
//!
//! For that each key has the greatest number received, and gaps ([`GapTracker`]): numbers that
//! calls skipped because they overtook others, or that no call of this process received. A range
//! above the greatest number is new and in order. A range below it must lie in a gap, and fills
//! it; its call must have begun before any number above that gap was received.
//!
//! All times are of one clock. The begin of a call is read before the call is sent, and its end
//! after the answer was received.

mod gap_tracker;

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use gap_tracker::{FillResult, GapTracker};

/// Numbers of one item: first, first + stride, … up to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StridedRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) stride: u64,
}

/// Begin and end of a call, in nanoseconds since the run began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSpan {
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// Reason why a range is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerifyError {
    /// The range is not above `before`, which was received before the call began.
    OutOfOrder { range: StridedRange, before: u64 },
    /// Some number of the range was received already.
    Duplicate { range: StridedRange },
    /// There are too many gaps, so nothing can be verified any more. The range itself may be
    /// right.
    TooManyGaps,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyError::OutOfOrder { range, before } => write!(
                f,
                "out of order: {} was returned to a call that began after {before} had been received",
                range.first
            ),
            VerifyError::Duplicate { range } => {
                write!(f, "given twice: {} to {}", range.first, range.last)
            }
            VerifyError::TooManyGaps => f.write_str(
                "too many numbers of these keys go to other clients while calls are in flight; use a namespace that no other client uses",
            ),
        }
    }
}

/// Numbers of each key that were received.
pub(crate) struct Verifier {
    /// Greatest number received of each key.
    greatest: &'static [AtomicU64],
    pub(crate) gaps: GapTracker,
}

impl Verifier {
    /// Creates a verifier of `keys` keys, for callers with one call in flight each. It takes 8
    /// bytes a key.
    pub(crate) fn new(keys: u32, callers: usize) -> Verifier {
        Verifier {
            greatest: seqsvr_core::huge_pages::zeroed_slice(keys as usize),
            gaps: GapTracker::new(callers),
        }
    }

    /// Prefetches the state of these keys together: otherwise each access waits for its own cache
    /// miss.
    pub(crate) fn prefetch(&self, keys: &[u32]) {
        let greatest = keys
            .iter()
            .map(|key| self.greatest[*key as usize].load(Relaxed));
        black_box(greatest.fold(0, u64::wrapping_add));
    }

    /// Returns the greatest number of a key that was received so far.
    pub(crate) fn greatest_received(&self, key: u32) -> u64 {
        self.greatest[key as usize].load(Acquire)
    }

    /// Takes a range that a call received.
    ///
    /// # Errors
    /// The range is out of order or was received before, or there are too many gaps.
    #[inline]
    pub(crate) fn accept_range(
        &self,
        key: u32,
        call: CallSpan,
        range: StridedRange,
    ) -> Result<(), VerifyError> {
        let greatest = &self.greatest[key as usize];
        let seen = greatest.load(Acquire);
        let is_next = seen + range.stride == range.first;
        if is_next
            && greatest
                .compare_exchange(seen, range.last, AcqRel, Acquire)
                .is_ok()
        {
            return Ok(());
        }
        self.accept_unexpected_range(key, call, range)
    }

    /// Takes a range that does not directly follow the greatest number of its key.
    #[inline(never)]
    fn accept_unexpected_range(
        &self,
        key: u32,
        call: CallSpan,
        range: StridedRange,
    ) -> Result<(), VerifyError> {
        let StridedRange {
            first,
            last,
            stride,
        } = range;
        let greatest = &self.greatest[key as usize];
        // A call that skips numbers adds the gap before calls with these numbers can search it.
        let mut key_gaps = self.gaps.lock_key(key);
        let mut seen = greatest.load(Acquire);
        loop {
            if seen >= first {
                return match key_gaps.fill_gap(first, last, stride, call.begin) {
                    FillResult::Filled => Ok(()),
                    FillResult::CallTooLate(before) => {
                        Err(VerifyError::OutOfOrder { range, before })
                    }
                    FillResult::NoGap => Err(VerifyError::Duplicate { range }),
                };
            }
            match greatest.compare_exchange(seen, last, AcqRel, Acquire) {
                Ok(_) if seen + stride < first => {
                    return key_gaps.add_gap(seen, first, call.end);
                }
                Ok(_) => return Ok(()),
                Err(current) => seen = current,
            }
        }
    }
}

#[cfg(test)]
mod tests;
