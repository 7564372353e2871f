//! Slots that are stopped for a move: nothing of them is opened again, what goes on with their
//! sections is waited for, and what they hold is taken out. `moves.rs` says in which order, and
//! why.
//!
//! Invariant: all of it is looked at and changed under the lock under which objects are published.

use std::collections::BTreeSet;
use std::sync::Arc;

use seqsvr_core::id::{Epoch, NamespaceId, SectionId, SectionKey, Slot};
use seqsvr_core::planted;
use seqsvr_proto::v1::SectionFinal;

use crate::loaded::LoadedSection;
use crate::sections::{SectionMap, outcome};

/// Most closes remembered whose answer never came; one forgotten costs a gap.
const UNSURE_MAX: usize = 100_000;

impl SectionMap {
    /// Stops a slot at an epoch: from here on nothing of it is opened at it. False if it is stopped
    /// already.
    pub(crate) fn stop(&self, slot: Slot, epoch: Epoch) -> bool {
        let mut busy = self.busy.lock();
        if busy.stopped.get(&slot).is_some_and(|at| *at >= epoch) {
            return false;
        }
        busy.stopped.insert(slot, epoch);
        true
    }

    /// Whether a slot is stopped at this epoch.
    pub(crate) fn is_stopped(&self, slot: Slot, epoch: Epoch) -> bool {
        let busy = self.busy.lock();
        let is_stopped = busy.stopped.get(&slot).is_some_and(|at| *at >= epoch);
        is_stopped && !planted!(ServeStoppedSlots)
    }

    /// Waits until no section of the slot is being opened or closed.
    pub(crate) async fn quiet(&self, slot: Slot) {
        let going_on: Vec<_> = {
            let busy = self.busy.lock();
            let here = busy.going_on.values().filter(|(at, _)| *at == slot);
            here.map(|(_, going_on)| going_on.clone()).collect()
        };
        for one in going_on {
            // Whatever became of it, it is over.
            let _ = outcome(one).await;
        }
    }

    /// Waits until no section at all is being opened or closed.
    pub(crate) async fn all_quiet(&self) {
        let slots: BTreeSet<Slot> = {
            let busy = self.busy.lock();
            busy.going_on.values().map(|(slot, _)| *slot).collect()
        };
        for slot in slots {
            self.quiet(slot).await;
        }
    }

    /// Seals and takes out every object of a stopped slot.
    pub(crate) fn retire_slot(&self, slot: Slot, epoch: Epoch) -> Vec<Arc<LoadedSection>> {
        let lock = self.busy.lock();
        let mut all = self.all();
        all.retain(|l| l.fence.slot == slot && l.fence.epoch == epoch);
        for loaded in &all {
            self.remove(loaded);
        }
        drop(lock);
        self.caches.forget(&all);
        all
    }

    /// Finals of a slot's closes that are not known to be applied.
    pub(crate) fn unsure(&self, slot: Slot, epoch: Epoch) -> Vec<SectionFinal> {
        if planted!(ForgetUnsureFinals) {
            return Vec::new();
        }
        let busy = self.busy.lock();
        let fenced = (u32::from(slot.0), epoch.0);
        let here = busy.unsure.values().filter(|last| {
            let fence = last.fence.unwrap_or_default();
            (fence.slot, fence.epoch) == fenced
        });
        here.cloned().collect()
    }

    /// The same of all slots.
    pub(crate) fn all_unsure(&self) -> Vec<SectionFinal> {
        self.busy.lock().unsure.values().cloned().collect()
    }

    /// Remembers the finals of a slot that moves, until the move shows in a table.
    pub(crate) fn note_finals(&self, finals: &[SectionFinal]) {
        for last in finals {
            let fence = last.fence.unwrap_or_default();
            let section = SectionKey {
                namespace: NamespaceId(fence.namespace),
                section: SectionId(fence.section),
            };
            self.note_unsure(section, *last);
        }
    }

