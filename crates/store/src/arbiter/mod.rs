//! The arbiter: expires silent sessions and assigns free slots. It is a pure machine over clock
//! readings, leadership and the replicated state. It has no task, no clock and no network, so that
//! unit tests and a simulation drive the same code as `arbiter_driver.rs` does.
//!
//! Invariant: the arbiter expires a session only when its lease is over on every clock within the
//! drift bound. The lease runs to t0 + D; the owner reads t0 *before* it sends the request. The
//! arbiter waits W = 1.25 D since the latest of
//! - the stamp of the renewal, made *after* the request came in, hence after t0;
//! - the application of its OpenSession on this node (the owner may have sent a renewal, but
//!   nothing is granted yet);
//! - the moment when this node became leader in this term: a quorum round confirmed the renewals
//!   that an older leader answered, so their t0 lies before this election.
//!
//! Schedules that would break it, and what prevents each:
//! - *Renewed while being expired.* W passes; the arbiter proposes ExpireSession. Before it is
//!   applied, a keep-alive finds the session alive and grants D; the slot is assigned at once.
//!   Hence the mark: it is set under the same lock as the stamp, before the command is proposed. It
//!   is kept for the whole term, with every outcome of the proposal.
//! - *Old stamps of an earlier leadership.* This node led in term 1 and lost the leadership.
//!   Another leader renewed the session. This node leads again in term 3 and counts from its own
//!   old stamp. Hence every stamp and mark belongs to one term and is dropped with it.
//! - *Expired by a deposed arbiter.* The expiry is decided in term 1, and appended in term 3 after
//!   a renewal in term 2. Hence ExpireSession carries the term of the decision and is a no-op in
//!   any other.
//! - *Acting on an old view.* A new leader that has not yet applied what older terms committed
//!   finds a session that is gone, or a slot free that is not. Hence `leading_term` is the term
//!   only once the term's own first entry is applied here.
//! - *An assigned session that is not alive.* It would cost another W. Hence only sessions renewed
//!   within D in this term get slots.
//!
//! A tick late by more than D/4 is no danger: the clocks err to the safe side. It means that this
//! process could not answer keep-alives for a while; expiring their senders would be unfair. The
//! timers restart at most once per W, so that a slow machine still makes progress.

mod assignment;
mod leadership_term;
mod rebalance;
mod session_expiry;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use seqsvr_core::command::Command;
use seqsvr_core::ids::SessionId;
use seqsvr_core::lease::ClockReading;
use seqsvr_core::state::State;
use seqsvr_core::{planted, reached};

use leadership_term::LeadershipTerm;
pub use rebalance::SlotMove;
use session_expiry::TrackedSession;

/// Most commands of one tick, so that they take few entries.
const TICK_COMMANDS_MAX: usize = 4_096;
/// Slots a session moves per renewal (D/3) to even out: a new AllocSvr takes its share slowly.
const REBALANCE_MOVES_MAX: usize = 16;
/// Slots that a draining session moves per renewal (D/3).
const DRAIN_MOVES_MAX: usize = 256;

/// Decides which sessions are silent and which gets which free slot. Start: `Arbiter::default()`.
#[derive(Debug, Default)]
pub struct Arbiter {
    /// State of the term this node leads in; None while it does not lead.
    term: Option<LeadershipTerm>,
    counters: ArbiterCounters,
}

/// Input of a tick.
#[derive(Clone, Copy, Debug)]
pub struct TickInput<'a> {
    /// Read when the tick began, before its quorum round.
    pub started: ClockReading,
    /// Read after the quorum round.
    pub now: ClockReading,
    /// Maximum time after the last tick at which this one was due.
    pub interval: Duration,
    /// The term this node leads in, once its own first entry of it is applied here.
    pub leading_term: Option<u64>,
    /// Whether a quorum round begun with this tick succeeded.
    pub has_quorum: bool,
    /// The applied state.
    pub state: &'a State,
}

/// Result of a tick: commands to commit, every expiry before the first assignment.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ArbiterActions {
    /// `ExpireSession`s and `Assign`s.
    pub commands: Vec<Command>,
    /// Why all timers restarted, if they did.
    pub timer_restart: Option<TimerRestart>,
}

/// Cause of a restart of all timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerRestart {
    /// This node became leader in a term.
    NewTerm(u64),
    /// No quorum answered for a while, so no session could renew.
    QuorumRegained,
    /// The tick of this arbiter was late by this much; it could not answer renewals.
    LateTick(Duration),
}

/// Reason why a session was not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalError {
    /// This node does not lead, or not in the term the request was confirmed in.
    NotLeader,
    /// The session is not in the applied state.
    SessionNotFound,
    /// It is being expired: it is over for its holder, and the holder must open another.
    SessionExpiring,
}

/// Counters since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArbiterCounters {
    /// Number of restarts of all timers.
    pub timer_resets: u64,
    /// Ticks late by more than D/4, restarting or not.
    pub late_ticks: u64,
    /// Renewals stamped.
    pub lease_renewals: u64,
    /// Renewals rejected because the session was gone or being expired.
    pub lease_renewals_rejected: u64,
    /// Sessions marked as being expired.
    pub sessions_expired: u64,
}

