//! Slot commands: which session owns a slot, at which epoch.
//!
//! Invariant: an epoch grows with every change of owner. So (slot, epoch) names one session
//! permanently, and the epoch alone rejects every later command of a deposed owner.

use std::collections::BTreeSet;

use super::apply::CommandOutcome;
use super::{RowKey, State};
use crate::command::{CommandRejection, HIGH_WATER_MARKS_MAX, HighWaterMark, Reply};
use crate::ids::{Epoch, SessionId, Slot};

impl State {
    pub(super) fn assign(
        &mut self,
        slot: Slot,
        from: Epoch,
        to: SessionId,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        if !self.sessions.contains_key(&to) {
            return Err(CommandRejection::SessionNotFound(to));
        }
        let row = self.slot_row(slot)?;
        let free = row
            .owner
            .is_none_or(|owner| !self.sessions.contains_key(&owner));
        if row.epoch != from || !free {
            return Err(CommandRejection::NotOwner {
                slot,
                epoch: row.epoch,
                owner: row.owner,
            });
        }
        Ok(self.give_slot(slot, Some(to), touched))
    }

    pub(super) fn move_slot(
        &mut self,
        slot: Slot,
        epoch: Epoch,
        high_water_marks: &[HighWaterMark],
        to: Option<SessionId>,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        if high_water_marks.len() > HIGH_WATER_MARKS_MAX {
            return Err(CommandRejection::Invalid(format!(
                "a move carries at most {HIGH_WATER_MARKS_MAX} high-water marks"
            )));
        }
        let row = self.slot_row(slot)?;
        if row.epoch != epoch || row.owner.is_none() {
            return Err(CommandRejection::NotOwner {
                slot,
                epoch: row.epoch,
                owner: row.owner,
            });
        }
        for last in high_water_marks {
            self.apply_high_water_mark(slot, last, touched);
        }
        let to = to.filter(|id| self.sessions.contains_key(id));
        Ok(self.give_slot(slot, to, touched))
    }

    /// Gives the slot away under the next epoch.
    pub(super) fn give_slot(
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

    pub(super) fn slot_row(&self, slot: Slot) -> Result<&super::SlotRow, CommandRejection> {
        self.slots
            .get(usize::from(slot.0))
            .ok_or_else(|| CommandRejection::Invalid(format!("there is no slot {slot}")))
    }
}
