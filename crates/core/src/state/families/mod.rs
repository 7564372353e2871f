//! Families of ids, their workers, and store time.
//!
//! Invariant: what a family's ids mean never changes, and its floor never falls. A grant that an
//! old floor allowed is not extended once the floor is above its beginning.
//!
//! Schedule that breaks it: a cluster takes over from another generator of the same layout, whose
//! ids reach an hour into the future. The floor is raised above them, but a holder that acquired
//! its worker before continues to renew, and makes ids that exist.

mod restored_ids;
mod store_time;
mod worker_choice;
mod worker_rows;
mod workers;

use std::collections::BTreeSet;

#[cfg(test)]
pub(super) use worker_choice::LANE_ROWS_EXAMINED_MAX;
pub(super) use worker_rows::WorkerRows;
#[cfg(test)]
pub(super) use workers::GIVEN_UP_PER_ACQUISITION;

use super::apply::CommandOutcome;
use super::{FamilyRow, RowKey, State, WorkerRow};
use crate::command::{CommandRejection, Reply};
use crate::family::{
    FAMILIES_MAX, Family, FamilyChange, FamilyLimits, FamilySpec, IdsCommand, IdsRejection,
    IdsRejectionCause as Cause, validate_family, validate_limits,
};
use crate::ids::{FamilyId, WorkerEpoch, WorkerId, WorkerKey};
use crate::layout::format_utc_ms;

/// Format level that introduced families.
const FAMILIES_LEVEL: u32 = 3;

impl State {
    /// Returns all families by id.
    pub fn families(&self) -> impl Iterator<Item = &FamilyRow> {
        self.families.values()
    }

    /// Returns a family by id.
    pub fn family(&self, id: FamilyId) -> Option<&FamilyRow> {
        self.families.get(&id)
    }

    /// Returns a family by name.
    pub fn find_family(&self, name: &str) -> Option<&FamilyRow> {
        self.families().find(|row| row.family.spec.name == name)
    }

    /// Returns the row of a worker; None if it was never granted, or never will be again.
    pub fn worker(&self, key: WorkerKey) -> Option<&WorkerRow> {
        self.workers.get(&key)
    }

    /// Returns the rows of a family's workers in order, from the number `first` on.
    pub fn workers(
        &self,
        family: FamilyId,
        first: WorkerId,
    ) -> impl Iterator<Item = (WorkerId, &WorkerRow)> {
        self.workers.of_family(family, first)
    }

    pub(super) fn apply_ids(
        &mut self,
        command: &IdsCommand,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        let level = self.format_level();
        if level < FAMILIES_LEVEL {
            return Err(IdsRejection::level_too_low(level).into());
        }
        match command {
            IdsCommand::CreateFamily { spec, limits } => self.create_family(spec, limits, touched),
            IdsCommand::AlterFamily { id, change } => self.alter_family(*id, change, touched),
            IdsCommand::RaiseFamily { id, floor, force } => {
                self.raise_family(*id, *floor, *force, touched)
            }
            IdsCommand::AcquireWorker(request) => self.acquire_worker(request, touched),
            IdsCommand::RenewWorker {
                worker,
                epoch,
                window_ms,
                nonce,
            } => self.renew_worker(*worker, (*epoch, *nonce), *window_ms, touched),
            IdsCommand::ReleaseWorker {
                worker,
                epoch,
                used,
                nonce,
            } => self.free_worker(*worker, *epoch, Some((*used, *nonce)), touched),
            IdsCommand::RevokeWorker { worker, epoch } => {
                self.free_worker(*worker, *epoch, None, touched)
            }
            IdsCommand::AdvanceTime { now_ms, resets } => {
                self.advance_time(*now_ms, *resets, touched)
            }
            IdsCommand::SetTime { now_ms, resets } => self.set_time(*now_ms, *resets, touched),
        }
    }

    fn create_family(
        &mut self,
        spec: &FamilySpec,
        limits: &FamilyLimits,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        validate_family(spec, limits).map_err(CommandRejection::Invalid)?;
        if let Some(found) = self.find_family(&spec.name) {
            // A retry after a lost answer, or a second operator with the same request.
            if (&found.family.spec, &found.family.limits) == (spec, limits) {
                return Ok(Reply::Family(found.family.id));
            }
            let settings = found.family.settings_unlike(spec, limits).join(", ");
            let text = format!(
                "family {:?} already exists with other settings ({settings}): choose another name, or repeat its settings",
                spec.name
            );
            return Err(IdsRejection::new(Cause::FamilyExists, text).into());
        }
        if self.families.len() >= FAMILIES_MAX {
            let text = format!(
                "a cluster has at most {FAMILIES_MAX} families, and none can be removed: use one that exists"
            );
            return Err(IdsRejection::new(Cause::TooManyFamilies, text).into());
        }
        let life = spec
            .layout
            .check_life(spec.scale, self.store_time().high_ms);
        life.map_err(|ended| CommandRejection::Invalid(ended.to_string()))?;
        // No family is ever removed.
        let id = FamilyId(self.families.len() as u32 + 1);
        let version = self.bump_version(touched);
        let mut row = FamilyRow {
            family: Family {
                id,
                spec: spec.clone(),
                limits: *limits,
                version,
            },
            floor: self.restored_floor(spec),
            next_fresh: spec.first_worker,
            epoch_floor: WorkerEpoch(0),
        };
        self.skip_taken_workers(&mut row);
        self.put_family(row, touched);
        Ok(Reply::Family(id))
    }

    /// Changes only what the command names, for the reason of `change_namespace`.
    fn alter_family(
        &mut self,
        id: FamilyId,
        change: &FamilyChange,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        let mut row = self.find_family_row(id)?.clone();
        let limits = change.apply_to(&row.family.limits);
        validate_limits(&row.family.spec, &limits).map_err(CommandRejection::Invalid)?;
        if limits != row.family.limits {
            row.family.limits = limits;
            row.family.version = self.bump_version(touched);
            self.put_family(row, touched);
        }
        Ok(Reply::Done)
    }

    fn raise_family(
        &mut self,
        id: FamilyId,
        floor: u64,
        force: bool,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        let mut row = self.find_family_row(id)?.clone();
        let (spec, ahead_ms) = (&row.family.spec, row.family.limits.ahead_ms);
        let now_ms = self.store_time().high_ms;
        let now = spec.scale.tick_at(now_ms).unwrap_or(0);
        if !force && floor > now.saturating_add(spec.ticks_of_ms(ahead_ms)) {
            let text = format!(
                "the floor at {} is more than ahead ({ahead_ms} ms) in front of store time, {}: raise it less, or pass --force if it is true",
                format_utc_ms(spec.scale.unix_ms_of(floor)),
                format_utc_ms(now_ms)
            );
            return Err(IdsRejection::new(Cause::FloorTooFar, text).into());
        }
        let floor = floor.min(spec.end_tick());
        if floor > row.floor {
            row.floor = floor;
            self.put_family(row, touched);
        }
        Ok(Reply::Done)
    }

    fn put_family(&mut self, row: FamilyRow, touched: &mut BTreeSet<RowKey>) {
        touched.insert(RowKey::Family(row.family.id));
        self.families.insert(row.family.id, row);
    }

    fn find_family_row(&self, id: FamilyId) -> Result<&FamilyRow, CommandRejection> {
        let row = self.families.get(&id);
        let text = || format!("no family has the id {id}");
        Ok(row.ok_or_else(|| IdsRejection::new(Cause::FamilyNotFound, text()))?)
    }
}
