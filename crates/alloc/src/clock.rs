//! The owner's clock, through which time reaches the lease check.

use rustix::time::{ClockId, clock_gettime};
use seqsvr_core::lease::ClockReading;

/// Source of the two clocks on which an owner counts its lease.
pub trait Clock: Send + Sync + 'static {
    /// Reads both clocks now. Never returns a cached reading, because a process that was paused
    /// must see the true time when it resumes.
    fn now(&self) -> ClockReading;
}

/// System clocks: BOOTTIME (counts during a suspend) and MONOTONIC_RAW (not slewed).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> ClockReading {
        ClockReading {
            main_ns: read_ns(ClockId::Boottime),
            raw_ns: read_ns(ClockId::MonotonicRaw),
        }
    }
}

fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
