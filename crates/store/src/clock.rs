//! The arbiter's clocks, and the seam through which a simulation replaces them.
//!
//! Invariant: MONOTONIC and MONOTONIC_RAW only, read again each time. Neither jumps with the wall
//! clock, and neither counts time in which the machine was suspended. So the arbiter never counts
//! time in which the machine did not run.

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

fn read_clock_ns(id: ClockId) -> u64 {
    let t = clock_gettime(id);
    // Both count from about the start of the machine: never negative, 2^64 ns is 584 years.
    (t.tv_sec as u64) * 1_000_000_000 + t.tv_nsec as u64
}