impl Arbiter {
    /// Stamps a renewal. The caller holds the arbiter's lock, and has read `leading_term`, `now`
    /// and `state` under it. Before that, a quorum round that began after the request came in
    /// confirmed this node's leadership in `confirmed_term`, and was applied. `draining`: the
    /// session takes no slots. Returns whether the session was not alive before (a tick is due: the
    /// session may receive slots).
    pub fn stamp_renewal(
        &mut self,
        session: SessionId,
        confirmed_term: u64,
        now: ClockReading,
        leading_term: Option<u64>,
        state: &State,
        draining: bool,
    ) -> Result<bool, RenewalError> {
        self.update_term(leading_term, now);
        let (Some(term), Some(lease)) = (self.term.as_mut(), state.lease()) else {
            return Err(RenewalError::NotLeader);
        };
        if term.number != confirmed_term {
            return Err(RenewalError::NotLeader);
        }
        if state.session(session).is_none() {
            self.counters.lease_renewals_rejected += 1;
            return Err(RenewalError::SessionNotFound);
        }
        let tracked = term
            .sessions
            .entry(session)
            .or_insert(TrackedSession::new(now));
        if tracked.is_expiring && !planted!(RenewWhileExpiring) {
            reached!("arbiter: a renewal came while the session was being expired");
            self.counters.lease_renewals_rejected += 1;
            return Err(RenewalError::SessionExpiring);
        }
        let was_alive = tracked.is_alive(now, lease);
        tracked.last_renewal = Some(now);
        tracked.is_draining = draining;
        if !was_alive {
            tracked.alive_since = now;
        }
        self.counters.lease_renewals += 1;
        Ok(!was_alive)
    }

    /// Runs one tick: restarts timers where the rules require it, marks silent sessions, and
    /// returns what to commit. The next tick returns again what is still due, so a lost proposal
    /// needs no care.
    pub fn tick(&mut self, tick: TickInput<'_>) -> ArbiterActions {
        self.update_term(tick.leading_term, tick.now);
        let (Some(term), Some(lease)) = (self.term.as_mut(), tick.state.lease()) else {
            return ArbiterActions::default();
        };
        let is_new_term = !std::mem::replace(&mut term.is_reported, true);
        let timer_restart = term.restart_timers(&tick, lease, &mut self.counters);
        let timer_restart =
            timer_restart.or(is_new_term.then_some(TimerRestart::NewTerm(term.number)));
        term.track_sessions(&tick);
        if !tick.has_quorum {
            return ArbiterActions {
                timer_restart,
                ..ArbiterActions::default()
            };
        }
        self.counters.sessions_expired += term.mark_silent(tick.now, lease);
        let mut commands = term.expire_commands();
        commands.extend(term.assign_commands(&tick, lease));
        commands.truncate(TICK_COMMANDS_MAX);
        ArbiterActions {
            commands,
            timer_restart,
        }
    }

    /// Returns owned slots that should move to another session, by the applied state: those of
    /// sessions that drain, and as many as even out the others. The same state gives the same
    /// moves, so repeating them overshoots nothing. Returns nothing while this node does not lead.
    pub fn planned_moves(&self, now: ClockReading, state: &State) -> Vec<SlotMove> {
        match (&self.term, state.lease()) {
            (Some(term), Some(lease)) => term.plan_moves(now, lease, state),
            _ => Vec::new(),
        }
    }

    /// Returns whether every living session has had time to renew in this term, so that an empty
    /// plan means that there is nothing to plan.
    pub fn has_complete_view(&self, now: ClockReading, state: &State) -> bool {
        match (&self.term, state.lease()) {
            (Some(term), Some(lease)) => now.elapsed_arbiter(term.timers_started) >= lease,
            _ => false,
        }
    }

    /// Returns how many of its moves a session should make until its next renewal.
    pub fn moves_per_renewal(&self, session: SessionId) -> usize {
        if self.draining_sessions().contains(&session) {
            DRAIN_MOVES_MAX
        } else {
            REBALANCE_MOVES_MAX
        }
    }

    /// Returns the sessions that take no slots.
    pub fn draining_sessions(&self) -> BTreeSet<SessionId> {
        let sessions = self.term.iter().flat_map(|term| &term.sessions);
        let draining = sessions.filter(|(_, tracked)| tracked.is_draining);
        draining.map(|(id, _)| *id).collect()
    }

    /// Returns the counters since the process started.
    pub fn counters(&self) -> ArbiterCounters {
        self.counters
    }

    /// Returns how long ago the session's last renewal was stamped in this term.
    pub fn last_renewal_age(&self, session: SessionId, now: ClockReading) -> Option<Duration> {
        let tracked = self.term.as_ref()?.sessions.get(&session)?;
        Some(now.elapsed_arbiter(tracked.last_renewal?))
    }

    /// Enters the term this node leads in, or leaves the one it led in.
    fn update_term(&mut self, leading_term: Option<u64>, now: ClockReading) {
        if self.term.as_ref().map(|t| t.number) == leading_term {
            return;
        }
        self.counters.timer_resets += u64::from(leading_term.is_some());
        self.term = leading_term.map(|number| LeadershipTerm::new(number, now));
    }
}

impl fmt::Display for TimerRestart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimerRestart::NewTerm(term) => write!(f, "leading in new term {term}"),
            TimerRestart::QuorumRegained => f.write_str("a quorum answers again"),
            TimerRestart::LateTick(late) => {
                write!(f, "its own tick was {} ms late", late.as_millis())
            }
        }
    }
}
