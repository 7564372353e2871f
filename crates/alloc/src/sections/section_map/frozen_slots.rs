//! Slots that are frozen for a move: no section of them is opened again, opens and closes in
//! progress are awaited, and their sections are removed. `slot_mover.rs` states the order and the
//! reasons.
//!
//! Invariant: all of this is read and changed under the lock under which objects are published.

use std::collections::BTreeSet;
use std::sync::Arc;

use seqsvr_core::ids::{Epoch, NamespaceId, SectionId, SectionKey, Slot};
use seqsvr_core::planted;
use seqsvr_proto::v1::SectionHighWaterMark;

use crate::sections::loaded_section::LoadedSection;
use crate::sections::section_map::{SectionMap, wait_for_transition};

/// Maximum closes without an answer that are remembered; above it a close is forgotten, which costs
/// a gap.
const UNCONFIRMED_CLOSES_MAX: usize = 100_000;

impl SectionMap {
    /// Freezes a slot at an epoch: from here on no section of it is opened at that epoch. Returns
    /// false if it is frozen already.
    pub(crate) fn freeze_slot(&self, slot: Slot, epoch: Epoch) -> bool {
        let mut transitions = self.transitions.lock();
        if transitions.frozen.get(&slot).is_some_and(|at| *at >= epoch) {
            return false;
        }
        transitions.frozen.insert(slot, epoch);
        true
    }

    /// Returns whether a slot is frozen at this epoch.
    pub(crate) fn is_frozen(&self, slot: Slot, epoch: Epoch) -> bool {
        let transitions = self.transitions.lock();
        let is_frozen = transitions.frozen.get(&slot).is_some_and(|at| *at >= epoch);
        is_frozen && !planted!(ServeStoppedSlots)
    }

    /// Waits until no section of the slot is being opened or closed.
    pub(crate) async fn wait_until_idle(&self, slot: Slot) {
        let in_progress: Vec<_> = {
            let transitions = self.transitions.lock();
            let of_slot = transitions
                .in_progress
                .values()
                .filter(|(at, _)| *at == slot);
            of_slot
                .map(|(_, in_progress)| in_progress.clone())
                .collect()
        };
        for transition in in_progress {
            // With any result, it has ended.
            let _ = wait_for_transition(transition).await;
        }
    }

    /// Waits until no section of any slot is being opened or closed.
    pub(crate) async fn wait_until_all_idle(&self) {
        let slots: BTreeSet<Slot> = {
            let transitions = self.transitions.lock();
            transitions
                .in_progress
                .values()
                .map(|(slot, _)| *slot)
                .collect()
        };
        for slot in slots {
            self.wait_until_idle(slot).await;
        }
    }

    /// Seals and removes every object of a frozen slot, and returns them.
    pub(crate) fn retire_slot(&self, slot: Slot, epoch: Epoch) -> Vec<Arc<LoadedSection>> {
        let lock = self.transitions.lock();
        let mut all = self.all();
        all.retain(|l| l.fence.slot == slot && l.fence.epoch == epoch);
        for loaded in &all {
            self.remove_locked(loaded);
        }
        drop(lock);
        self.caches.forget(&all);
        all
    }

    /// Returns the high-water marks of a slot's closes that are not known to be applied.
    pub(crate) fn unconfirmed_closes(&self, slot: Slot, epoch: Epoch) -> Vec<SectionHighWaterMark> {
        if planted!(ForgetUnconfirmedMarks) {
            return Vec::new();
        }
        let transitions = self.transitions.lock();
        let fenced = (u32::from(slot.0), epoch.0);
        let of_slot = transitions.unconfirmed_closes.values().filter(|last| {
            let fence = last.fence.unwrap_or_default();
            (fence.slot, fence.epoch) == fenced
        });
        of_slot.cloned().collect()
    }

    /// Returns the unconfirmed closes of all slots.
    pub(crate) fn all_unconfirmed_closes(&self) -> Vec<SectionHighWaterMark> {
        self.transitions
            .lock()
            .unconfirmed_closes
            .values()
            .cloned()
            .collect()
    }

