//! The session in which this process serves now.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use seqsvr_core::lease::ClockReading;

use crate::clock::Clock;
use crate::session::leased_session::LeasedSession;

/// Cell of the current session; readers never block.
pub(crate) struct CurrentSession {
    clock: Arc<dyn Clock>,
    session: ArcSwapOption<LeasedSession>,
    /// Whether the lease had expired when answers were last checked.
    lease_lapsed: AtomicBool,
}

impl CurrentSession {
    /// Creates a cell without a session.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> CurrentSession {
        CurrentSession {
            clock,
            session: ArcSwapOption::empty(),
            lease_lapsed: AtomicBool::new(false),
        }
    }

    /// Borrows the session: cheaper than [`CurrentSession::load`]. Hold it across no await.
    pub(crate) fn peek(&self) -> Guard<Option<Arc<LeasedSession>>> {
        self.session.load()
    }

    /// Returns the session; None while this process has none.
    pub(crate) fn load(&self) -> Option<Arc<LeasedSession>> {
        self.session.load_full()
    }

    /// Replaces the session and returns the one before it.
    pub(crate) fn replace(
        &self,
        session: Option<Arc<LeasedSession>>,
    ) -> Option<Arc<LeasedSession>> {
        self.session.swap(session)
    }

    /// Reads the owner's clock now.
    pub(crate) fn read_clock(&self) -> ClockReading {
        self.clock.now()
    }

    /// Returns whether this process may serve now.
    pub(crate) fn has_lease(&self) -> bool {
        self.peek()
            .as_ref()
            .is_some_and(|session| session.may_serve_at(self.clock.now()))
    }

    /// Returns the time until the lease ends; zero without a session. For operators: no answer
    /// depends on it.
    pub(crate) fn lease_left(&self) -> Duration {
        let session = self.peek();
        let left = session
            .as_ref()
            .map(|session| session.time_left(self.clock.now()));
        left.unwrap_or_default()
    }

    /// Returns whether the lease held at the last check. Only spares numbers that would be
    /// discarded, so it reads the clock only after a check has failed.
    pub(crate) fn may_have_lease(&self) -> bool {
        if !self.lease_lapsed.load(Relaxed) {
            return true;
        }
        let has_lease = self.has_lease();
        self.lease_lapsed.store(!has_lease, Relaxed);
        has_lease
    }

    /// Records that a check has failed because the lease had expired.
    pub(crate) fn record_lapse(&self) {
        self.lease_lapsed.store(true, Relaxed);
    }
}
