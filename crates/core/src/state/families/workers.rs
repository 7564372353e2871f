//! Grants: ticks of a worker, durable before the first of them is used.
//!
//! Invariant: a tick of a lane of a worker is granted to one worker epoch only, permanently. A
//! grant begins at or above everything that was ever granted of the lane. Nothing here depends on
//! a clock: store time only chooses where in the ticks a grant lies.
//!
//! Schedules that would break it, and the check that rejects them:
//! - A holds [100, 200) and is paused at 120. Its grant has passed, and B gets [now, ...) by a
//!   clock that was set back to 150. A wakes, and both make tick 150: a grant begins at `until`,
//!   at any time (`cut_grant`);
//! - A is paused until its worker is B's, wakes and renews: the ticks of both grow. A renewal
//!   counts only at the very epoch (`held_worker`);
//! - a late duplicate of A's release (used 110) arrives after B got [200, 300): the next holder
//!   gets [110, ...) while B makes 150. A release counts only at the very epoch, and never goes
//!   below the base of its grant (`free_worker`);
//! - a caller that is not its holder releases a worker as used up to 110, while the holder makes
//!   150: its numbers are in lists, and easy to mistake. A renewal and a release prove by the
//!   random nonce of the acquisition that their sender is the holder (`held_worker`);
//! - store time is set back twice within one lane of two: the second time lane 1 begins at a time
//!   that its ids of the first time are above. Each lane has an `until` of its own.
//!
//! Invariant: a grant that is cut ends at most `ahead` + `window` in front of store time. Schedule:
//! a loop of claims of one number adds a window each, and ids are of next week. A worker whose
//! ticks are further in front than `ahead` continues on another lane, or not at all.

use std::collections::BTreeSet;

use super::super::apply::CommandOutcome;
use super::super::{FamilyRow, RowKey, State, WorkerRow};
use crate::command::{CommandRejection, Reply};
use crate::family::{
    AcquireWorker, IdsCommand, IdsRejection, IdsRejectionCause as Cause, WorkerGrant,
    validate_holder,
};
use crate::ids::{Nonce, WorkerEpoch, WorkerId, WorkerKey};
use crate::layout::format_utc_ms;

/// Most workers that one acquisition gives up for good, of a family that grants each number once.
/// More than one, so that a flood of holders that are gone leaves no rows.
pub(in crate::state) const GIVEN_UP_PER_ACQUISITION: usize = 2;

impl State {
    pub(super) fn acquire_worker(
        &mut self,
        request: &AcquireWorker,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        let invalid = |text| CommandRejection::Invalid(String::from(text));
        validate_holder(&request.holder).map_err(invalid)?;
        if request.nonce == Nonce(0) {
            return Err(invalid(
                "an acquisition needs a random nonce, and 0 is none",
            ));
        }
        let mut family = self.find_family_row(request.family)?.clone();
        if let Some(key) = self.workers.find_nonce(request.family, request.nonce)
            && let Some(row) = self.workers.get(&key)
        {
            if row.holder != request.holder {
                return Err(invalid(
                    "the nonce is of an acquisition under another name: use a random one for each",
                ));
            }
            return match row.is_held {
                true => Ok(self.grant_of(key, row)),
                // It was released or revoked since.
                false => Err(stale_worker(key, row.epoch)),
            };
        }
        check_not_frozen(&family)?;
        let now = self.now_tick(&family)?;
        if now >= family.family.spec.end_tick() {
            return Err(time_exhausted(&family));
        }
        if !family.family.spec.sticky || request.worker.is_some() {
            self.check_workers_of(&family, &request.holder, now)?;
        }
        let worker = self.choose_worker(&family, request, now)?;
        let key = WorkerKey {
            family: request.family,
            worker,
        };
        let taken = self.workers.get(&key).cloned();
        let is_fresh = taken.is_none();
        let mut row = taken.unwrap_or_else(|| fresh_row(&family, request));
        self.cut_grant(&family, worker, &mut row, now, request.window_ms)?;
        row.epoch = WorkerEpoch(row.epoch.0 + 1);
        row.holder.clone_from(&request.holder);
        row.is_held = true;
        row.nonce = request.nonce;
        row.taken_ms = self.store_time().high_ms;
        let grant = self.grant_of(key, &row);
        self.put_worker(key, row, touched);
        if is_fresh {
            let before = family.next_fresh;
            self.skip_taken_workers(&mut family);
            if family.next_fresh != before {
                self.put_family(family.clone(), touched);
            }
        }
        self.give_up_passed(&family, now, touched);
        Ok(grant)
    }