    /// Remembers a close whose answer never came.
    pub(crate) fn note_unsure(&self, section: SectionKey, last: SectionFinal) {
        let mut busy = self.busy.lock();
        if busy.unsure.len() < UNSURE_MAX {
            busy.unsure.insert(section, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use seqsvr_core::command::Fence;
    use seqsvr_core::id::{ClusterId, SessionId};
    use seqsvr_core::route::{Delta, Route, RoutingTable};
    use seqsvr_core::section::{Open, Section};

    use super::*;
    use crate::session::LeasedSession;

    const SECTION: SectionKey = SectionKey {
        namespace: NamespaceId(1),
        section: SectionId(0),
    };

    fn fence(epoch: u64) -> Fence {
        Fence {
            slot: Slot(0),
            epoch: Epoch(epoch),
            section: SECTION,
        }
    }

    fn loaded(epoch: u64, session: &Arc<LeasedSession>) -> LoadedSection {
        let open = Open {
            generation: epoch,
            base: 0,
            max_seq: 10,
            first: Some(1),
            stride: 1,
        };
        LoadedSection::new(fence(epoch), session.clone(), Section::dense(open, 10), 10)
    }

    fn table(epoch: u64) -> RoutingTable {
        let route = Route {
            epoch: Epoch(epoch),
            owner: None,
            version: epoch,
        };
        RoutingTable::new(Delta {
            cluster: ClusterId(1),
            base: 0,
            version: epoch,
            slot_count: 1,
            namespaces: Vec::new(),
            routes: vec![(Slot(0), route)],
        })
        .unwrap()
    }

    fn final_of(epoch: u64) -> SectionFinal {
        SectionFinal {
            fence: Some(fence(epoch).into()),
            generation: epoch,
            value: 3,
        }
    }

    /// Two learn tables at one time; the one with the older is held up until the slot has come back
    /// and its section is opened. Sealed without a close, it would skip its window.
    #[test]
    fn an_older_table_seals_nothing_of_a_later_epoch() {
        let (sections, session) = (
            SectionMap::new([1, 2]),
            Arc::new(LeasedSession::new(SessionId(1))),
        );
        sections.publish(loaded(5, &session));
        sections.note_finals(&[final_of(5)]);
        sections.drop_stale(&table(4));
        assert!(!sections.get(SECTION).unwrap().section.is_sealed());
        assert_eq!(sections.unsure(Slot(0), Epoch(5)).len(), 1);
        sections.drop_stale(&table(6));
        assert!(sections.get(SECTION).is_none());
        assert_eq!(sections.unsure(Slot(0), Epoch(5)), []);
    }

    /// What an Open after a close names, so that a late duplicate of an earlier one begins nothing.
    #[test]
    fn the_last_generation_is_known_after_a_close_at_its_epoch_alone() {
        let (sections, session) = (
            SectionMap::new([1, 2]),
            Arc::new(LeasedSession::new(SessionId(1))),
        );
        assert_eq!(sections.last_generation(fence(5)), None);
        sections.note_generation(fence(5), 7);
        assert_eq!(sections.last_generation(fence(5)), Some(7));
        assert_eq!(sections.last_generation(fence(6)), None);
        sections.publish(loaded(5, &session));
        assert_eq!(sections.last_generation(fence(5)), None, "it is loaded");
    }

    /// The end of a session may overtake a move under way: what the move took out of the map goes
    /// along with the end as well.
    #[test]
    fn the_finals_of_a_move_under_way_are_found_by_the_end_of_the_session() {
        let (sections, session) = (
            SectionMap::new([1, 2]),
            Arc::new(LeasedSession::new(SessionId(1))),
        );
        sections.publish(loaded(5, &session));
        assert!(sections.stop(Slot(0), Epoch(5)));
        assert!(!sections.stop(Slot(0), Epoch(5)), "stopped twice");
        let taken = sections.retire_slot(Slot(0), Epoch(5));
        assert_eq!(taken.len(), 1);
        sections.note_finals(&[final_of(5)]);
        assert!(sections.end_session(&session).is_empty());
        assert_eq!(sections.all_unsure(), [final_of(5)]);
        // The mark holds until a later epoch shows.
        sections.drop_stale(&table(5));
        assert!(sections.is_stopped(Slot(0), Epoch(5)));
        sections.drop_stale(&table(6));
        assert!(!sections.is_stopped(Slot(0), Epoch(5)));
    }
}
