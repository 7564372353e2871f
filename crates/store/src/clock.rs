//! The clocks of a store, and the seam through which a simulation replaces them.
//!
//! Invariant of the arbiter's: MONOTONIC and MONOTONIC_RAW only, read again each time. Neither
//! jumps with the wall clock, and neither counts time in which the machine was suspended. So the
//! arbiter never counts time in which the machine did not run.
//!
//! Invariant: the wall clock is read here only, and enters store time only. What is unique, and who
//! owns what, never depends on it.

use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use seqsvr_core::lease::ClockReading;

/// Reads the arbiter's two clocks, now.
pub type ArbiterClock = Arc<dyn Fn() -> ClockReading + Send + Sync>;

/// Returns the machine's own clocks.
pub fn system_clock() -> ArbiterClock {
    Arc::new(|| ClockReading {
        main_ns: read_clock_ns(ClockId::Monotonic),
        raw_ns: read_clock_ns(ClockId::MonotonicRaw),
    })
}

/// One reading of the wall clock, with the clock that measures what passes between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallReading {
    /// Unix time, nanoseconds; 0: before 1970, greatest value: after the year 2554.
    pub unix_ns: u64,
    /// BOOTTIME, nanoseconds.
    pub boot_ns: u64,
}

/// Reads the wall clock of this machine, now.
pub type WallClock = Arc<dyn Fn() -> WallReading + Send + Sync>;

/// Returns the machine's own wall clock.
pub fn system_wall_clock() -> WallClock {
    Arc::new(|| {
        let wall = clock_gettime(ClockId::Realtime);
        let seconds = u64::try_from(wall.tv_sec).unwrap_or(0);
        let unix_ns = seconds.saturating_mul(1_000_000_000);
        WallReading {
            unix_ns: unix_ns.saturating_add(wall.tv_nsec.unsigned_abs()),
            boot_ns: read_clock_ns(ClockId::Boottime),
        }
    })
}

fn read_clock_ns(id: ClockId) -> u64 {
    let t = clock_gettime(id);
    // Both count from about the start of the machine: never negative, 2^64 ns is 584 years.
    (t.tv_sec as u64) * 1_000_000_000 + t.tv_nsec as u64
}
