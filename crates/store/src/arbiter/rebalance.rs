//! Moves of owned slots: all slots of sessions that drain, and as many as even out the others after
//! a session opened.
//!
//! Invariants: the moves are a pure function of the owners of slots and of the living sessions, so
//! the same state gives the same moves and repeated advice overshoots nothing. No move leaves its
//! taker with more slots than its giver keeps, so that evening out comes to an end.

use std::collections::{BTreeMap, BTreeSet};

use seqsvr_core::ids::{SessionId, Slot};

/// A slot that should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotMove {
    /// The slot.
    pub slot: Slot,
    /// Its owner.
    pub from: SessionId,
    /// The session that should own it.
    pub to: SessionId,
}

/// Returns the moves. `owners[slot]` is the present owner; `takers` are the living sessions that
/// take slots, with whether they have lived long enough to receive some only to even out.
pub(super) fn plan_moves(
    owners: &[Option<SessionId>],
    takers: &BTreeMap<SessionId, bool>,
    draining: &BTreeSet<SessionId>,
) -> Vec<SlotMove> {
    let mut slots: BTreeMap<SessionId, Vec<Slot>> =
        takers.keys().map(|id| (*id, Vec::new())).collect();
    let mut leaving: Vec<(Slot, SessionId)> = Vec::new();
    for (slot, owner) in (0..).map(Slot).zip(owners) {
        let Some(owner) = owner else { continue };
        if draining.contains(owner) {
            leaving.push((slot, *owner));
        } else if let Some(list) = slots.get_mut(owner) {
            list.push(slot);
        }
    }
    let mut counts: BTreeMap<SessionId, usize> =
        slots.iter().map(|(id, list)| (*id, list.len())).collect();
    let mut moves = Vec::new();
    for (slot, from) in leaving {
        let Some(to) = least_loaded(&counts) else {
            break;
        };
        *counts.entry(to).or_default() += 1;
        moves.push(SlotMove { slot, from, to });
    }
    // A few slots that an operator moved by hand stay where they are: a taker is filled up to
    // 15/16 of an even share only.
    let total: usize = counts.values().sum();
    let share_limit = (total * 15 / (16 * counts.len().max(1))).max(1);
    let settled = |(id, _): &(&SessionId, &usize)| takers.get(id) == Some(&true);
    loop {
        let poorest = counts.iter().filter(settled).min_by_key(|(_, n)| **n);
        let richest = slots
            .iter()
            .max_by_key(|(id, list)| (list.len(), counts[id]));
        let (Some((to, poor)), Some((from, list))) = (poorest, richest) else {
            break;
        };
        let (to, from) = (*to, *from);
        if *poor >= share_limit || list.len() <= poor + 1 {
            break;
        }
        let Some(slot) = slots.get_mut(&from).and_then(Vec::pop) else {
            break;
        };
        *counts.entry(to).or_default() += 1;
        *counts.entry(from).or_default() -= 1;
        moves.push(SlotMove { slot, from, to });
    }
    moves
}

