//! The check that every answer passes before it is sent (DESIGN 5.4).
//!
//! Order of steps: request fully received -> number taken by CAS, never above the window -> clock
//! read -> session, lease and slot epoch checked -> answer.
//!
//! Invariant: a number is answered only if all of these hold at a clock reading made after the
//! number was taken: the session that its section object belongs to is alive, its lease holds, and
//! the routing table read after taking still has its slot at its epoch in that session. One check
//! serves all numbers that were taken before it, because all their requests had been received.
//!
//! Schedules that break it:
//! - *The clock is read before taking*: the process is stopped in between, its lease ends, and it
//!   answers an old number after a new owner has answered greater ones.
//! - *Only the table read before taking is used*: the process is stopped in between and then learns
//!   of a new owner. It answers an older number after the new owner has answered greater ones.
//! - *The newest table is read before the lease is checked*: a renewal stores the table first and
//!   then the lease. A lease that it brought would be used without its table, and with it a
//!   namespace that has become strict or a slot that has moved more than D ago.
//!
//! Use: [`ServingCheck::begin`] with table and session as they are before taking. Numbers are taken
//! only from section objects that are current by [`ServingCheck::table`] and belong to
//! [`ServingCheck::session`]. Both borrow from the check, so code that still looks up section
//! objects keeps it from being confirmed. [`ServingCheck::confirm`] consumes the check and reads
//! the clock itself, so no earlier reading can be used and nothing is looked up after it.

use std::sync::Arc;

use seqsvr_core::routing_table::RoutingTable;

use crate::session::current_session::CurrentSession;
use crate::session::leased_session::LeasedSession;
use crate::session::routing_table_cell::RoutingTableCell;

/// A check that has begun: numbers may be taken until it is confirmed.
pub(crate) struct ServingCheck<'a> {
    table: &'a Arc<RoutingTable>,
    session: &'a Arc<LeasedSession>,
}

/// Result of a check.
#[derive(Debug)]
pub(crate) enum Confirmed {
    /// All that was taken may be answered.
    All,
    /// The table has changed: only what it still gives to the session of the check, at the same
    /// epoch and in a namespace that is not strict, may be answered.
    TableChanged(Arc<RoutingTable>),
    /// The lease is over or the session has ended: nothing may be answered.
    LeaseLost,
}

