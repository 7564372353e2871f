//! The arbiter's state of one term: timers, stamps and marks, and what follows from them.
//!
//! Invariant: nothing in here outlives its term; a mark is never removed.

use std::collections::HashMap;
use std::time::Duration;

use seqsvr_core::command::Command;
use seqsvr_core::ids::{SessionId, Slot};
use seqsvr_core::lease::{ClockReading, takeover_wait};
use seqsvr_core::state::State;
use seqsvr_core::{planted, reached};

use super::rebalance::SlotMove;
use super::session_expiry::TrackedSession;
use super::{ArbiterCounters, TickInput, TimerRestart, assignment, rebalance};

/// Longest wait for more AllocSvrs before the first assignment of a cluster.
const FIRST_ALLOCS_TIMEOUT: Duration = Duration::from_secs(1);

/// Everything that belongs to one term and is dropped with it.
#[derive(Debug)]
pub(super) struct LeadershipTerm {
    pub(super) number: u64,
    /// Last start of the timers: the beginning of the term or their last restart.
    pub(super) timers_started: ClockReading,
    pub(super) sessions: HashMap<SessionId, TrackedSession>,
    /// Whether the last tick's quorum round succeeded.
    pub(super) had_quorum: bool,
    /// End of the last tick.
    pub(super) last_tick: Option<ClockReading>,
    /// End of the last tick with a quorum; before the first one, the beginning of the term.
    pub(super) last_quorum: Option<ClockReading>,
    /// Last restart of the timers by a late tick or a regained quorum, until those have run out.
    pub(super) last_restart: Option<ClockReading>,
    /// Whether a tick has reported this term.
    pub(super) is_reported: bool,
}

impl LeadershipTerm {
    pub(super) fn new(number: u64, now: ClockReading) -> LeadershipTerm {
        LeadershipTerm {
            number,
            timers_started: now,
            sessions: HashMap::new(),
            had_quorum: true,
            last_tick: None,
            last_quorum: Some(now),
            last_restart: None,
            is_reported: false,
        }
    }

    /// Restarts all timers after a time in which this arbiter could answer no renewal: after a lost
    /// quorum, or after a late tick of its own.
    ///
    /// Invariant: between two restarts the timers run out once and a tick with a quorum acts on
    /// them, for all causes together (ADR 0019). Schedule that breaks it: the rounds of some ticks
    /// fail, at least one in each W. If every regained quorum restarted the timers, they would
    /// never run out, and a dead owner would keep its slots. Safety needs no restart: it rests on
    /// the stamps and on the start of the term; a restart is for fairness alone.
    pub(super) fn restart_timers(
        &mut self,
        tick: &TickInput<'_>,
        lease: Duration,
        counters: &mut ArbiterCounters,
    ) -> Option<TimerRestart> {
        // Both times err to the side of seeing a cause: the larger of the two clocks.
        let delay = |last: ClockReading| {
            tick.started
                .elapsed_owner(last)
                .saturating_sub(tick.interval)
        };
        let late = self.last_tick.replace(tick.now).map(delay);
        counters.late_ticks += u64::from(late.is_some_and(|late| late > lease / 4));
        if !tick.has_quorum {
            self.had_quorum = false;
            return None;
        }
        // Without a quorum nothing is expired, so only ticks with one count. So a restart is not
        // used up before the quorum is back, and a tick without a quorum does not count as acting
        // on the timers.
        let unable = self.last_quorum.replace(tick.now).map(delay);
        let regained = !std::mem::replace(&mut self.had_quorum, true);
        if planted!(RestartAtEveryQuorum) && regained {
            self.timers_started = tick.now;
        }
        let may_restart = self.last_restart.is_none();
        let has_run_out = |at: &ClockReading| tick.now.elapsed_arbiter(*at) >= takeover_wait(lease);
        if self.last_restart.as_ref().is_some_and(has_run_out) {
            self.last_restart = None;
        }
        let unable = unable.filter(|unable| *unable > lease / 4 && may_restart)?;
        (self.last_restart, self.timers_started) = (Some(tick.now), tick.now);
        counters.timer_resets += 1;
        reached!("arbiter: timers were restarted");
        Some(match regained {
            true => TimerRestart::QuorumRegained,
            false => TimerRestart::LateTick(unable),
        })
    }

