//! Lease arithmetic over given clock readings.
//!
//! Invariant: an owner serves only while its own elapsed time since *before* it sent the renewal is
//! below D. The arbiter expires it only when the arbiter's elapsed time since *after* it stamped
//! that renewal reached W = 1.25 D. Each side reads two clocks and errs to the safe side: the owner
//! takes the larger elapsed time, the arbiter the smaller. With rates off by up to 10 % in opposite
//! directions: D / 0.9 = 1.112 D < 1.136 D = W / 1.1.
//!
//! Schedule that breaks it without the pair: an owner is suspended. CLOCK_MONOTONIC is stopped
//! while another owner takes over. On resume the old owner would still count its lease as valid.

use std::time::Duration;

/// One reading of a process's two clocks, in nanoseconds since arbitrary origins. Owner: BOOTTIME
/// and MONOTONIC_RAW. Arbiter: MONOTONIC and MONOTONIC_RAW. Never wall time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// BOOTTIME (owner) or MONOTONIC (arbiter).
    pub main_ns: u64,
    /// MONOTONIC_RAW.
    pub raw_ns: u64,
}

impl ClockReading {
    /// Returns the elapsed time as an owner must count it: the larger of the two.
    pub fn elapsed_owner(self, since: ClockReading) -> Duration {
        let (main, raw) = self.elapsed_on_each(since);
        Duration::from_nanos(main.max(raw))
    }

    /// Returns the elapsed time as the arbiter must count it: the smaller of the two.
    pub fn elapsed_arbiter(self, since: ClockReading) -> Duration {
        let (main, raw) = self.elapsed_on_each(since);
        Duration::from_nanos(main.min(raw))
    }

    fn elapsed_on_each(self, since: ClockReading) -> (u64, u64) {
        (
            self.main_ns.saturating_sub(since.main_ns),
            self.raw_ns.saturating_sub(since.raw_ns),
        )
    }
}

/// Returns the takeover wait W = 1.25 x D.
pub fn takeover_wait(lease: Duration) -> Duration {
    if crate::planted!(ShortTakeoverWait) {
        return lease;
    }
    lease + lease / 4
}

/// Returns how often a session renews: D/3.
pub fn renew_interval(lease: Duration) -> Duration {
    lease / 3
}

/// Returns how long one keep-alive attempt may take before the session tries another store: D/6.
pub fn renew_timeout(lease: Duration) -> Duration {
    lease / 6
}

/// An owner's lease: counted from `t0`, read before the keep-alive was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    t0: ClockReading,
    duration: Duration,
}

impl Lease {
    /// Makes the lease of a renewal sent at `t0`.
    pub fn new(t0: ClockReading, duration: Duration) -> Lease {
        Lease { t0, duration }
    }

    /// Returns the two deadlines. The lease holds at a reading made *after* the request was
    /// received if both clocks are before theirs.
    pub fn deadline(&self) -> ClockReading {
        let d = u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX);
        ClockReading {
            main_ns: self.t0.main_ns.saturating_add(d),
            raw_ns: self.t0.raw_ns.saturating_add(d),
        }
    }
}

impl ClockReading {
    /// Returns whether both clocks are before `deadline`.
    pub fn is_before(self, deadline: ClockReading) -> bool {
        self.main_ns < deadline.main_ns && self.raw_ns < deadline.raw_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const D: Duration = Duration::from_secs(3);

    fn at(main_ms: u64, raw_ms: u64) -> ClockReading {
        ClockReading {
            main_ns: main_ms * 1_000_000,
            raw_ns: raw_ms * 1_000_000,
        }
    }

    #[test]
    fn lease_of_a_suspended_owner_ends_in_true_time() {
        let deadline = Lease::new(at(1_000, 500), D).deadline();
        assert!(at(3_999, 3_499).is_before(deadline));
        // Suspend: only BOOTTIME continued.
        assert!(!at(4_000, 600).is_before(deadline));
        // BOOTTIME slewed slow: MONOTONIC_RAW shows it.
        assert!(!at(1_001, 3_500).is_before(deadline));
    }

    #[test]
    fn elapsed_arbiter_takes_the_smaller_clock() {
        assert_eq!(
            at(9_000, 1_000).elapsed_arbiter(at(0, 0)),
            Duration::from_secs(1)
        );
    }

    #[test]
    fn takeover_wait_covers_ten_per_cent_drift_on_both_sides() {
        let w = takeover_wait(D);
        assert!(D.as_secs_f64() / 0.9 < w.as_secs_f64() / 1.1);
    }

    proptest! {
        #[test]
        fn lease_deadline_agrees_with_elapsed_owner(
            t0 in (0u64..10_000, 0u64..10_000),
            now in (0u64..20_000, 0u64..20_000),
        ) {
            let (t0, now) = (at(t0.0, t0.1), at(now.0, now.1));
            let deadline = Lease::new(t0, D).deadline();
            prop_assert_eq!(now.elapsed_owner(t0) < D, now.is_before(deadline));
        }
    }
}
