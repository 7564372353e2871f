//! The window of a section: which offsets may be handed out, and the furthest of those that were.
//!
//! Offset k >= 1 means the number `first + (k - 1) * stride`; offset 0 means "none".
//!
//! Invariant: `limit` is the offset of a `max_seq` that was durable before the window received it,
//! and only grows. A counter is only ever moved to an offset admitted here, so no counter is above
//! `limit` even for a moment. Otherwise a counter could pass and be taken back. A reader in between
//! would report a number that the next owner hands out again, and a crash could not undo that.

use super::sync::{AtomicU64, Ordering};
use super::{SectionGrant, TakeError};

/// Greatest number of any sequence.
const SEQ_MAX: u64 = i64::MAX as u64;

pub(super) struct Window {
    base: u64,
    first: Option<u64>,
    stride: u64,
    /// Offset of the greatest number that exists.
    offset_max: u64,
    /// What the number of offset 0 would be, modulo 2^64.
    number_of_zero: u64,
    max_seq: AtomicU64,
    limit: AtomicU64,
    highest: AtomicU64,
}

impl Window {
    pub(super) fn new(open: &SectionGrant) -> Self {
        assert!(open.stride >= 1, "stride must be at least 1");
        if let Some(first) = open.first {
            assert!(
                open.base < first && first <= SEQ_MAX,
                "first must be above base and at most 2^63-1"
            );
        }
        let offset_max = open
            .first
            .map_or(0, |first| (SEQ_MAX - first) / open.stride + 1);
        let window = Self {
            base: open.base,
            first: open.first,
            stride: open.stride,
            offset_max,
            number_of_zero: open.first.unwrap_or(0).wrapping_sub(open.stride),
            max_seq: AtomicU64::new(open.base),
            limit: AtomicU64::new(0),
            highest: AtomicU64::new(0),
        };
        window.widen_to(open.max_seq);
        window
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.first
    }

    pub(super) fn stride(&self) -> u64 {
        self.stride
    }

    #[inline]
    pub(super) fn max_seq(&self) -> u64 {
        self.max_seq.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn offset_limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    pub(super) fn widen_to(&self, max_seq: u64) {
        self.max_seq.fetch_max(max_seq, Ordering::AcqRel);
        if let Some(first) = self.first
            && max_seq >= first
        {
            let reach = (max_seq.min(SEQ_MAX) - first) / self.stride + 1;
            self.limit.fetch_max(reach, Ordering::AcqRel);
        }
    }

    /// Returns `to` itself if the window reaches it.
    #[inline]
    pub(super) fn admit(&self, to: u64) -> Result<u64, TakeError> {
        if to <= self.offset_limit() {
            return Ok(to);
        }
        Err(match self.number_at(to) {
            Some(needed) => TakeError::WindowExhausted { needed },
            None => TakeError::SequenceExhausted,
        })
    }

    /// Notes that a counter is at `offset`. It reads first: mostly another key is further.
    #[inline]
    pub(super) fn note_offset(&self, offset: u64) {
        if self.highest.load(Ordering::Relaxed) < offset {
            self.highest.fetch_max(offset, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn highest_offset(&self) -> u64 {
        self.highest.load(Ordering::Relaxed)
    }

    /// Returns the number of an offset; None for offset 0 and past the last number that exists.
    #[inline]
    pub(super) fn number_at(&self, offset: u64) -> Option<u64> {
        match self.first {
            Some(first) if (1..=self.offset_max).contains(&offset) => {
                Some(first + (offset - 1) * self.stride)
            }
            _ => None,
        }
    }

    /// Returns the number of an offset that was admitted, so that it has one.
    #[inline]
    pub(super) fn admitted_number_at(&self, offset: u64) -> u64 {
        let number = self
            .number_of_zero
            .wrapping_add(offset.wrapping_mul(self.stride));
        debug_assert_eq!(Some(number), self.number_at(offset));
        number
    }

    pub(super) fn max_seq_for(&self, limit: u64) -> u64 {
        self.number_at(limit.min(self.offset_max))
            .unwrap_or(self.base)
    }

    /// Returns the offset of the first number at or above `target`; 0 when `target` is not above
    /// the base.
    pub(super) fn offset_at_or_above(&self, target: u64) -> Result<u64, TakeError> {
        if target <= self.base {
            return Ok(0);
        }
        let first = self.first.ok_or(TakeError::SequenceExhausted)?;
        let offset = target
            .saturating_sub(first)
            .div_ceil(self.stride)
            .saturating_add(1);
        if offset > self.offset_max {
            return Err(TakeError::SequenceExhausted);
        }
        Ok(offset)
    }
}
