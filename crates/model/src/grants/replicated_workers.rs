//! The replicated rows of one family of ids, and what each command does to them. No other file has
//! these rules.
//!
//! Invariant: the ticks that two epochs of a worker are granted in one lane never overlap in a tick
//! that was used, for all commands that arrive late, twice or never, and for any store time.

use super::message::{GrantCommand, GrantReply};
use super::modeled_family::{LaneUse, ModeledFamily};
use super::{AHEAD_TICKS, LANES_MAX, WINDOW_TICKS};
use crate::rules::{Rule, RuleSet};

/// The durable row of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct WorkerRecord {
    /// Fencing token; 0 means that the number was never taken.
    pub(crate) epoch: u8,
    /// The process that has the worker.
    pub(crate) holder: Option<u8>,
    /// Nonce of the newest acquisition.
    pub(crate) nonce: u8,
    /// The lane of this epoch.
    pub(crate) lane: usize,
    /// The first tick of each lane that was not granted.
    pub(crate) untils: [u8; LANES_MAX],
    /// The first tick of this epoch.
    pub(crate) base: u8,
}

impl WorkerRecord {
    /// Returns the first tick of the present lane that was not granted.
    pub(crate) fn until(&self) -> u8 {
        self.untils[self.lane]
    }
}

/// What a command is applied with, in addition to its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantContext<'a> {
    /// The rules in force.
    pub(crate) rules: RuleSet,
    /// The limits of the family.
    pub(crate) family: &'a ModeledFamily,
}

/// The replicated rows of one family, and the store time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReplicatedWorkers {
    /// The store time.
    pub(crate) now: u8,
    /// Count of SetTimes.
    pub(crate) resets: u8,
    /// The first tick that may be granted.
    pub(crate) floor: u8,
    /// The row of each worker number.
    pub(crate) rows: Vec<WorkerRecord>,
}

impl ReplicatedWorkers {
    /// Applies one committed command. Returns the reply, or `None` if the command is rejected or
    /// needs no reply.
    pub(crate) fn apply(
        &mut self,
        command: GrantCommand,
        context: GrantContext<'_>,
    ) -> Option<GrantReply> {
        let rules = context.rules;
        match command {
            GrantCommand::Time { now, resets } => {
                if resets == self.resets || !rules.has(Rule::TimeNamesResets) {
                    let is_later = now > self.now || !rules.has(Rule::TimeOnlyRises);
                    self.now = if is_later { now } else { self.now };
                }
            }
            GrantCommand::SetTime { now } => {
                self.now = now;
                self.resets += 1;
            }
            GrantCommand::RaiseFloor { floor } => self.floor = self.floor.max(floor),
            GrantCommand::Revoke { worker, epoch } => {
                let row = &mut self.rows[worker];
                if row.holder.is_some() && row.epoch == epoch {
                    row.holder = None;
                    row.epoch += 1;
                }
            }
            GrantCommand::Acquire {
                holder,
                nonce,
                claimed,
            } => return self.acquire(holder, nonce, claimed, context),
            GrantCommand::Renew { worker, epoch } => return self.renew(worker, epoch, context),
            GrantCommand::Release {
                worker,
                epoch,
                used,
            } => self.release(worker, epoch, used, rules),
        }
        None
    }

    fn acquire(
        &mut self,
        holder: u8,
        nonce: u8,
        claimed: Option<usize>,
        context: GrantContext<'_>,
    ) -> Option<GrantReply> {
        let rules = context.rules;
        let has_nonce = |row: &WorkerRecord| {
            let is_held = row.holder.is_some() || !rules.has(Rule::NonceWhileHeld);
            row.nonce == nonce && row.epoch > 0 && is_held
        };
        let answered = self.rows.iter().position(has_nonce);
        if let Some(worker) = answered.filter(|_| rules.has(Rule::SameNonceSameAnswer)) {
            return Some(self.to_granted(worker));
        }
        let worker = self.choose_worker(claimed, context)?;
        let lane = self.choose_lane(worker, context)?;
        let from = self.find_first_tick(worker, lane, rules);
        let until = limit_to_last(from + WINDOW_TICKS, context);
        if from >= until {
            return None; // the time of the layout is used up
        }
        let row = &mut self.rows[worker];
        let is_raised = row.epoch == 0 || rules.has(Rule::AcquireRaisesEpoch);
        row.epoch += u8::from(is_raised);
        row.holder = Some(holder);
        row.nonce = nonce;
        row.lane = lane;
        row.untils[lane] = until;
        row.base = from;
        Some(self.to_granted(worker))
    }

