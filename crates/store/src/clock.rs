//! The clocks of a store, and the seam through which a simulation replaces them.
//!
//! Invariant of the arbiter's: MONOTONIC and MONOTONIC_RAW only, read again each time. Neither
//! jumps with the wall clock, and neither counts time in which the machine was suspended. So the
//! arbiter never counts time in which the machine did not run.
//!
//! Invariant: the wall clock is read here only, and enters store time only. What is unique, and who
//! owns what, never depends on it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
#[expect(clippy::disallowed_methods, reason = "this is the wall clock")]
pub fn system_wall_clock() -> WallClock {
    // By the C library, so that libfaketime can set the clock of one process in a test.
    Arc::new(|| WallReading {
        unix_ns: (SystemTime::now().duration_since(UNIX_EPOCH)).map_or(0, saturating_ns),
        boot_ns: read_clock_ns(ClockId::Boottime),
    })
}

fn saturating_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn read_clock_ns(id: ClockId) -> u64 {
    let t = clock_gettime(id);
    // Both count from about the start of the machine: never negative, 2^64 ns is 584 years.
    (t.tv_sec as u64) * 1_000_000_000 + t.tv_nsec as u64
}
