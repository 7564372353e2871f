//! What is judged: two ids of a run, and every change of the rows.
//!
//! Invariant: no machine acts on the ledger. It judges by what it has seen itself: the readings of
//! leaders instead of the store time, and the ids instead of the epochs that fence them.

use super::message::GrantCommand;
use super::modeled_family::{LaneUse, ModeledFamily};
use super::replicated_workers::{ReplicatedWorkers, WorkerRecord};
use super::{AHEAD_TICKS, WINDOW_TICKS};
use crate::rules::promise::Promise;

/// An id that a holder made. One sequence number of a tick stands for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UsedTick {
    /// The process that made it.
    pub(crate) holder: usize,
    /// Its worker.
    pub(crate) worker: usize,
    /// Its lane.
    pub(crate) lane: usize,
    /// The worker epoch that it was made in.
    pub(crate) epoch: u8,
    /// Its tick.
    pub(crate) tick: u8,
}

/// The ids that were recorded, and the first promise that was broken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct IdLedger {
    /// Two ids of the run, in the order in which they were made.
    pub(crate) ids: Vec<UsedTick>,
    /// The greatest reading of leaders since the last SetTime, or its time.
    pub(crate) highest_reading: u8,
    /// A promise that was broken.
    pub(crate) broken: Option<Promise>,
}

impl IdLedger {
    /// Number of ids that are recorded.
    pub(crate) const IDS_MAX: usize = 2;

    /// Records an id, unless two are recorded.
    pub(crate) fn record_id(&mut self, id: UsedTick) {
        for earlier in &self.ids {
            let is_rising = earlier.tick < id.tick;
            if (earlier.worker, earlier.lane) != (id.worker, id.lane) {
                continue;
            } else if earlier.tick == id.tick {
                self.broken = Some(Promise::Unique);
            } else if earlier.epoch != id.epoch && is_rising != (earlier.epoch < id.epoch)
                || earlier.holder == id.holder && !is_rising
            {
                self.broken = Some(Promise::Monotonic);
            }
        }
        self.ids.push(id);
    }

    /// Judges what a command changed.
    pub(crate) fn judge_command(
        &mut self,
        command: GrantCommand,
        before: &ReplicatedWorkers,
        after: &ReplicatedWorkers,
        family: &ModeledFamily,
    ) {
        match command {
            GrantCommand::SetTime { now } => self.highest_reading = now,
            GrantCommand::Time { now, resets } if resets == before.resets => {
                self.highest_reading = self.highest_reading.max(now);
            }
            _ => {}
        }
        if after.now < self.highest_reading {
            self.broken = Some(Promise::Forward);
        }
        for (old, new) in before.rows.iter().zip(&after.rows) {
            self.judge_grant(old, new, after.floor, family);
        }
        let mut rows = after.rows.iter().filter(|row| row.holder.is_some());
        let first = rows.next();
        if first.is_some_and(|first| rows.any(|row| row.nonce == first.nonce)) {
            self.broken = Some(Promise::Single);
        }
    }

    /// Judges the ticks that a command added to a lane of a worker.
    fn judge_grant(
        &mut self,
        old: &WorkerRecord,
        new: &WorkerRecord,
        floor: u8,
        family: &ModeledFamily,
    ) {
        let key = |row: &WorkerRecord| (row.epoch, row.nonce, row.lane, row.base);
        let is_cut = new.holder.is_some() && key(old) != key(new);
        let from = if is_cut { new.base } else { old.until() };
        if new.until() <= from {
            return;
        }
        let is_left = new.lane != old.lane && old.untils[new.lane] > 0;
        if new.until() > family.last_tick + 1 {
            self.broken = Some(Promise::End);
        } else if from < floor {
            self.broken = Some(Promise::Floor);
        } else if new.until() > self.highest_reading + AHEAD_TICKS + WINDOW_TICKS {
            self.broken = Some(Promise::Near);
        } else if family.lanes == LaneUse::Once && is_left {
            self.broken = Some(Promise::Once);
        }
    }
}