impl<'a> ServingCheck<'a> {
    /// Begins a check with table and session as they are now.
    #[inline]
    pub(crate) fn begin(
        table: &'a Arc<RoutingTable>,
        session: &'a Arc<LeasedSession>,
    ) -> ServingCheck<'a> {
        ServingCheck { table, session }
    }

    /// Returns the table by which section objects are looked up.
    #[inline]
    pub(crate) fn table(&self) -> &RoutingTable {
        self.table
    }

    /// Returns the session to which section objects have to belong.
    #[inline]
    pub(crate) fn session(&self) -> &Arc<LeasedSession> {
        self.session
    }

    /// Ends the check after the last number was taken.
    #[inline]
    pub(crate) fn confirm(self, sessions: &CurrentSession, tables: &RoutingTableCell) -> Confirmed {
        if !self.session.may_serve_at(sessions.read_clock()) {
            sessions.record_lapse();
            return Confirmed::LeaseLost;
        }
        match tables.peek().as_ref() {
            Some(newest) if !Arc::ptr_eq(newest, self.table) => {
                Confirmed::TableChanged(newest.clone())
            }
            _ => Confirmed::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    use seqsvr_core::ids::{ClusterId, SessionId};
    use seqsvr_core::lease::{ClockReading, Lease};
    use seqsvr_core::routing_table::RoutingDelta;

    use super::*;
    use crate::clock::Clock;

    const LEASE: Duration = Duration::from_secs(3);

    /// Clock that advances only when a number is taken.
    #[derive(Default)]
    struct TakeClock {
        ns: AtomicU64,
        readings: AtomicU64,
    }

    impl Clock for TakeClock {
        fn now(&self) -> ClockReading {
            self.readings.fetch_add(1, Relaxed);
            let ns = self.ns.load(Relaxed);
            ClockReading {
                main_ns: ns,
                raw_ns: ns,
            }
        }
    }

    struct CheckFixture {
        clock: Arc<TakeClock>,
        sessions: CurrentSession,
        tables: RoutingTableCell,
        session: Arc<LeasedSession>,
    }

    impl CheckFixture {
        fn new() -> CheckFixture {
            let clock = Arc::new(TakeClock::default());
            let fixture = CheckFixture {
                sessions: CurrentSession::new(clock.clone()),
                clock,
                tables: RoutingTableCell::new(Arc::default()),
                session: Arc::new(LeasedSession::new(SessionId(1))),
            };
            fixture.apply_table(1);
            let start = ClockReading {
                main_ns: 0,
                raw_ns: 0,
            };
            fixture.session.renew(Lease::new(start, LEASE));
            fixture.sessions.replace(Some(fixture.session.clone()));
            fixture
        }

        fn apply_table(&self, version: u64) {
            let delta = RoutingDelta {
                cluster: ClusterId(1),
                base: version - 1,
                version,
                slot_count: 1,
                namespaces: Vec::new(),
                families: Vec::new(),
                routes: Vec::new(),
            };
            assert!(self.tables.apply(delta).unwrap());
        }

        /// Runs a check around the taking of a number, at which the clock advances by `stopped`.
        fn check_taking(&self, stopped: Duration, take: impl FnOnce()) -> Confirmed {
            let (table, session) = (self.tables.peek(), self.sessions.peek());
            let check = ServingCheck::begin(table.as_ref().unwrap(), session.as_ref().unwrap());
            let readings = self.clock.readings.load(Relaxed);
            take();
            self.clock.ns.fetch_add(stopped.as_nanos() as u64, Relaxed);
            assert_eq!(
                self.clock.readings.load(Relaxed),
                readings,
                "the clock was read before the number was taken"
            );
            let confirmed = check.confirm(&self.sessions, &self.tables);
            assert_eq!(
                self.clock.readings.load(Relaxed),
                readings + 1,
                "one reading after the number was taken"
            );
            confirmed
        }
    }

    #[test]
    fn check_within_lease_confirms_all() {
        let fixture = CheckFixture::new();
        let confirmed = fixture.check_taking(LEASE / 2, || {});
        assert!(matches!(confirmed, Confirmed::All), "{confirmed:?}");
        assert!(fixture.sessions.may_have_lease());
    }

    /// Schedule: the process is stopped between taking and checking for as long as the lease.
    #[cfg(not(unleased))]
    #[test]
    fn check_after_lease_end_confirms_nothing() {
        let fixture = CheckFixture::new();
        let confirmed = fixture.check_taking(LEASE, || {});
        assert!(matches!(confirmed, Confirmed::LeaseLost), "{confirmed:?}");
        assert!(!fixture.sessions.may_have_lease());
        // Another lease ends it.
        let now = fixture.clock.now();
        fixture.session.renew(Lease::new(now, LEASE));
        assert!(fixture.sessions.may_have_lease());
    }

    /// The session of the check counts, even if another session with a lease has taken its place.
    #[test]
    fn check_of_ended_session_confirms_nothing() {
        let fixture = CheckFixture::new();
        let confirmed = fixture.check_taking(Duration::ZERO, || {
            fixture.session.end();
            let next = Arc::new(LeasedSession::new(SessionId(2)));
            next.renew(Lease::new(fixture.session.deadline(), LEASE));
            fixture.sessions.replace(Some(next));
        });
        assert!(matches!(confirmed, Confirmed::LeaseLost), "{confirmed:?}");
    }

    /// Schedule: the process learns of a new table between taking and checking.
    #[test]
    fn check_after_newer_table_returns_that_table() {
        let fixture = CheckFixture::new();
        match fixture.check_taking(LEASE / 2, || fixture.apply_table(2)) {
            Confirmed::TableChanged(newest) => assert_eq!(newest.version(), 2),
            other => panic!("{other:?}"),
        }
    }

    /// Schedule: a renewal brings table and lease after the old lease has ended. The answer is
    /// checked by the table that came with the lease.
    #[test]
    fn check_under_renewed_lease_uses_table_of_that_lease() {
        let fixture = CheckFixture::new();
        let late = 3 * LEASE;
        let confirmed = fixture.check_taking(late, || {
            fixture.apply_table(2);
            let renewed_at = ClockReading {
                main_ns: late.as_nanos() as u64,
                raw_ns: late.as_nanos() as u64,
            };
            fixture.session.renew(Lease::new(renewed_at, LEASE));
        });
        assert!(
            matches!(&confirmed, Confirmed::TableChanged(newest) if newest.version() == 2),
            "{confirmed:?}"
        );
    }
}
