//! Store time as a process knows it: that of the last answers, continued with BOOTTIME.
//!
//! The store read its time between the moment that a call was sent and the moment that its answer
//! was received. So each answer bounds the offset between store time and BOOTTIME from both sides,
//! and the offset moves only as far as it must to lie within the bounds. A slow answer has wide
//! bounds, and moves nothing. The wall clock of this machine is not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::boot_clock::BootClock;

/// The offset before the first answer.
const UNKNOWN: i64 = i64::MIN;

/// Store time as a process knows it, for all of its holders in one cluster.
pub struct StoreClock {
    boot: BootClock,
    /// Store time minus BOOTTIME, in microseconds.
    offset_us: AtomicI64,
}

impl StoreClock {
    /// Makes a clock that does not know store time yet.
    pub fn new(boot: BootClock) -> Arc<StoreClock> {
        Arc::new(StoreClock {
            boot,
            offset_us: AtomicI64::new(UNKNOWN),
        })
    }

    /// Returns store time as Unix time in microseconds; 0 before the first answer.
    #[inline]
    pub fn now_us(&self) -> u64 {
        let offset_us = self.offset_us.load(Ordering::Relaxed);
        (self.boot.now_ns() / 1_000).saturating_add_signed(offset_us)
    }

    /// Returns BOOTTIME in microseconds, for [`StoreClock::learn`].
    pub(crate) fn boot_us(&self) -> u64 {
        self.boot.exact_ns() / 1_000
    }

    /// Learns from an answer to a call that was sent at this BOOTTIME and is received now.
    pub(crate) fn learn(&self, sent_us: u64, store_time_ms: u64) {
        let signed = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
        let store_us = signed(store_time_ms.saturating_mul(1_000));
        let least = store_us.saturating_sub(signed(self.boot_us()));
        // Milliseconds were rounded down.
        let greatest = store_us
            .saturating_sub(signed(sent_us))
            .saturating_add(1_000);
        let greatest = greatest.max(least);
        let move_into = |offset: i64| match offset {
            UNKNOWN => least + (greatest - least) / 2,
            offset => offset.clamp(least, greatest),
        };
        let (order, retry) = (Ordering::Relaxed, Ordering::Relaxed);
        // It always returns Some, so the update succeeds.
        let _ = self
            .offset_us
            .fetch_update(order, retry, |o| Some(move_into(o)));
    }
}
