//! Families and workers of a restored cluster, see `state/restore.rs`.
//!
//! Invariant: in a restored cluster no family grants a tick before `ids_from_ms`, also none that is
//! created after the restore. Schedule that breaks it: a family is created after the backup, and
//! its workers are granted ticks by clocks that are 45 s ahead. It is not in the backup. An
//! operator creates it again, by the same settings, in the restored cluster, where worker 0 begins
//! at store time: below what worker 0 was granted.

use super::super::restore::{RestoreError, RestoreMargin, RestoreMargins};
use super::super::{FamilyRow, FormatRow, State, TimeRow, WorkerRow};
use super::FAMILIES_LEVEL;
use crate::family::FamilySpec;
use crate::ids::{WorkerEpoch, WorkerId, WorkerKey};

/// Time by which a holder may have been granted ticks after the last reading that a backup holds.
const READING_AGE_MS: u64 = 1_000;

impl State {
    /// Returns the least moment after all ticks that can have been granted when the state was
    /// backed up; None: there are no families.
    pub fn least_ids_from_ms(&self) -> Option<u64> {
        let limits = self.families().map(|row| row.family.limits);
        let reach =
            limits.map(|limits| u64::from(limits.window_max_ms) + u64::from(limits.ahead_ms));
        let reach = reach.max()?.saturating_add(READING_AGE_MS);
        Some(self.store_time().high_ms.saturating_add(reach))
    }

    /// Gives `new` the families and workers of this state, lifted by the margins. No worker is
    /// held. The caller has checked the margins.
    pub(in crate::state) fn restore_families(
        &self,
        new: &mut State,
        margins: &RestoreMargins,
    ) -> Result<(), RestoreError> {
        if let Some(ids_from_ms) = margins.ids_from_ms {
            let time = self.store_time();
            new.time = Some(TimeRow {
                families_from_ms: time.families_from_ms.max(ids_from_ms),
                ..time
            });
            // The level of the row. Families may have been created once the old cluster had it.
            let format = new.format.get_or_insert(FormatRow {
                level: FAMILIES_LEVEL,
                next_store: 1,
            });
            format.level = format.level.max(FAMILIES_LEVEL);
        }
        let table_version = new.table_version();
        for row in self.families() {
            let (spec, id) = (&row.family.spec, row.family.id);
            let floor = new.restored_floor(spec);
            let mut lifted = FamilyRow {
                floor: row.floor.max(floor),
                epoch_floor: lift_epoch(row.epoch_floor, margins.epoch)?,
                ..row.clone()
            };
            lifted.family.version = table_version;
            new.families.insert(id, lifted);
            // A number that is never granted again needs no row.
            let workers = self.workers(id, WorkerId(0));
            let workers = workers.filter(|_| !spec.reuse_never);
            for (worker, row) in workers {
                let key = WorkerKey { family: id, worker };
                new.workers
                    .insert(key, lift_worker(row, floor, margins.epoch)?);
            }
        }
        Ok(())
    }

    /// Returns the first tick that a family may grant in a restored cluster; 0 in another one.
    pub(super) fn restored_floor(&self, spec: &FamilySpec) -> u64 {
        let from_ms = self.store_time().families_from_ms;
        spec.scale.first_tick_from(from_ms).min(spec.end_tick())
    }
}

/// Returns the worker free, under an epoch that was never used.
fn lift_worker(worker: &WorkerRow, floor: u64, margin: u64) -> Result<WorkerRow, RestoreError> {
    let untils = worker.untils.iter().map(|until| (*until).max(floor));
    Ok(WorkerRow {
        epoch: lift_epoch(worker.epoch, margin)?,
        is_held: false,
        untils: untils.collect(),
        ..worker.clone()
    })
}

/// Returns an epoch above all that the old cluster reached from this one.
fn lift_epoch(epoch: WorkerEpoch, margin: u64) -> Result<WorkerEpoch, RestoreError> {
    let lifted = epoch.0.checked_add(margin + 1);
    Ok(WorkerEpoch(
        lifted.ok_or(RestoreError::TooLarge(RestoreMargin::Epoch))?,
    ))
}