    /// Cuts the next grant of a worker: sets lane, base and `until` of its row.
    fn cut_grant(
        &self,
        family: &FamilyRow,
        worker: WorkerId,
        row: &mut WorkerRow,
        now: u64,
        window_ms: u32,
    ) -> Result<(), CommandRejection> {
        let spec = &family.family.spec;
        let reach = now.saturating_add(spec.ticks_of_ms(family.family.limits.ahead_ms));
        let begin = |row: &WorkerRow, lane: usize| {
            let until = if crate::planted!(GrantFromNow) {
                0
            } else {
                row.until_of(lane)
            };
            until.max(now).max(family.floor)
        };
        let mut lane = row.lane as usize;
        if begin(row, lane) > reach {
            // The ticks of the present lane are in front of store time: it was set back.
            let other = row
                .other_lane(spec, now)
                .filter(|lane| begin(row, *lane) <= reach);
            lane = other.unwrap_or(lane);
        }
        let from = begin(row, lane);
        if from >= spec.end_tick() {
            return Err(time_exhausted(family));
        }
        if from > reach {
            return Err(self.too_far(family, worker, from, row));
        }
        row.lane = lane as u32;
        row.base = from;
        row.set_until(
            from.saturating_add(window_ticks(family, window_ms))
                .min(spec.end_tick()),
        );
        Ok(())
    }

    pub(super) fn renew_worker(
        &mut self,
        key: WorkerKey,
        (epoch, nonce): (WorkerEpoch, Nonce),
        window_ms: u32,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        let (family, row) = self.held_worker(key, epoch, Some(nonce))?;
        if row.base < family.floor {
            return Err(stale_worker(key, epoch));
        }
        check_not_frozen(family)?;
        let now = self.now_tick(family)?;
        let (spec, limits) = (&family.family.spec, &family.family.limits);
        let most = u64::from(limits.ahead_ms) + u64::from(limits.window_max_ms);
        let most = now.saturating_add(most / spec.scale.unit_ms());
        if row.until() > most {
            // Store time was set back, or the longest window was lowered: another acquisition may
            // choose another lane.
            let text = format!(
                "the grant reaches {} and store time is {}: it was set back, or window-max was lowered; release the worker and acquire again",
                format_utc_ms(spec.scale.unix_ms_of(row.until())),
                format_utc_ms(self.store_time().high_ms)
            );
            return Err(IdsRejection::new(Cause::TooFarAhead, text).into());
        }
        let until = now.saturating_add(window_ticks(family, window_ms));
        if row.until() == spec.end_tick() && until > spec.end_tick() {
            return Err(time_exhausted(family));
        }
        let until = until.min(spec.end_tick());
        let mut row = row.clone();
        if until > row.until() {
            row.set_until(until);
            self.put_worker(key, row.clone(), touched);
        }
        Ok(self.grant_of(key, &row))
    }

    /// Frees a worker. Its holder reports the first tick that it has not used, with its nonce;
    /// None: it is revoked, and all that it was granted stays its own.
    pub(super) fn free_worker(
        &mut self,
        key: WorkerKey,
        epoch: WorkerEpoch,
        used: Option<(u64, Nonce)>,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        let nonce = used.map(|(_, nonce)| nonce);
        let (family, row) = self.held_worker(key, epoch, nonce)?;
        if family.family.spec.reuse_never {
            self.workers.remove(&key);
            touched.insert(RowKey::Worker(key));
            return Ok(Reply::Done);
        }
        let mut row = row.clone();
        if let Some((used, _)) = used {
            let until = row.until().max(row.base);
            row.set_until(used.clamp(row.base, until));
        }
        row.epoch = WorkerEpoch(row.epoch.0 + 1);
        row.is_held = false;
        self.put_worker(key, row, touched);
        Ok(Reply::Done)
    }

    /// Gives up numbers whose grants have passed, of a family that grants each number once: no
    /// other holder gets their ticks, so they need not be known.
    fn give_up_passed(&mut self, family: &FamilyRow, now: u64, touched: &mut BTreeSet<RowKey>) {
        if !family.family.spec.reuse_never {
            return;
        }
        let family = family.family.id;
        let passed = self
            .workers
            .by_until(family, true)
            .take(GIVEN_UP_PER_ACQUISITION);
        let passed: Vec<_> = passed.filter(|(until, _)| *until <= now).collect();
        for (_, worker) in passed {
            let key = WorkerKey { family, worker };
            self.workers.remove(&key);
            touched.insert(RowKey::Worker(key));
        }
    }

    fn put_worker(&mut self, key: WorkerKey, row: WorkerRow, touched: &mut BTreeSet<RowKey>) {
        self.workers.insert(key, row);
        touched.insert(RowKey::Worker(key));
    }

    /// Returns a worker that is held at this epoch, with its family; if a nonce is given, only if
    /// it is that of the acquisition.
    fn held_worker(
        &self,
        key: WorkerKey,
        epoch: WorkerEpoch,
        nonce: Option<Nonce>,
    ) -> Result<(&FamilyRow, &WorkerRow), CommandRejection> {
        let family = self.find_family_row(key.family)?;
        let row = self.workers.get(&key);
        let is_of = |row: &WorkerRow| nonce.is_none_or(|nonce| nonce == row.nonce);
        let held = row.filter(|row| row.is_held && row.epoch == epoch && is_of(row));
        let row = held.ok_or_else(|| stale_worker(key, epoch))?;
        Ok((family, row))
    }