    /// Returns the worker that an acquisition takes.
    fn choose_worker(&self, claimed: Option<usize>, context: GrantContext<'_>) -> Option<usize> {
        let near = self.now + AHEAD_TICKS;
        let is_free = |row: &WorkerRecord| row.holder.is_none();
        let has_passed = |row: &WorkerRecord| row.until() <= self.now;
        let takes_any = !context.rules.has(Rule::TakeFreeOrPassed);
        let may_take = |row: &WorkerRecord| takes_any || is_free(row) || has_passed(row);
        if let Some(worker) = claimed {
            return Some(worker).filter(|worker| may_take(&self.rows[*worker]));
        }
        // All processes of a sticky family have one name here, and it has one worker.
        let own = self.rows.iter().position(|row| row.epoch > 0);
        if let Some(worker) = own.filter(|_| context.family.is_sticky) {
            let row = &self.rows[worker];
            return Some(worker).filter(|_| may_take(row) || row.until() <= near);
        }
        let taken = || (0..self.rows.len()).filter(|worker| self.rows[*worker].epoch > 0);
        let least = |worker: &usize| self.rows[*worker].until();
        let passed = taken().filter(|worker| has_passed(&self.rows[*worker]));
        let fresh = self.rows.iter().position(|row| row.epoch == 0);
        let is_near = |row: &WorkerRecord| takes_any || is_free(row) && row.until() <= near;
        let close = taken().filter(|worker| is_near(&self.rows[*worker]));
        passed
            .min_by_key(least)
            .or(fresh)
            .or_else(|| close.min_by_key(least))
    }

    /// Returns the lane of a new grant: the present one, or another if the grant would begin too
    /// far in front.
    fn choose_lane(&self, worker: usize, context: GrantContext<'_>) -> Option<usize> {
        let present = self.rows[worker].lane;
        let is_near = |lane: &usize| {
            let from = self.find_first_tick(worker, *lane, context.rules);
            from <= self.now + AHEAD_TICKS || !context.rules.has(Rule::NotTooFarInFront)
        };
        let other = || self.find_other_lane(worker, context).filter(is_near);
        Some(present).filter(is_near).or_else(other)
    }

    fn find_other_lane(&self, worker: usize, context: GrantContext<'_>) -> Option<usize> {
        let row = &self.rows[worker];
        let is_once = context.family.lanes == LaneUse::Once;
        if is_once && context.rules.has(Rule::OnceLaneNeverAgain) {
            return Some(row.lane + 1).filter(|lane| *lane < LANES_MAX);
        }
        let lanes = 0..context.family.lanes.count();
        lanes
            .filter(|lane| *lane != row.lane && row.untils[*lane] <= self.now)
            .min_by_key(|lane| row.untils[*lane])
    }

    /// Returns the tick at which a new grant of that lane begins.
    fn find_first_tick(&self, worker: usize, lane: usize, rules: RuleSet) -> u8 {
        let mut from = self.now;
        if rules.has(Rule::GrantAboveUntil) {
            from = from.max(self.rows[worker].untils[lane]);
        }
        if rules.has(Rule::FloorRespected) {
            from = from.max(self.floor);
        }
        from
    }

    fn renew(&mut self, worker: usize, epoch: u8, context: GrantContext<'_>) -> Option<GrantReply> {
        let rules = context.rules;
        let row = self.rows[worker];
        let is_own = row.holder.is_some() && row.epoch == epoch;
        let is_above = row.base >= self.floor || !rules.has(Rule::RenewAboveFloor);
        if !is_above || !is_own && rules.has(Rule::RenewFenced) {
            return None;
        }
        let wanted = limit_to_last(self.now + WINDOW_TICKS, context);
        let is_far = row.until() > self.now + AHEAD_TICKS + WINDOW_TICKS;
        let stored = &mut self.rows[worker];
        if is_far && !rules.has(Rule::LaneConstantInEpoch) {
            let lane = self.find_other_lane(worker, context)?;
            let base = self.find_first_tick(worker, lane, rules);
            let stored = &mut self.rows[worker];
            (stored.lane, stored.base) = (lane, base);
            stored.untils[lane] = stored.untils[lane].max(wanted);
        } else if is_far && rules.has(Rule::RenewNotTooFarInFront) {
            return None;
        } else {
            stored.untils[row.lane] = row.until().max(wanted);
        }
        Some(GrantReply::Renewed {
            worker,
            epoch,
            until: self.rows[worker].until(),
        })
    }

    fn release(&mut self, worker: usize, epoch: u8, used: u8, rules: RuleSet) {
        let row = &mut self.rows[worker];
        let is_own = row.holder.is_some() && row.epoch == epoch;
        if is_own || !rules.has(Rule::ReleaseFenced) {
            let is_clamped = rules.has(Rule::ClampUsed);
            let least = if is_clamped { row.base } else { 0 };
            row.untils[row.lane] = used.max(least).min(row.until());
            row.holder = None;
            row.epoch += 1;
        }
    }

    fn to_granted(&self, worker: usize) -> GrantReply {
        let row = &self.rows[worker];
        GrantReply::Granted {
            worker,
            epoch: row.epoch,
            lane: row.lane,
            from: row.base,
            until: row.until(),
        }
    }
}

/// Returns `until`, or the end of the layout's time if that is earlier.
fn limit_to_last(until: u8, context: GrantContext<'_>) -> u8 {
    if context.rules.has(Rule::LastTick) {
        until.min(context.family.last_tick + 1)
    } else {
        until
    }
}
