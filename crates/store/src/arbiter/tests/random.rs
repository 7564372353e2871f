//! The distribution, and random histories of leaders, pauses and lost proposals.

use proptest::prelude::*;

use super::*;

proptest! {
    /// Owned slots stay, free slots go to living sessions, and the counts end as even as they can.
    #[test]
    fn spread_is_even_and_moves_nothing(
        owners in prop::collection::vec(prop::option::of(1u64..6), 0..300),
        alive in prop::collection::btree_set(1u64..9, 0..6),
    ) {
        let owners: Vec<_> = owners.into_iter().map(|o| o.map(SessionId)).collect();
        let alive: Vec<_> = alive.into_iter().map(SessionId).collect();
        let given: Vec<_> = spread::free_slots(&owners, &alive).collect();
        let free = owners.iter().filter(|o| o.is_none()).count();
        prop_assert_eq!(given.len(), if alive.is_empty() { 0 } else { free });
        let mut counts: HashMap<_, usize> = alive.iter().map(|id| (*id, 0)).collect();
        let mut gained: HashMap<_, usize> = HashMap::new();
        for owner in owners.iter().flatten() {
            counts.entry(*owner).and_modify(|n| *n += 1);
        }
        for (slot, to) in &given {
            prop_assert!(owners[usize::from(slot.0)].is_none(), "an owned slot was given");
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
    fn no_lease_is_alive_when_its_session_ends(
        steps in prop::collection::vec((0u8..10, 1u64..900, any::<bool>()), 1..400),
    ) {
        // Three arbiters share one committed state; `granted` is when each session's last lease
        // ends, counted from before the session sent its request.
        let mut leader = Leader::new(16);
        let mut arbiters: Vec<Arbiter> = (0..3).map(|_| Arbiter::default()).collect();
        let mut who = 0;
        let mut granted: HashMap<SessionId, u64> = HashMap::new();
        let mut names = 0;
        for (what, dt, coin) in steps {
            match what {
                0 => {
                    // Another node is elected; after that only it can confirm.
                    who = (who + 1) % 3;
                    leader.term += 1;
                }
                1 => {
                    names += 1;
                    leader.open(names);
                }
                2..=4 => {
                    let ids: Vec<_> = leader.state.sessions().map(|(id, _)| id).collect();
                    let t0 = leader.now_ms;
                    leader.now_ms += dt % 40;
                    if let Some(id) = ids.get(dt as usize % ids.len().max(1)) {
                        let now = at(leader.now_ms);
                        let renewed = arbiters[who]
                            .renew(*id, leader.term, now, Some(leader.term), &leader.state, false);
                        if renewed.is_ok() {
                            granted.insert(*id, t0 + D.as_millis() as u64);
                        }
                    }
                }
                _ => {
                    leader.now_ms += if coin { dt } else { dt % 150 };
                    let now = at(leader.now_ms);
                    let wanted = arbiters[who].tick(Tick {
                        begun: now,
                        now,
                        interval: TICK,
                        lead: Some(leader.term),
                        quorum: what != 5,
                        state: &leader.state,
                    });
                    // The commands are committed now, or lost.
                    for command in wanted.commands.into_iter().filter(|_| coin || what > 7) {
                        if let Command::ExpireSession { session, .. } = &command {
                            let end = granted.get(session).copied().unwrap_or(0);
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