fn least_loaded(counts: &BTreeMap<SessionId, usize>) -> Option<SessionId> {
    counts.iter().min_by_key(|(_, n)| **n).map(|(id, _)| *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot_owners(counts: &[(u64, usize)]) -> Vec<Option<SessionId>> {
        let each = counts.iter().map(|(id, n)| vec![Some(SessionId(*id)); *n]);
        each.collect::<Vec<_>>().concat()
    }

    fn session_ids(ids: &[u64]) -> BTreeSet<SessionId> {
        ids.iter().map(|id| SessionId(*id)).collect()
    }

    fn settled_takers(all: &[u64]) -> BTreeMap<SessionId, bool> {
        session_ids(all).into_iter().map(|id| (id, true)).collect()
    }

    /// Applies moves one at a time in any order the owners make them; returns the slots by session.
    fn apply_moves(owners: &[Option<SessionId>], moves: &[SlotMove]) -> BTreeMap<u64, usize> {
        let mut owners = owners.to_vec();
        for m in moves {
            let owner = &mut owners[usize::from(m.slot.0)];
            assert_eq!(*owner, Some(m.from), "moved twice or not its own");
            *owner = Some(m.to);
        }
        let mut counts = BTreeMap::new();
        for owner in owners.into_iter().flatten() {
            *counts.entry(owner.0).or_default() += 1;
        }
        counts
    }

    #[test]
    fn new_session_receives_its_share_and_no_more() {
        let now = slot_owners(&[(1, 512), (2, 512)]);
        let moves = plan_moves(&now, &settled_takers(&[1, 2, 3]), &session_ids(&[]));
        let counts = apply_moves(&now, &moves);
        assert_eq!(counts[&3], 1024 * 15 / 48);
        assert!(counts[&1].abs_diff(counts[&2]) <= 1, "{counts:?}");
    }

    /// The advice repeats moves under way, and does not repeat finished ones. The end is the same
    /// for every part of the advice that was followed before the next request for it.
    #[test]
    fn repeated_plan_overshoots_nothing() {
        let mut now = slot_owners(&[(1, 700), (2, 324)]);
        let takers = settled_takers(&[1, 2, 3]);
        let mut made = 0;
        loop {
            let planned = plan_moves(&now, &takers, &session_ids(&[]));
            if planned.is_empty() {
                break;
            }
            for m in planned.iter().take(16).step_by(2) {
                now[usize::from(m.slot.0)] = Some(m.to);
                made += 1;
            }
            assert!(made < 2_000, "evening out does not end");
        }
        let counts = apply_moves(&now, &[]);
        assert!(counts.values().all(|n| *n >= 320), "{counts:?}");
        assert!(made <= 400, "{made} moves for {counts:?}");
    }

    #[test]
    fn draining_session_gives_all_slots_evenly_and_gets_none() {
        let now = slot_owners(&[(1, 100), (2, 10), (3, 30)]);
        let moves = plan_moves(&now, &settled_takers(&[2, 3]), &session_ids(&[1]));
        let counts = apply_moves(&now, &moves);
        assert_eq!(counts.get(&1), None);
        assert_eq!((counts[&2], counts[&3]), (70, 70));
    }

    #[test]
    fn few_slots_are_rebalanced_too() {
        let now = slot_owners(&[(1, 2)]);
        let counts = apply_moves(
            &now,
            &plan_moves(&now, &settled_takers(&[1, 2]), &session_ids(&[])),
        );
        assert_eq!((counts[&1], counts[&2]), (1, 1));
        let now = slot_owners(&[(1, 3)]);
        let counts = apply_moves(
            &now,
            &plan_moves(&now, &settled_takers(&[1, 2, 3, 4]), &session_ids(&[])),
        );
        assert_eq!(counts.values().max(), Some(&1), "{counts:?}");
    }

    #[test]
    fn plan_without_taker_or_imbalance_is_empty() {
        let now = slot_owners(&[(1, 64)]);
        assert_eq!(
            plan_moves(&now, &settled_takers(&[]), &session_ids(&[1])),
            []
        );
        assert_eq!(
            plan_moves(&now, &settled_takers(&[1]), &session_ids(&[])),
            []
        );
        // Two moved by hand stay where they are.
        let now = slot_owners(&[(1, 34), (2, 30)]);
        assert_eq!(
            plan_moves(&now, &settled_takers(&[1, 2]), &session_ids(&[])),
            []
        );
        assert_eq!(
            plan_moves(&[None, None], &settled_takers(&[1]), &session_ids(&[])),
            []
        );
    }

    #[test]
    fn unsettled_session_receives_only_drained_slots() {
        let now = slot_owners(&[(1, 64)]);
        let mut takers = settled_takers(&[1]);
        takers.insert(SessionId(2), false);
        assert_eq!(plan_moves(&now, &takers, &session_ids(&[])), []);
        takers.remove(&SessionId(1));
        assert_eq!(plan_moves(&now, &takers, &session_ids(&[1])).len(), 64);
    }
}
