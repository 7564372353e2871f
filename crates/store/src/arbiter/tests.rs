//! The arbiter's rules, each by the schedule that breaks it, and the distribution by properties.

use std::collections::{BTreeSet, HashMap};

use seqsvr_core::command::{Batch, OpenSession, Reply};
use seqsvr_core::ids::{ClusterId, Nonce, Slot};

use super::*;

mod random;

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
fn late_tick_restarts_timers_at_most_once_per_w() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(1_000, &[a]);
    // Late by exactly D/4: on time.
    leader.now_ms += 375;
    assert_eq!(leader.tick().timer_restart, None);
    leader.now_ms = 6_000;
    let actions = leader.tick();
    assert_eq!(
        actions.timer_restart,
        Some(TimerRestart::LateTick(Duration::from_millis(
            6_000 - 1_375 - 125
        )))
    );
    assert!(actions.commands.is_empty(), "its timer has just begun");
    // Late again within W of that: no restart, but progress.
    leader.now_ms += 600;
    assert_eq!(leader.tick().timer_restart, None);
    // W after the restart its timers have run out, and that is acted on first.
    leader.now_ms += TAKEOVER_WAIT_MS - 600;
    let actions = leader.tick();
    assert_eq!(
        (actions.timer_restart, actions.commands),
        (None, expire_commands(a, 1))
    );
    leader.now_ms += 600;
    assert!(matches!(
        leader.tick().timer_restart,
        Some(TimerRestart::LateTick(_))
    ));
    let counters = leader.arbiter.counters();
    assert_eq!((counters.timer_resets, counters.late_ticks), (3, 4));
}

#[test]
fn slow_arbiter_still_expires_sessions() {
    // If W itself allowed the next restart, an arbiter whose every tick is late would restart its
    // timers in the very tick in which they run out, without end.
    for gap_ms in [400, TAKEOVER_WAIT_MS, 2 * TAKEOVER_WAIT_MS, 10_000] {
        let mut leader = ArbiterLeader::new(4);
        let a = leader.open_session(1);
        leader.run_until(1_000, &[a]);
        let start = leader.now_ms;
        while leader.tick().commands.is_empty() {
            leader.now_ms += gap_ms;
            assert!(
                leader.now_ms <= start + 3 * gap_ms.max(TAKEOVER_WAIT_MS),
                "no progress"
            );
        }
    }
}

#[test]
fn regained_quorum_restarts_timers() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(1_000, &[a]);
    for _ in 0..20 {
        leader.now_ms += 125;
        assert_eq!(leader.tick_with(false, Some(1)), ArbiterActions::default());
    }
    assert_eq!(
        leader.tick().timer_restart,
        Some(TimerRestart::QuorumRegained)
    );
    let regained = leader.now_ms;
    assert!(
        leader
            .tick_until(regained + TAKEOVER_WAIT_MS - 1)
            .is_empty()
    );
    assert_eq!(
        leader.tick_until(regained + TAKEOVER_WAIT_MS),
        expire_commands(a, 1)
    );
}

/// Schedule: the quorum round of every tick but one in each W fails. A timer restart at every
/// regained quorum would keep the owner of dead slots alive without bound.
#[test]
fn flapping_quorum_does_not_keep_dead_session_alive() {
    for failed in 1..=9 {
        let mut leader = ArbiterLeader::new(4);
        let (alive, dead) = (leader.open_session(1), leader.open_session(2));
        leader.run_until(1_000, &[alive, dead]);
        let died = leader.now_ms;
        let mut commands = Vec::new();
        while commands.is_empty() {
            for _ in 0..failed {
                leader.now_ms += 125;
                assert_eq!(leader.tick_with(false, Some(1)).commands, []);
            }
            leader.now_ms += 125;
            leader.renew(alive).unwrap();
            commands = leader.tick().commands;
            assert!(
                leader.now_ms <= died + 3 * TAKEOVER_WAIT_MS,
                "no expiry with {failed} failed rounds between two good ones"
            );
        }
        assert_eq!(commands, expire_commands(dead, 1));
        assert!(leader.arbiter.counters().timer_resets <= 2);
    }
}

