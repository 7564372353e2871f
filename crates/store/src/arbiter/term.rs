//! The arbiter's state of one term: timers, stamps and marks, and what follows from them.
//!
//! Invariant: nothing in here outlives its term; a mark is never removed.

use std::collections::HashMap;
use std::time::Duration;

use seqsvr_core::command::Command;
use seqsvr_core::id::{SessionId, Slot};
use seqsvr_core::lease::{Reading, takeover_wait};
use seqsvr_core::state::State;
use seqsvr_core::{planted, reached};

use super::{Counters, Restart, Tick, even, spread};

/// How long the arbiter waits for the first AllocSvrs of a cluster, at most.
const GATHER_MAX: Duration = Duration::from_secs(1);

/// Everything that belongs to one term and is dropped with it.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) number: u64,
    /// Last restart of the timers.
    pub(super) since: Reading,
    pub(super) sessions: HashMap<SessionId, Seen>,
    /// Whether the last tick's quorum round succeeded.
    pub(super) quorum: bool,
    /// End of the last tick.
    pub(super) last_tick: Option<Reading>,
    /// End of the last tick with a quorum; before the first one, the beginning of the term.
    pub(super) last_quorum: Option<Reading>,
    /// Last restart of the timers by a late tick or a regained quorum, until those have run out.
    pub(super) forgiven: Option<Reading>,
    /// Whether a tick has reported this term.
    pub(super) told: bool,
}

#[derive(Debug)]
pub(super) struct Seen {
    /// Moment when its OpenSession was first seen applied in this term: not before the term's
    /// start.
    pub(super) opened: Reading,
    /// Its last stamp.
    pub(super) renewed: Option<Reading>,
    /// The stamp that brought it to life in this term: the first, or the first after D of silence.
    pub(super) alive_since: Reading,
    /// Being expired: renewals are refused until the end of the term.
    pub(super) expiring: bool,
    /// Wants no slots, by its last renewal.
    pub(super) draining: bool,
}

