//! The owner's clock: the seam through which time reaches the lease check.

use rustix::time::{ClockId, clock_gettime};
use seqsvr_core::lease::Reading;

/// Reads the two clocks an owner counts its lease on.
pub trait Clock: Send + Sync + 'static {
    /// A reading made now; never a cached one, because a paused process must see the true time when
    /// it wakes.
    fn now(&self) -> Reading;
}

/// BOOTTIME (goes on during a suspend) and MONOTONIC_RAW (not slewed).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Reading {
        Reading {
            main_ns: read_ns(ClockId::Boottime),
            raw_ns: read_ns(ClockId::MonotonicRaw),
        }
    }
}

fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
