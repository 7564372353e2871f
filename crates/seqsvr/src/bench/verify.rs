//! Verifies numbers as they come, from all callers of this process.
//!
//! Invariant: a range is accepted only if all of it is greater than every number of its key that had
//! been received when its call began, and none of it was received before. For the latter each key
//! has the greatest number received, and holes (`holes`): what was passed over by calls that overtook
//! others, or given to nobody. A range above the greatest is new; one below must lie in a hole, and fills
//! it.

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use super::holes::Holes;

/// Numbers of one item: first, first + stride, … last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) stride: u64,
}

/// What is wrong with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Not above a number received before the call began.
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
    pub(crate) fn fetch(&self, keys: impl Iterator<Item = u32>) {
        let greatest = keys.map(|key| self.greatest[key as usize].load(Relaxed));
        black_box(greatest.fold(0, u64::wrapping_add));
    }

    /// A caller's call begins; it looks at its keys after this.
    pub(crate) fn begin(&self, caller: usize) {
        self.holes.begin(caller);
    }

    /// The greatest number received of a key by now.
    pub(crate) fn greatest(&self, key: u32) -> u64 {
        self.greatest[key as usize].load(Acquire)
    }

    /// A caller's call ended, all that it received was taken.
    pub(crate) fn end(&self, caller: usize) {
        self.holes.end(caller);
    }

    /// Takes what a call received that began when the greatest was `before`.
    #[inline]
    pub(crate) fn take(&self, key: u32, before: u64, range: Range) -> Result<(), Wrong> {
        let Range {
            first,
            last,
            stride,
        } = range;
        if first <= before {
            return Err(Wrong::Order { range, before });
        }
        let greatest = &self.greatest[key as usize];
        let next = before + stride == first;
        if next
            && greatest
                .compare_exchange(before, last, AcqRel, Acquire)
                .is_ok()
        {
            return Ok(());
        }
        self.take_unusual(key, range)
    }

    /// The same if it is above `before`, but others came between.
    #[inline(never)]
    fn take_unusual(&self, key: u32, range: Range) -> Result<(), Wrong> {
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
                let filled = holes.fill(first, last, stride);
                return filled.then_some(()).ok_or(Wrong::Twice { range });
            }
            match greatest.compare_exchange(seen, last, AcqRel, Acquire) {
                Ok(_) if seen + stride < first => {
                    return holes.add(seen, first).map_err(|_| Wrong::Holes);
                }
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(test)]
mod tests;
