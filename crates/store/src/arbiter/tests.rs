//! The arbiter's rules, each by the schedule that breaks it, and the distribution by properties.

use std::collections::{BTreeSet, HashMap};

use seqsvr_core::command::{Batch, OpenSession, Reply};
use seqsvr_core::ids::{ClusterId, Nonce, Slot};

use super::*;

mod random;
mod slot_assignment;
mod timer_restart;

const LEASE: Duration = Duration::from_millis(1_000);
const TAKEOVER_WAIT_MS: u64 = 1_250;
const TICK_INTERVAL: Duration = Duration::from_millis(125);

fn reading_at(ms: u64) -> ClockReading {
    ClockReading {
        main_ns: ms * 1_000_000,
        raw_ns: 77 + ms * 1_000_000,
    }
}

/// A leader: state, arbiter and log in one, with the clock in hand.
struct ArbiterLeader {
    state: State,
    arbiter: Arbiter,
    term: u64,
    now_ms: u64,
}

impl ArbiterLeader {
    fn new(slots: u32) -> ArbiterLeader {
        let mut leader = ArbiterLeader {
            state: State::default(),
            arbiter: Arbiter::default(),
            term: 1,
            now_ms: 0,
        };
        leader.apply(Command::Init {
            cluster: ClusterId(1),
            lease_ms: LEASE.as_millis() as u32,
            slots,
        });
        leader
    }

    fn apply(&mut self, command: Command) -> Reply {
        let batch = Batch {
            commands: vec![command],
        };
        self.state
            .apply(self.term, &batch, &mut BTreeSet::new())
            .remove(0)
    }

    fn open_session(&mut self, name: u64) -> SessionId {
        let open = OpenSession {
            name: format!("a{name}"),
            address: "127.0.0.1:1".into(),
            incarnation: name,
            nonce: Nonce(u128::from(name)),
            proof: None,
        };
        match self.apply(Command::OpenSession(open)) {
            Reply::Session(id) => id,
            other => panic!("{other:?}"),
        }
    }

    fn renew(&mut self, session: SessionId) -> Result<bool, RenewalError> {
        self.arbiter.stamp_renewal(
            session,
            self.term,
            reading_at(self.now_ms),
            Some(self.term),
            &self.state,
            false,
        )
    }

    fn tick_with(&mut self, has_quorum: bool, leading_term: Option<u64>) -> ArbiterActions {
        let now = reading_at(self.now_ms);
        self.arbiter.tick(TickInput {
            started: now,
            now,
            interval: TICK_INTERVAL,
            leading_term,
            has_quorum,
            state: &self.state,
        })
    }

    fn tick(&mut self) -> ArbiterActions {
        self.tick_with(true, Some(self.term))
    }

    /// Ticks on time until `until_ms`, renewing `alive`, committing all commands.
    fn run_until(&mut self, until_ms: u64, alive: &[SessionId]) {
        while self.now_ms < until_ms {
            self.now_ms = (self.now_ms + 125).min(until_ms);
            for id in alive {
                self.renew(*id).unwrap();
            }
            for command in self.tick().commands {
                self.apply(command);
            }
        }
    }

    /// Ticks on time until `until_ms` and commits nothing; returns the commands of the last tick.
    fn tick_until(&mut self, until_ms: u64) -> Vec<Command> {
        let mut last = Vec::new();
        while self.now_ms < until_ms {
            self.now_ms = (self.now_ms + 125).min(until_ms);
            last = self.tick().commands;
        }
        last
    }

    fn slots_by_session(&self) -> HashMap<SessionId, usize> {
        let mut counts = HashMap::new();
        for owner in self.state.slots().iter().filter_map(|row| row.owner) {
            *counts.entry(owner).or_default() += 1;
        }
        counts
    }
}

fn expire_commands(session: SessionId, term: u64) -> Vec<Command> {
    vec![Command::ExpireSession { session, term }]
}

#[test]
fn silent_session_expires_w_after_its_last_stamp() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(2_000, &[a]);
    assert!(leader.tick_until(2_000 + TAKEOVER_WAIT_MS - 1).is_empty());
    assert_eq!(
        leader.tick_until(2_000 + TAKEOVER_WAIT_MS),
        expire_commands(a, 1)
    );
}