/// Schedule: late ticks and a regained quorum alternate. If each cause had a bound of its own, each
/// could restart the timers that the other one had started, and they would never run out.
#[test]
fn late_ticks_and_flapping_quorum_share_one_restart_bound() {
    let mut leader = ArbiterLeader::new(4);
    let dead = leader.open_session(1);
    leader.run_until(1_000, &[dead]);
    let died = leader.now_ms;
    let mut commands = Vec::new();
    while commands.is_empty() {
        leader.now_ms += 600;
        commands = leader.tick().commands;
        leader.now_ms += 125;
        leader.tick_with(false, Some(1));
        leader.now_ms += 400;
        leader.tick_with(false, Some(1));
        leader.now_ms += 125;
        if commands.is_empty() {
            commands = leader.tick().commands;
        }
        assert!(leader.now_ms <= died + 4 * TAKEOVER_WAIT_MS, "no expiry");
    }
    assert_eq!(commands, expire_commands(dead, 1));
}

/// A quorum lost for no longer than D/4 costs a renewal one attempt: that is no reason to restart.
#[test]
fn short_quorum_loss_restarts_no_timers() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(1_000, &[a]);
    leader.now_ms += 125;
    leader.tick_with(false, Some(1));
    leader.now_ms += 125;
    assert_eq!(leader.tick().timer_restart, None);
    assert!(leader.tick_until(1_000 + TAKEOVER_WAIT_MS - 1).is_empty());
    assert_eq!(
        leader.tick_until(1_000 + TAKEOVER_WAIT_MS),
        expire_commands(a, 1)
    );
}

/// Schedule: a tick is late while the quorum is lost. It must not use up the restart that the
/// sessions need once the quorum is back: nothing was expired during that time, and no session
/// could renew.
#[test]
fn late_tick_without_quorum_uses_up_no_restart() {
    let mut leader = ArbiterLeader::new(4);
    let a = leader.open_session(1);
    leader.run_until(1_000, &[a]);
    for gap in [600, 125, 600, 125, 600] {
        leader.now_ms += gap;
        assert_eq!(leader.tick_with(false, Some(1)), ArbiterActions::default());
    }
    leader.now_ms += 125;
    let actions = leader.tick();
    assert_eq!(actions.timer_restart, Some(TimerRestart::QuorumRegained));
    assert_eq!(actions.commands, []);
    assert_eq!(leader.arbiter.counters().late_ticks, 3);
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

#[test]
fn first_assignment_waits_for_more_allocs() {
    let mut leader = ArbiterLeader::new(64);
    let a = leader.open_session(1);
    leader.tick();
    leader.renew(a).unwrap();
    assert!(leader.tick().commands.is_empty());
    leader.now_ms = 300;
    let b = leader.open_session(2);
    leader.renew(b).unwrap();
    assert!(leader.tick().commands.is_empty());
    leader.run_until(500, &[a, b]);
    assert_eq!(leader.slots_by_session(), HashMap::from([(a, 32), (b, 32)]));
}

#[test]
fn slots_of_dead_session_go_to_others_and_no_owned_slot_moves() {
    let mut leader = ArbiterLeader::new(90);
    let all = [1, 2, 3].map(|n| leader.open_session(n));
    leader.run_until(1_000, &all);
    assert!(leader.slots_by_session().values().all(|n| *n == 30));
    let before = leader.state.slots().to_vec();
    leader.run_until(1_000 + TAKEOVER_WAIT_MS + 125, &all[1..]);
    assert_eq!(
        leader.slots_by_session(),
        HashMap::from([(all[1], 45), (all[2], 45)])
    );
    for (old, new) in before.iter().zip(leader.state.slots()) {
        assert!(
            old.owner == Some(all[0]) || old == new,
            "an owned slot moved"
        );
    }
    // A session that opens late receives nothing: owned slots are not moved here.
    let late = leader.open_session(4);
    let alive = [all[1], all[2], late];
    leader.run_until(5_000, &alive);
    assert_eq!(leader.slots_by_session().get(&late), None);
}

#[test]
fn session_not_renewed_within_d_gets_no_slots() {
    let mut leader = ArbiterLeader::new(8);
    let (a, b) = (leader.open_session(1), leader.open_session(2));
    leader.tick();
    leader.renew(b).unwrap();
    leader.run_until(LEASE.as_millis() as u64, &[a]);
    assert_eq!(leader.slots_by_session(), HashMap::from([(a, 4), (b, 4)]));
    // b is silent for D, not yet for W; slots become free.
    leader.apply(Command::CloseSession {
        session: a,
        high_water_marks: Vec::new(),
        last: true,
    });
    leader.now_ms += 1;
    assert!(leader.tick().commands.is_empty());
}
