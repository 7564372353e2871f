//! The distribution, and random histories of leaders, pauses and lost proposals.

use proptest::prelude::*;

use super::*;

proptest! {
    /// Owned slots stay, free slots go to living sessions, and the counts end as even as they can.
    #[test]
    fn assignment_is_even_and_moves_no_owned_slot(
        owners in prop::collection::vec(prop::option::of(1u64..6), 0..300),
        alive in prop::collection::btree_set(1u64..9, 0..6),
    ) {
        let owners: Vec<_> = owners.into_iter().map(|o| o.map(SessionId)).collect();
        let alive: Vec<_> = alive.into_iter().map(SessionId).collect();
        let assigned: Vec<_> = assignment::assign_free_slots(&owners, &alive).collect();
        let free = owners.iter().filter(|o| o.is_none()).count();
        prop_assert_eq!(assigned.len(), if alive.is_empty() { 0 } else { free });
        let mut counts: HashMap<_, usize> = alive.iter().map(|id| (*id, 0)).collect();
        let mut gained: HashMap<_, usize> = HashMap::new();
        for owner in owners.iter().flatten() {
            counts.entry(*owner).and_modify(|n| *n += 1);
        }
        for (slot, to) in &assigned {
            prop_assert!(owners[usize::from(slot.0)].is_none(), "an owned slot was assigned");
            *counts.get_mut(to).unwrap() += 1;
            *gained.entry(*to).or_default() += 1;
        }
        // No session that gained has two slots more than any other.
        for id in gained.keys() {
            prop_assert!(counts.values().all(|n| *n + 1 >= counts[id]));
        }
    }

    /// Random histories with any terms, pauses and lost proposals: a real expiry comes only W after
    /// the last grant by any leader, in real time.
    #[test]
    fn session_ends_only_after_its_lease(
        steps in prop::collection::vec((0u8..10, 1u64..900, any::<bool>()), 1..400),
    ) {
        // Three arbiters share one committed state; `lease_ends_ms` is when each session's last
        // lease ends, counted from before the session sent its request.
        let mut leader = ArbiterLeader::new(16);
        let mut arbiters: Vec<Arbiter> = (0..3).map(|_| Arbiter::default()).collect();
        let mut leader_index = 0;
        let mut lease_ends_ms: HashMap<SessionId, u64> = HashMap::new();
        let mut next_name = 0;
        for (event, dt, coin) in steps {
            match event {
                0 => {
                    // Another node is elected; after that only it can confirm.
                    leader_index = (leader_index + 1) % 3;
                    leader.term += 1;
                }
                1 => {
                    next_name += 1;
                    leader.open_session(next_name);
                }
                2..=4 => {
                    let ids: Vec<_> = leader.state.sessions().map(|(id, _)| id).collect();
                    let t0 = leader.now_ms;
                    leader.now_ms += dt % 40;
                    if let Some(id) = ids.get(dt as usize % ids.len().max(1)) {
                        let now = reading_at(leader.now_ms);
                        let (term, state) = (leader.term, &leader.state);
                        let renewed = arbiters[leader_index]
                            .stamp_renewal(*id, term, now, Some(term), state, false);
                        if renewed.is_ok() {
                            lease_ends_ms.insert(*id, t0 + LEASE.as_millis() as u64);
                        }
                    }
                }
                _ => {
                    leader.now_ms += if coin { dt } else { dt % 150 };
                    let now = reading_at(leader.now_ms);
                    let actions = arbiters[leader_index].tick(TickInput {
                        started: now,
                        now,
                        interval: TICK_INTERVAL,
                        leading_term: Some(leader.term),
                        has_quorum: event != 5,
                        state: &leader.state,
                    });
                    // The commands are committed now, or lost.
                    for command in actions.commands.into_iter().filter(|_| coin || event > 7) {
                        if let Command::ExpireSession { session, .. } = &command {
                            let end = lease_ends_ms.get(session).copied().unwrap_or(0);
                            prop_assert!(end <= leader.now_ms, "{session} still holds a lease");
                        }
                        if let Command::Assign { slot, from, .. } = &command {
                            let row = &leader.state.slots()[usize::from(slot.0)];
                            prop_assert!(row.owner.is_none() && row.epoch == *from);
                        }
                        leader.apply(command);
                    }
                }
            }
        }
    }
}