    /// Records the high-water marks of a slot that moves, until the move shows in a table.
    pub(crate) fn record_high_water_marks(&self, high_water_marks: &[SectionHighWaterMark]) {
        for last in high_water_marks {
            let fence = last.fence.unwrap_or_default();
            let section = SectionKey {
                namespace: NamespaceId(fence.namespace),
                section: SectionId(fence.section),
            };
            self.record_unconfirmed_close(section, *last);
        }
    }

    /// Records a close without an answer.
    pub(crate) fn record_unconfirmed_close(&self, section: SectionKey, last: SectionHighWaterMark) {
        let mut transitions = self.transitions.lock();
        if transitions.unconfirmed_closes.len() < UNCONFIRMED_CLOSES_MAX {
            transitions.unconfirmed_closes.insert(section, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use seqsvr_core::command::Fence;
    use seqsvr_core::ids::{ClusterId, SessionId};
    use seqsvr_core::routing_table::{Route, RoutingDelta, RoutingTable};
    use seqsvr_core::section::{Section, SectionGrant};

    use super::*;
    use crate::session::leased_session::LeasedSession;

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
        let open = SectionGrant {
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
        RoutingTable::new(RoutingDelta {
            cluster: ClusterId(1),
            base: 0,
            version: epoch,
            slot_count: 1,
            namespaces: Vec::new(),
            families: Vec::new(),
            routes: vec![(Slot(0), route)],
        })
        .unwrap()
    }

    fn mark_of(epoch: u64) -> SectionHighWaterMark {
        SectionHighWaterMark {
            fence: Some(fence(epoch).into()),
            generation: epoch,
            value: 3,
        }
    }

    /// Schedule: two tasks apply tables at the same time. The one with the older table is delayed
    /// until the slot has come back and its section is opened. If that section were sealed without
    /// a close, it would skip its window.
    #[test]
    fn drop_stale_by_older_table_keeps_later_epoch() {
        let (sections, session) = (
            SectionMap::new([1, 2]),
            Arc::new(LeasedSession::new(SessionId(1))),
        );
        sections.publish(loaded(5, &session));
        sections.record_high_water_marks(&[mark_of(5)]);
        sections.drop_stale(&table(4));
        assert!(!sections.get(SECTION).unwrap().section.is_sealed());
        assert_eq!(sections.unconfirmed_closes(Slot(0), Epoch(5)).len(), 1);
        sections.drop_stale(&table(6));
        assert!(sections.get(SECTION).is_none());
        assert_eq!(sections.unconfirmed_closes(Slot(0), Epoch(5)), []);
    }

    /// The generation is what an Open after a close names, so that a late duplicate of an earlier
    /// Open begins nothing.
    #[test]
    fn last_generation_is_known_after_close_at_same_epoch_only() {
        let (sections, session) = (
            SectionMap::new([1, 2]),
            Arc::new(LeasedSession::new(SessionId(1))),
        );
        assert_eq!(sections.last_generation(fence(5)), None);
        sections.record_generation(fence(5), 7);
        assert_eq!(sections.last_generation(fence(5)), Some(7));
        assert_eq!(sections.last_generation(fence(6)), None);
        sections.publish(loaded(5, &session));
        assert_eq!(sections.last_generation(fence(5)), None, "it is loaded");
    }

    /// Schedule: the end of a session overtakes a move in progress. The close of the session must
    /// carry the high-water marks that the move removed from the map.
    #[test]
    fn high_water_marks_of_move_in_progress_are_in_session_close() {
        let (sections, session) = (
            SectionMap::new([1, 2]),
            Arc::new(LeasedSession::new(SessionId(1))),
        );
        sections.publish(loaded(5, &session));
        assert!(sections.freeze_slot(Slot(0), Epoch(5)));
        assert!(!sections.freeze_slot(Slot(0), Epoch(5)), "stopped twice");
        let taken = sections.retire_slot(Slot(0), Epoch(5));
        assert_eq!(taken.len(), 1);
        sections.record_high_water_marks(&[mark_of(5)]);
        assert!(sections.end_session(&session).is_empty());
        assert_eq!(sections.all_unconfirmed_closes(), [mark_of(5)]);
        // The slot stays frozen until a later epoch shows.
        sections.drop_stale(&table(5));
        assert!(sections.is_frozen(Slot(0), Epoch(5)));
        sections.drop_stale(&table(6));
        assert!(!sections.is_frozen(Slot(0), Epoch(5)));
    }
}
