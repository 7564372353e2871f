//! A session of this process, and its lease.
//!
//! Invariant: every section object belongs to one session. A number is answered only if, by a clock
//! read after the request was received, that session is alive and its lease holds. A new session
//! never revives the section objects of an old one.
//!
//! `RUSTFLAGS="--cfg unleased"` removes the lease check: a session then serves until this process
//! learns that it has ended. Strict answers must be correct even so; no others are. It is for tests
//! only, and it is no feature, so that `--all-features` does not enable it.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Release},
};
use std::time::Duration;

use seqsvr_core::ids::{Epoch, SessionId, Slot};
use seqsvr_core::lease::{ClockReading, Lease};
use seqsvr_core::planted;
use seqsvr_core::routing_table::RoutingTable;

/// Registration of this process at the store.
#[derive(Debug)]
pub(crate) struct LeasedSession {
    pub(crate) id: SessionId,
    has_ended: AtomicBool,
    // The lease's deadline on each clock; 0 before the first renewal. They are read separately:
    // every pair of values read consists of deadlines that a confirmed renewal once granted. So a
    // torn pair only means the older, shorter lease on one clock.
    main_ns: AtomicU64,
    raw_ns: AtomicU64,
}

impl LeasedSession {
    pub(crate) fn new(id: SessionId) -> LeasedSession {
        LeasedSession {
            id,
            has_ended: AtomicBool::new(false),
            main_ns: AtomicU64::new(0),
            raw_ns: AtomicU64::new(0),
        }
    }

    /// Extends the lease. A renewal that arrives late never shortens it.
    pub(crate) fn renew(&self, lease: Lease) {
        let deadline = lease.deadline();
        // Release here, and Acquire at the readers: a thread that reads the new lease also reads
        // the table that came with it.
        self.main_ns.fetch_max(deadline.main_ns, Release);
        self.raw_ns.fetch_max(deadline.raw_ns, Release);
    }

    /// Returns whether this session may serve at a reading made after the request was received.
    pub(crate) fn may_serve_at(&self, now: ClockReading) -> bool {
        let is_leased = || now.is_before(self.deadline());
        self.is_alive() && (cfg!(unleased) || planted!(SkipLeaseCheck) || is_leased())
    }

    pub(crate) fn deadline(&self) -> ClockReading {
        ClockReading {
            main_ns: self.main_ns.load(Acquire),
            raw_ns: self.raw_ns.load(Acquire),
        }
    }

    /// Returns the time until the lease ends, by the clock that ends it first; zero once the
    /// session has ended. For operators: no answer depends on it.
    pub(crate) fn time_left(&self, now: ClockReading) -> Duration {
        let deadline = self.deadline();
        let main = deadline.main_ns.saturating_sub(now.main_ns);
        let raw = deadline.raw_ns.saturating_sub(now.raw_ns);
        match self.is_alive() {
            true => Duration::from_nanos(main.min(raw)),
            false => Duration::ZERO,
        }
    }

    /// Returns whether this session owns a slot at this epoch, by this table.
    pub(crate) fn is_owner_of(&self, slot: Slot, epoch: Epoch, table: &RoutingTable) -> bool {
        table.route(slot).is_some_and(|route| {
            let owner = route.owner.as_ref();
            route.epoch == epoch && owner.is_some_and(|owner| owner.session == self.id)
        })
    }

    /// Ends it permanently in this process.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Release);
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.has_ended.load(Acquire)
    }
}

#[cfg(all(test, not(unleased)))]
mod tests {
    use super::*;

    fn at(s: u64) -> ClockReading {
        ClockReading {
            main_ns: s * 1_000_000_000,
            raw_ns: s * 1_000_000_000,
        }
    }

    #[test]
    fn session_serves_only_within_lease() {
        let session = LeasedSession::new(SessionId(1));
        assert!(!session.may_serve_at(at(10)), "OpenSession grants no lease");
        session.renew(Lease::new(at(10), Duration::from_secs(3)));
        assert!(session.may_serve_at(at(12)) && !session.may_serve_at(at(13)));
        // The response to an older renewal arrives late and does not shorten it.
        session.renew(Lease::new(at(9), Duration::from_secs(3)));
        assert!(session.may_serve_at(at(12)));
        assert_eq!(session.time_left(at(12)), Duration::from_secs(1));
        assert_eq!(session.time_left(at(14)), Duration::ZERO);
        session.end();
        assert!(!session.may_serve_at(at(11)));
        assert_eq!(session.time_left(at(11)), Duration::ZERO);
    }

    #[test]
    fn session_past_deadline_on_one_clock_does_not_serve() {
        let session = LeasedSession::new(SessionId(1));
        session.renew(Lease::new(at(10), Duration::from_secs(3)));
        assert!(!session.may_serve_at(ClockReading {
            raw_ns: at(14).raw_ns,
            ..at(11)
        }));
        assert!(!session.may_serve_at(ClockReading {
            main_ns: at(14).main_ns,
            ..at(11)
        }));
    }
}
