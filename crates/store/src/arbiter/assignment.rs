//! Assignment of free slots to living sessions.
//!
//! Invariant: only free slots are given, and each goes to the session that then has the fewest. So
//! the counts end as even as they can without moving an owned slot (least movement: none).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use seqsvr_core::ids::{SessionId, Slot};

/// Pairs every free slot (`owners[slot]` is None) with one of the living sessions; returns nothing
/// if there is none.
pub(super) fn assign_free_slots(
    owners: &[Option<SessionId>],
    alive: &[SessionId],
) -> impl Iterator<Item = (Slot, SessionId)> {
    let mut counts: HashMap<SessionId, usize> = alive.iter().map(|id| (*id, 0)).collect();
    for owner in owners.iter().flatten() {
        if let Some(count) = counts.get_mut(owner) {
            *count += 1;
        }
    }
    let mut least_loaded: BinaryHeap<_> =
        counts.into_iter().map(|(id, n)| Reverse((n, id))).collect();
    let free = owners.iter().enumerate().filter(|(_, o)| o.is_none());
    let free: Vec<Slot> = free.map(|(i, _)| Slot(i as u16)).collect();
    free.into_iter().map_while(move |slot| {
        let Reverse((count, session)) = least_loaded.pop()?;
        least_loaded.push(Reverse((count + 1, session)));
        Some((slot, session))
    })
}