#[test]
fn session_without_renewal_expires_w_after_its_opening_was_seen() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(2_000, &[a]);
    let b = leader.open_session(2);
    leader.run_until(2_125, &[a]);
    while leader.now_ms < 2_125 + TAKEOVER_WAIT_MS - 1 {
        let until = (leader.now_ms + 125).min(2_125 + TAKEOVER_WAIT_MS - 1);
        leader.now_ms = until;
        leader.renew(a).unwrap();
        assert!(leader.tick().commands.is_empty());
    }
    leader.now_ms += 1;
    assert_eq!(leader.tick().commands, expire_commands(b, 1));
}

#[test]
fn new_leader_waits_w_after_its_election() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(2_000, &[a]);
    // Another node led in term 2 and may have renewed the session; this node's own stamps are worth
    // nothing.
    assert_eq!(leader.tick_with(true, None), ArbiterActions::default());
    leader.term = 3;
    leader.now_ms = 60_000;
    assert_eq!(leader.tick().timer_restart, Some(TimerRestart::NewTerm(3)));
    assert!(leader.tick_until(60_000 + TAKEOVER_WAIT_MS - 1).is_empty());
    assert_eq!(
        leader.tick_until(60_000 + TAKEOVER_WAIT_MS),
        expire_commands(a, 3)
    );
}

#[test]
fn term_change_between_two_ticks_drops_stamps() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(1_000, &[a]);
    leader.term = 3;
    leader.now_ms = 1_125;
    assert_eq!(leader.tick().timer_restart, Some(TimerRestart::NewTerm(3)));
    assert_eq!(leader.arbiter.last_renewal_age(a, reading_at(1_125)), None);
}

#[test]
fn arbiter_without_ready_term_does_nothing() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    for ms in (0..10_000).step_by(125) {
        leader.now_ms = ms;
        assert_eq!(leader.tick_with(true, None), ArbiterActions::default());
        let refused =
            leader
                .arbiter
                .stamp_renewal(a, 1, reading_at(ms), None, &leader.state, false);
        assert_eq!(refused, Err(RenewalError::NotLeader));
    }
}

#[test]
fn renewal_of_marked_session_is_rejected_with_any_proposal_outcome() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(1_000, &[a]);
    assert_eq!(
        leader.tick_until(1_000 + TAKEOVER_WAIT_MS),
        expire_commands(a, 1)
    );
    assert_eq!(leader.renew(a), Err(RenewalError::SessionExpiring));
    // The proposal is lost and the timers restart: the renewal is still rejected, and the tick
    // returns the expiry again.
    leader.now_ms += 5_000;
    assert!(matches!(
        leader.tick().timer_restart,
        Some(TimerRestart::LateTick(_))
    ));
    assert_eq!(leader.renew(a), Err(RenewalError::SessionExpiring));
    leader.now_ms += 100;
    assert_eq!(leader.tick().commands, expire_commands(a, 1));
    leader.apply(expire_commands(a, 1).remove(0));
    assert_eq!(leader.renew(a), Err(RenewalError::SessionNotFound));
    // In a new term the mark is gone with the old one's decision, which is a no-op by then.
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(1_000, &[a]);
    leader.tick_until(1_000 + TAKEOVER_WAIT_MS);
    leader.term = 2;
    assert_eq!(leader.renew(a), Ok(true));
    leader.apply(expire_commands(a, 1).remove(0));
    assert!(leader.state.session(a).is_some());
}

#[test]
fn renewal_confirmed_in_another_term_is_rejected() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(500, &[a]);
    let stale = leader
        .arbiter
        .stamp_renewal(a, 1, reading_at(600), Some(2), &leader.state, false);
    assert_eq!(stale, Err(RenewalError::NotLeader));
    assert_eq!(leader.arbiter.last_renewal_age(a, reading_at(600)), None);
}

#[test]
fn expiry_uses_slower_clock_and_liveness_the_faster() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(1_000, &[a]);
    let epoch = leader.state.slots()[0].epoch;
    leader.apply(Command::MoveSlot {
        slot: Slot(0),
        epoch,
        high_water_marks: Vec::new(),
        to: None,
    });
    // MONOTONIC is slewed far ahead, MONOTONIC_RAW is true: no expiry, and no slot either.
    let now = ClockReading {
        main_ns: 9_000_000_000,
        raw_ns: 77 + 1_100_000_000,
    };
    let tick = TickInput {
        started: reading_at(1_100),
        now,
        interval: TICK_INTERVAL,
        leading_term: Some(1),
        has_quorum: true,
        state: &leader.state,
    };
    assert!(leader.arbiter.tick(tick).commands.is_empty());
}