    /// Returns why a renewal or a release is rejected before it is applied: its worker is
    /// not held at that epoch with that nonce. Epochs only rise, and a nonce is that of its epoch.
    pub fn judge_holder(&self, command: &IdsCommand) -> Option<CommandRejection> {
        let (IdsCommand::RenewWorker {
            worker,
            epoch,
            nonce,
            ..
        }
        | IdsCommand::ReleaseWorker {
            worker,
            epoch,
            nonce,
            ..
        }) = command
        else {
            return None;
        };
        self.held_worker(*worker, *epoch, Some(*nonce)).err()
    }

    fn check_workers_of(
        &self,
        family: &FamilyRow,
        holder: &str,
        now: u64,
    ) -> Result<(), CommandRejection> {
        let max = family.family.limits.workers_per_holder;
        let held = self.workers.of_holder(family.family.id, holder, true);
        let mut ends = held
            .map(|(_, row)| row.until())
            .take_while(|end| *end > now);
        // From the last one down.
        let Some(first_end) = ends.nth((max as usize).saturating_sub(1)) else {
            return Ok(());
        };
        let end_ms = family.family.spec.scale.unix_ms_of(first_end);
        let text = format!(
            "{holder:?} holds {max} workers already: release one, or raise workers-per-holder"
        );
        let wait_ms = end_ms.saturating_sub(self.store_time().high_ms);
        Err(IdsRejection::for_now(Cause::TooManyWorkers, &text, wait_ms).into())
    }

    fn grant_of(&self, worker: WorkerKey, row: &WorkerRow) -> Reply {
        Reply::Grant(WorkerGrant {
            worker,
            epoch: row.epoch,
            lane: row.lane,
            from: row.base,
            until: row.until(),
            high_ms: self.store_time().high_ms,
        })
    }

    fn too_far(
        &self,
        family: &FamilyRow,
        worker: WorkerId,
        from: u64,
        row: &WorkerRow,
    ) -> CommandRejection {
        let spec = &family.family.spec;
        let ahead = spec.ticks_of_ms(family.family.limits.ahead_ms);
        let free_ms = spec.scale.unix_ms_of(from.saturating_sub(ahead));
        let wait_ms = free_ms.saturating_sub(self.store_time().high_ms);
        let lanes = spec.lanes() as u32;
        if spec.lanes_once && row.lane + 1 == lanes {
            let text = format!(
                "worker {worker} has used all of its {lanes} lanes, one for each set-back of store time: acquire another worker"
            );
            return IdsRejection::for_now(Cause::TimeExhausted, &text, wait_ms).into();
        }
        self.too_far_ahead(spec.scale.unix_ms_of(from), wait_ms)
            .into()
    }
}

/// Returns the row of a worker that was never granted.
fn fresh_row(family: &FamilyRow, request: &AcquireWorker) -> WorkerRow {
    let spec = &family.family.spec;
    let lanes = spec.lanes();
    let lane = match spec.lanes_once {
        // Any lane will do: the nonce is random.
        false => (request.nonce.0 % lanes as u128) as u32,
        true => 0,
    };
    WorkerRow {
        epoch: family.epoch_floor,
        holder: String::new(),
        is_held: false,
        nonce: request.nonce,
        lane,
        untils: vec![0; lanes],
        base: 0,
        taken_ms: 0,
    }
}

/// Returns the window of a grant in ticks; a holder may request one up to the family's longest.
/// Never below two ticks, so that it can be renewed before it passes.
fn window_ticks(family: &FamilyRow, requested_ms: u32) -> u64 {
    let limits = &family.family.limits;
    let window_ms = match requested_ms {
        0 => limits.window_ms,
        ms => ms.min(limits.window_max_ms),
    };
    family.family.spec.ticks_of_ms(window_ms).max(2)
}

fn check_not_frozen(family: &FamilyRow) -> Result<(), CommandRejection> {
    if !family.family.limits.frozen {
        return Ok(());
    }
    let text = format!(
        "family {:?} is frozen: use another one",
        family.family.spec.name
    );
    Err(IdsRejection::new(Cause::FamilyFrozen, text).into())
}

fn stale_worker(key: WorkerKey, epoch: WorkerEpoch) -> CommandRejection {
    let text = format!(
        "the grant of worker {} at epoch {epoch} is not extended: acquire another worker; what is left of the grant is still its holder's alone",
        key.worker
    );
    IdsRejection::new(Cause::StaleWorker, text).into()
}

fn time_exhausted(family: &FamilyRow) -> CommandRejection {
    let spec = &family.family.spec;
    let text = format!(
        "family {:?} ended on {}: make another family, with a later epoch",
        spec.name,
        format_utc_ms(spec.layout.end_ms(spec.scale))
    );
    IdsRejection::new(Cause::TimeExhausted, text).into()
}
