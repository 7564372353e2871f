//! Slot commands: which session owns a slot, at which epoch.
//!
//! Invariant: an epoch grows with every change of owner. So (slot, epoch) names one session
//! permanently, and the epoch alone refuses every later command of a deposed owner.

use std::collections::BTreeSet;

use super::apply::Outcome;
use super::{RowKey, State};
use crate::command::{FINALS_MAX, Final, Refusal, Reply};
use crate::id::{Epoch, SessionId, Slot};

impl State {
    pub(super) fn assign(
        &mut self,
        slot: Slot,
        from: Epoch,
        to: SessionId,
        touched: &mut BTreeSet<RowKey>,
    ) -> Outcome {
        if !self.sessions.contains_key(&to) {
            return Err(Refusal::NoSuchSession(to));
        }
        let row = self.slot_row(slot)?;
        let free = row
            .owner
            .is_none_or(|owner| !self.sessions.contains_key(&owner));
        if row.epoch != from || !free {
            return Err(Refusal::NotOwner {
                slot,
                epoch: row.epoch,
                owner: row.owner,
            });
        }
        Ok(self.give(slot, Some(to), touched))
    }

    pub(super) fn move_slot(
        &mut self,
        slot: Slot,
        epoch: Epoch,
        finals: &[Final],
        to: Option<SessionId>,
        touched: &mut BTreeSet<RowKey>,
    ) -> Outcome {
        if finals.len() > FINALS_MAX {
            return Err(Refusal::Invalid(format!(
                "a move carries at most {FINALS_MAX} finals"
            )));
        }
        let row = self.slot_row(slot)?;
        if row.epoch != epoch || row.owner.is_none() {
            return Err(Refusal::NotOwner {
                slot,
                epoch: row.epoch,
                owner: row.owner,
            });
        }
        for last in finals {
            self.apply_final(slot, last, touched);
        }
        let to = to.filter(|id| self.sessions.contains_key(id));
        Ok(self.give(slot, to, touched))
    }

    /// Gives the slot away under the next epoch.
    pub(super) fn give(
        &mut self,
        slot: Slot,
        to: Option<SessionId>,
        touched: &mut BTreeSet<RowKey>,
    ) -> Reply {
        let version = self.bump_version(touched);
        let row = &mut self.slots[usize::from(slot.0)];
        row.epoch = Epoch(row.epoch.0 + 1);
        row.owner = to;
        row.version = version;
        touched.insert(RowKey::Slot(slot));
        Reply::Slot {
            epoch: row.epoch,
            owner: to,
        }
    }

    pub(super) fn slot_row(&self, slot: Slot) -> Result<&super::SlotRow, Refusal> {
        self.slots
            .get(usize::from(slot.0))
            .ok_or_else(|| Refusal::Invalid(format!("there is no slot {slot}")))
    }
}
