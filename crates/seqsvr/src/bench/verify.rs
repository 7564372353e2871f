//! Verifies numbers as they come, from all callers of this process.
//!
//! Invariant: a range is accepted only if all of it is greater than every number of its key that
//! had been received when its call began, and none of it was received before. For that each key has
//! the greatest number received, and holes (`holes`): what was passed over by calls that overtook
//! others, or given to nobody. A range above the greatest is new and in order; one below must lie
//! in a hole, and fills it, and the call must have begun before anything above that hole was
//! received.
//!
//! Times are of one clock: a call begins when it is read before the call is sent, and is answered
//! when it is read after the answer has come.

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use super::holes::{Filled, Holes};

/// Numbers of one item: first, first + stride, … last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) stride: u64,
}

/// When a call began and was answered, in nanoseconds since the run began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// What is wrong with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Not above this number received before the call began.
    Order { range: Range, before: u64 },
    /// Some of it was received already.
    Twice { range: Range },
    /// Not wrong by itself, but nothing can be verified any more.
    Holes,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Order { range, before } => write!(
                f,
                "out of order: {} came to a call that began after {before} had been received",
                range.first
            ),
            Wrong::Twice { range } => {
                write!(f, "given twice: {} to {}", range.first, range.last)
            }
            Wrong::Holes => f.write_str(
                "too many numbers of these keys go to others while calls are in flight: use a namespace that nobody else uses",
            ),
        }
    }
}

/// What was received of each key.
pub(crate) struct Verifier {
    /// Greatest number received of each key.
    greatest: &'static [AtomicU64],
    holes: Holes,
}

impl Verifier {
    /// Of so many keys, for so many callers with one call in flight each; takes 8 bytes a key.
    pub(crate) fn new(keys: u32, callers: usize) -> Verifier {
        Verifier {
            greatest: seqsvr_core::pages::zeroed(keys as usize),
            holes: Holes::new(callers),
        }
    }

    /// Fetches what is known of these keys all at once: otherwise each look waits for its own.
    pub(crate) fn fetch(&self, keys: &[u32]) {
        let greatest = keys
            .iter()
            .map(|key| self.greatest[*key as usize].load(Relaxed));
        black_box(greatest.fold(0, u64::wrapping_add));
    }

    /// A caller's call begins at this time, at which its last one ended or the run began.
    pub(crate) fn follow(&self, caller: usize, begin: u64) {
        self.holes.follow(caller, begin);
    }

    /// A caller's call begins now, maybe after a rest; tells when that is.
    pub(crate) fn begin(&self, caller: usize, clock: impl FnOnce() -> u64) -> u64 {
        self.holes.begin(caller, clock)
    }

    /// A caller rests, or makes no more calls; all that it received was taken.
    pub(crate) fn rest(&self, caller: usize) {
        self.holes.rest(caller);
    }

    /// The greatest number received of a key by now.
    pub(crate) fn greatest(&self, key: u32) -> u64 {
        self.greatest[key as usize].load(Acquire)
    }

    /// Takes what a call received.
    #[inline]
    pub(crate) fn take(&self, key: u32, call: Span, range: Range) -> Result<(), Wrong> {
        let greatest = &self.greatest[key as usize];
        let seen = greatest.load(Acquire);
        let next = seen + range.stride == range.first;
        if next
            && greatest
                .compare_exchange(seen, range.last, AcqRel, Acquire)
                .is_ok()
        {
            return Ok(());
        }
        self.take_unusual(key, call, range)
    }

    /// The same if others came between.
    #[inline(never)]
    fn take_unusual(&self, key: u32, call: Span, range: Range) -> Result<(), Wrong> {
        let Range {
            first,
            last,
            stride,
        } = range;
        let greatest = &self.greatest[key as usize];
        // Whoever passes over others notes the hole before they can look for it.
        let mut holes = self.holes.lock(key);
        let mut seen = greatest.load(Acquire);
        loop {
            if seen >= first {
                return match holes.fill(first, last, stride, call.begin) {
                    Filled::Yes => Ok(()),
                    Filled::Late(before) => Err(Wrong::Order { range, before }),
                    Filled::No => Err(Wrong::Twice { range }),
                };
            }
            match greatest.compare_exchange(seen, last, AcqRel, Acquire) {
                Ok(_) if seen + stride < first => {
                    let made = holes.add(seen, first, call.end);
                    return made.map_err(|_| Wrong::Holes);
                }
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(test)]
mod tests;
