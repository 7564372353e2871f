//! Assignment of free slots to living sessions.

use super::*;

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
