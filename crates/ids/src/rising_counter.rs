//! A counter that only rises, for kinds of ids whose time must not repeat within a process.

use std::sync::atomic::{AtomicU64, Ordering};

/// The last value that a caller received.
#[derive(Debug, Default)]
pub(crate) struct RisingCounter(AtomicU64);

impl RisingCounter {
    /// Returns `lift(last)`, or the number after the last one if that is greater. Each caller
    /// receives another value.
    #[inline]
    pub(crate) fn next(&self, mut lift: impl FnMut(u64) -> u64) -> u64 {
        let mut next = 0;
        self.0.update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            next = lift(last).max(last.wrapping_add(1));
            next
        });
        next
    }
}