    /// Adds the sessions that are new in the applied state and removes those that ended.
    pub(super) fn track_sessions(&mut self, tick: &TickInput<'_>) {
        self.sessions
            .retain(|id, _| tick.state.session(*id).is_some());
        for (id, _) in tick.state.sessions() {
            self.sessions
                .entry(id)
                .or_insert(TrackedSession::new(tick.now));
        }
    }

    /// Marks sessions silent for W as being expired; returns how many are newly marked.
    pub(super) fn mark_silent(&mut self, now: ClockReading, lease: Duration) -> u64 {
        let timers_started = self.timers_started;
        let silent = self.sessions.values_mut();
        let silent = silent.filter(|s| s.has_expired(now, timers_started, lease));
        silent.map(|s| s.is_expiring = true).count() as u64
    }

    /// Returns the command that ends each marked session.
    pub(super) fn expire_commands(&self) -> Vec<Command> {
        let marked = self.sessions.iter().filter(|(_, s)| s.is_expiring);
        let mut silent: Vec<SessionId> = marked.map(|(id, _)| *id).collect();
        silent.sort_unstable();
        let expire = |session| Command::ExpireSession {
            session,
            term: self.number,
        };
        silent.into_iter().map(expire).collect()
    }

    /// Returns owned slots that should move: see [`rebalance`].
    pub(super) fn plan_moves(
        &self,
        now: ClockReading,
        lease: Duration,
        state: &State,
    ) -> Vec<SlotMove> {
        let owners: Vec<_> = state.slots().iter().map(|row| row.owner).collect();
        let alive = self.sessions.iter().filter(|(_, s)| s.is_alive(now, lease));
        let takers = alive
            .clone()
            .filter(|(_, s)| !s.is_draining)
            .map(|(id, s)| {
                // A new session may end soon again. Slots of a session that drains cannot wait
                // for that.
                let settled = now.elapsed_arbiter(s.alive_since) >= lease;
                (*id, settled)
            });
        let draining = alive.filter(|(_, s)| s.is_draining).map(|(id, _)| *id);
        rebalance::plan_moves(&owners, &takers.collect(), &draining.collect())
    }

    /// Assigns free slots to living sessions. It never touches owned slots.
    pub(super) fn assign_commands(&self, tick: &TickInput<'_>, lease: Duration) -> Vec<Command> {
        let alive = self.sessions.iter();
        let alive: Vec<_> = alive.filter(|(_, s)| s.is_alive(tick.now, lease)).collect();
        let rows = tick.state.slots();
        let is_open = |id: &SessionId| tick.state.session(*id).is_some();
        let owners: Vec<_> = rows.iter().map(|row| row.owner.filter(is_open)).collect();
        // No session owns a slot: a new cluster, or all AllocSvrs started at the same time. The
        // first session must not take all slots.
        let gather_time = FIRST_ALLOCS_TIMEOUT.min(lease / 2);
        let has_waited =
            |s: &TrackedSession| tick.now.elapsed_arbiter(s.alive_since) >= gather_time;
        if owners.iter().all(Option::is_none) && !alive.iter().any(|(_, s)| has_waited(s)) {
            return Vec::new();
        }
        // A draining session is better than no owner.
        let all_drain = alive.iter().all(|(_, s)| s.is_draining);
        let takers = alive
            .into_iter()
            .filter(|(_, s)| all_drain || !s.is_draining);
        let alive: Vec<SessionId> = takers.map(|(id, _)| *id).collect();
        let assign = |(slot, to): (Slot, SessionId)| Command::Assign {
            slot,
            from: rows[usize::from(slot.0)].epoch,
            to,
        };
        assignment::assign_free_slots(&owners, &alive)
            .map(assign)
            .collect()
    }
}
