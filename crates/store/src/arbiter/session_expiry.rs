//! What decides that an AllocSvr is dead: its session has not renewed for the takeover wait W.
//!
//! Invariant (DESIGN 5.2): W has passed since the latest of the last stamp of the session, the
//! application of its OpenSession, and the start of the timers of this term. `mod.rs` has the
//! schedules that break it.

use std::time::Duration;

use seqsvr_core::lease::{ClockReading, takeover_wait};
use seqsvr_core::planted;

/// Renewals of one session, as this leader tracks them in one term.
#[derive(Debug)]
pub(super) struct TrackedSession {
    /// When this leader first found its OpenSession applied: not before the start of the term.
    pub(super) opened: ClockReading,
    /// Its last stamp.
    pub(super) last_renewal: Option<ClockReading>,
    /// Stamp that made it alive in this term: the first, or the first after D without a renewal.
    pub(super) alive_since: ClockReading,
    /// Whether it is being expired: its renewals are rejected until the end of the term.
    pub(super) is_expiring: bool,
    /// Whether it takes no slots, by its last renewal.
    pub(super) is_draining: bool,
}

impl TrackedSession {
    pub(super) fn new(now: ClockReading) -> TrackedSession {
        TrackedSession {
            opened: now,
            last_renewal: None,
            alive_since: now,
            is_expiring: false,
            is_draining: false,
        }
    }

    /// Returns whether it was renewed within D (by the larger elapsed time) and is not being
    /// expired.
    pub(super) fn is_alive(&self, now: ClockReading, lease: Duration) -> bool {
        let is_recent = |at: ClockReading| now.elapsed_owner(at) < lease;
        !self.is_expiring && self.last_renewal.is_some_and(is_recent)
    }

    /// Returns whether it is to be expired: it has not renewed for W, and W has passed since its
    /// OpenSession was found and since the timers started.
    pub(super) fn has_expired(
        &self,
        now: ClockReading,
        timers_started: ClockReading,
        lease: Duration,
    ) -> bool {
        let wait = takeover_wait(lease);
        let has_passed = |from: ClockReading| now.elapsed_arbiter(from) >= wait;
        let has_waited = has_passed(timers_started) && has_passed(self.opened);
        let has_waited = has_waited || planted!(NoWaitAfterElection);
        !self.is_expiring && has_waited && self.last_renewal.is_none_or(has_passed)
    }
}
