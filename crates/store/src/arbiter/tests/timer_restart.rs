//! Timer restarts: late ticks and lost quorums neither expire a session early nor keep it alive.

use super::*;

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