impl Term {
    pub(super) fn new(number: u64, now: Reading) -> Term {
        Term {
            number,
            since: now,
            sessions: HashMap::new(),
            quorum: true,
            last_tick: None,
            last_quorum: Some(now),
            forgiven: None,
            told: false,
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
    pub(super) fn restart(
        &mut self,
        tick: &Tick<'_>,
        lease: Duration,
        counters: &mut Counters,
    ) -> Option<Restart> {
        // Both times err to the side of seeing a cause: the larger of the two clocks.
        let beyond = |last: Reading| tick.begun.elapsed_owner(last).saturating_sub(tick.interval);
        let late = self.last_tick.replace(tick.now).map(beyond);
        counters.late_ticks += u64::from(late.is_some_and(|late| late > lease / 4));
        if !tick.quorum {
            self.quorum = false;
            return None;
        }
        // Without a quorum nothing is expired, so only ticks with one count. So a restart is not
        // used up before the quorum is back, and a tick without a quorum does not count as acting
        // on the timers.
        let unable = self.last_quorum.replace(tick.now).map(beyond);
        let regained = !std::mem::replace(&mut self.quorum, true);
        if planted!(RestartAtEveryQuorum) && regained {
            self.since = tick.now;
        }
        let forgivable = self.forgiven.is_none();
        let ran_out = |at: &Reading| tick.now.elapsed_arbiter(*at) >= takeover_wait(lease);
        if self.forgiven.as_ref().is_some_and(ran_out) {
            self.forgiven = None;
        }
        let unable = unable.filter(|unable| *unable > lease / 4 && forgivable)?;
        (self.forgiven, self.since) = (Some(tick.now), tick.now);
        counters.timer_restarts += 1;
        reached!("arbiter: timers were restarted");
        Some(match regained {
            true => Restart::QuorumRegained,
            false => Restart::LateTick(unable),
        })
    }

    /// Notes sessions seen for the first time and forgets those that ended.
    pub(super) fn sync(&mut self, tick: &Tick<'_>) {
        self.sessions
            .retain(|id, _| tick.state.session(*id).is_some());
        for (id, _) in tick.state.sessions() {
            self.sessions.entry(id).or_insert(Seen::opened(tick.now));
        }
    }

    /// Marks sessions silent for W as being expired; returns how many are newly marked.
    pub(super) fn mark(&mut self, now: Reading, lease: Duration) -> u64 {
        let (wait, since) = (takeover_wait(lease), self.since);
        let passed = |from: Reading| now.elapsed_arbiter(from) >= wait;
        let silent = self.sessions.values_mut().filter(|s| {
            let has_waited = passed(since) && passed(s.opened);
            let has_waited = has_waited || planted!(NoWaitAfterElection);
            !s.expiring && has_waited && s.renewed.is_none_or(passed)
        });
        silent.map(|s| s.expiring = true).count() as u64
    }

    pub(super) fn expiries(&self) -> Vec<Command> {
        let marked = self.sessions.iter().filter(|(_, s)| s.expiring);
        let mut silent: Vec<SessionId> = marked.map(|(id, _)| *id).collect();
        silent.sort_unstable();
        let expire = |session| Command::ExpireSession {
            session,
            term: self.number,
        };
        silent.into_iter().map(expire).collect()
    }

    /// Returns owned slots that should move: see [`even`].
    pub(super) fn moves(&self, now: Reading, lease: Duration, state: &State) -> Vec<even::Move> {
        let owners: Vec<_> = state.slots().iter().map(|row| row.owner).collect();
        let alive = self.sessions.iter().filter(|(_, s)| s.alive(now, lease));
        let takers = alive.clone().filter(|(_, s)| !s.draining).map(|(id, s)| {
            // A session that just came may be gone again soon; slots that drain cannot wait for
            // that.
            let settled = now.elapsed_arbiter(s.alive_since) >= lease;
            (*id, settled)
        });
        let draining = alive.filter(|(_, s)| s.draining).map(|(id, _)| *id);
        even::moves(&owners, &takers.collect(), &draining.collect())
    }

    /// Assigns free slots to living sessions. It never touches owned slots.
    pub(super) fn assignments(&self, tick: &Tick<'_>, lease: Duration) -> Vec<Command> {
        let alive = self.sessions.iter();
        let alive: Vec<_> = alive.filter(|(_, s)| s.alive(tick.now, lease)).collect();
        let rows = tick.state.slots();
        let living = |id: &SessionId| tick.state.session(*id).is_some();
        let owners: Vec<_> = rows.iter().map(|row| row.owner.filter(living)).collect();
        // No session owns a slot: a new cluster, or all AllocSvrs started at the same time. The
        // first session must not take all slots.
        let moment = GATHER_MAX.min(lease / 2);
        let waited = |s: &Seen| tick.now.elapsed_arbiter(s.alive_since) >= moment;
        if owners.iter().all(Option::is_none) && !alive.iter().any(|(_, s)| waited(s)) {
            return Vec::new();
        }
        // A draining session is better than no owner.
        let all_drain = alive.iter().all(|(_, s)| s.draining);
        let takers = alive.into_iter().filter(|(_, s)| all_drain || !s.draining);
        let alive: Vec<SessionId> = takers.map(|(id, _)| *id).collect();
        let assign = |(slot, to): (Slot, SessionId)| Command::Assign {
            slot,
            from: rows[usize::from(slot.0)].epoch,
            to,
        };
        spread::free_slots(&owners, &alive).map(assign).collect()
    }
}

impl Seen {
    pub(super) fn opened(now: Reading) -> Seen {
        Seen {
            opened: now,
            renewed: None,
            alive_since: now,
            expiring: false,
            draining: false,
        }
    }

    /// Returns whether it was renewed within D (by the larger elapsed time) and is not being
    /// expired.
    pub(super) fn alive(&self, now: Reading, lease: Duration) -> bool {
        let renewed = |at: Reading| now.elapsed_owner(at) < lease;
        !self.expiring && self.renewed.is_some_and(renewed)
    }
}
