//! Slots that are stopped for a move: nothing of them is opened again, what goes on with their sections
//! is waited for, and what they hold is taken out. `moves.rs` says in which order, and why.
//!
//! Invariant: all of it is looked at and changed under the lock under which objects are published.

use std::collections::BTreeSet;
use std::sync::Arc;

use seqsvr_core::id::{Epoch, SectionKey, Slot};
use seqsvr_proto::v1::SectionFinal;

use crate::loaded::Loaded;
use crate::sections::{Sections, outcome};

/// Most closes remembered whose answer never came; one forgotten costs a gap.
const UNSURE_MAX: usize = 10_000;

impl Sections {
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
        busy.stopped.get(&slot).is_some_and(|at| *at >= epoch)
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
    pub(crate) fn retire_slot(&self, slot: Slot, epoch: Epoch) -> Vec<Arc<Loaded>> {
        let _lock = self.busy.lock();
        let mut all = self.all();
        all.retain(|l| l.fence.slot == slot && l.fence.epoch == epoch);
        for loaded in &all {
            self.remove(loaded);
        }
        all
    }

    /// Finals of a slot's closes that are not known to be applied.
    pub(crate) fn unsure(&self, slot: Slot, epoch: Epoch) -> Vec<SectionFinal> {
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

    /// Remembers a close whose answer never came.
    pub(crate) fn note_unsure(&self, section: SectionKey, last: SectionFinal) {
        let mut busy = self.busy.lock();
        if busy.unsure.len() < UNSURE_MAX {
            busy.unsure.insert(section, last);
        }
    }
}
