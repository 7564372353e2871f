//! The numbers a namespace may hand out: all n >= start with n = offset mod stride.
//!
//! Counts, steps and in-memory offsets count *numbers* of the progression; `max_seq` and replies
//! carry the numbers themselves.

use serde::{Deserialize, Serialize};

use crate::SEQ_MAX;

/// Arithmetic progression of one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Progression {
    /// Smallest number allowed, 1 ..= 2^63-1.
    pub start: u64,
    /// Distance between neighbors, 1 ..= 65,536.
    pub stride: u32,
    /// Residue, below `stride`.
    pub offset: u32,
}

impl Progression {
    /// Returns max_seq of a section that was never opened.
    pub fn max_seq_floor(&self) -> u64 {
        self.start - 1
    }

    /// Returns the smallest number of the progression above `n`; None when it would pass
    /// [`SEQ_MAX`].
    pub fn first_after(&self, n: u64) -> Option<u64> {
        let low = n.max(self.max_seq_floor()).checked_add(1)?;
        let stride = u64::from(self.stride);
        let behind = (u64::from(self.offset) + stride - low % stride) % stride;
        low.checked_add(behind).filter(|m| *m <= SEQ_MAX)
    }

    /// Returns `n` itself if it belongs to the progression, else the next number that does.
    pub fn round_up(&self, n: u64) -> Option<u64> {
        self.first_after(n.max(self.start) - 1)
    }

    /// Returns the `count`-th number above `base`, or the last one that exists; None when there is
    /// none.
    pub fn nth_after(&self, base: u64, count: u64) -> Option<u64> {
        let first = self.first_after(base)?;
        let room = (SEQ_MAX - first) / u64::from(self.stride);
        let more = count.saturating_sub(1).min(room);
        Some(first + more * u64::from(self.stride))
    }

    /// Returns how many numbers lie in (base, max_seq].
    pub fn count_between(&self, base: u64, max_seq: u64) -> u64 {
        match self.first_after(base) {
            Some(first) if first <= max_seq => (max_seq - first) / u64::from(self.stride) + 1,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn progression_of_odd_numbers_counts_them() {
        let odd = Progression {
            start: 1,
            stride: 2,
            offset: 1,
        };
        assert_eq!(odd.first_after(0), Some(1));
        assert_eq!(odd.first_after(1), Some(3));
        assert_eq!(odd.round_up(4), Some(5));
        assert_eq!(odd.nth_after(0, 10_000), Some(19_999));
        assert_eq!(odd.count_between(0, 19_999), 10_000);
    }

    #[test]
    fn progression_ends_at_the_last_number() {
        let all = Progression {
            start: SEQ_MAX - 1,
            stride: 1,
            offset: 0,
        };
        assert_eq!(all.first_after(0), Some(SEQ_MAX - 1));
        assert_eq!(all.nth_after(0, 10_000), Some(SEQ_MAX));
        assert_eq!(all.first_after(SEQ_MAX), None);
        assert_eq!(all.round_up(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn first_after_is_the_smallest(
            start in 1u64..500,
            stride in 1u32..50,
            offset in 0u32..50,
            n in 0u64..1000,
        ) {
            let p = Progression { start, stride, offset: offset % stride };
            let is_member = |m: u64| m % u64::from(stride) == u64::from(p.offset);
            let expect = (n + 1..).find(|m| *m >= start && is_member(*m));
            prop_assert_eq!(p.first_after(n), expect);
            prop_assert!(p.max_seq_floor() < p.first_after(0).unwrap());
        }

        #[test]
        fn nth_after_and_count_between_agree(
            start in 1u64..500,
            stride in 1u32..50,
            offset in 0u32..50,
            base in 0u64..1000,
            count in 1u64..10_000,
        ) {
            let p = Progression { start, stride, offset: offset % stride };
            let last = p.nth_after(base, count).unwrap();
            prop_assert_eq!(p.count_between(base, last), count);
            prop_assert_eq!(p.round_up(last), Some(last));
        }
    }
}
