//! Store time: the cluster's time, as part of the state.
//!
//! Invariant: it never falls, over leaders and restarts, except by the command of an administrator.
//! Schedule that breaks it: a leader whose clock is 30 s fast grants ticks and dies. The clock of
//! the next one is right, and what other workers make now is ordered 30 s below ids that exist. (No
//! id repeats: a grant begins above all earlier ones, at any time.)
//!
//! Invariant: a reading that was taken before a set-back never counts after it. Schedule: a leader
//! reads a clock that is an hour ahead, an administrator sets store time back, and the reading
//! arrives: store time is an hour ahead again. So each reading names the set-backs that its sender
//! saw.

use std::collections::BTreeSet;

use super::super::apply::CommandOutcome;
use super::super::{FamilyRow, RowKey, State, TimeRow};
use crate::command::{CommandRejection, Reply};
use crate::family::{IdsRejection, IdsRejectionCause as Cause};
use crate::layout::format_utc_ms;

/// Last millisecond of the year 9999. No clock is right above it, and time that is there by mistake
/// can still be set back.
const TIME_MS_MAX: u64 = 253_402_300_799_999;

impl State {
    /// Returns store time; the epoch of Unix before it was first set.
    pub fn store_time(&self) -> TimeRow {
        self.time.unwrap_or_default()
    }

    pub(super) fn advance_time(
        &mut self,
        now_ms: u64,
        resets: u64,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        let time = self.store_time();
        if resets == time.resets && now_ms > time.high_ms && now_ms <= TIME_MS_MAX {
            self.put_time(now_ms, resets, touched);
        }
        Ok(Reply::Done)
    }

    pub(super) fn set_time(
        &mut self,
        now_ms: u64,
        resets: u64,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        if now_ms > TIME_MS_MAX {
            return Err(CommandRejection::Invalid(format!(
                "store time {now_ms} ms is after the year 9999: give a time as Unix milliseconds"
            )));
        }
        let time = self.store_time();
        if resets != time.resets {
            let text = format!(
                "store time was set {} times, not as often as the command expects: read it again",
                time.resets
            );
            return Err(IdsRejection::new(Cause::TimeWasSet, text).into());
        }
        self.put_time(now_ms, resets.saturating_add(1), touched);
        Ok(Reply::Done)
    }

    fn put_time(&mut self, high_ms: u64, resets: u64, touched: &mut BTreeSet<RowKey>) {
        self.time = Some(TimeRow {
            high_ms,
            resets,
            ..self.store_time()
        });
        touched.insert(RowKey::Time);
    }

    /// Returns the tick of store time.
    pub(super) fn now_tick(&self, row: &FamilyRow) -> Result<u64, CommandRejection> {
        let (scale, now_ms) = (row.family.spec.scale, self.store_time().high_ms);
        let before_epoch = || self.too_far_ahead(scale.epoch_ms(), scale.epoch_ms() - now_ms);
        Ok(scale.tick_at(now_ms).ok_or_else(before_epoch)?)
    }

    /// Returns the rejection of a grant from this time on.
    pub(super) fn too_far_ahead(&self, at_ms: u64, wait_ms: u64) -> IdsRejection {
        let [at, now] = [at_ms, self.store_time().high_ms].map(format_utc_ms);
        let text = format!("ids would be of {at} and store time is {now}");
        IdsRejection::for_now(Cause::TooFarAhead, &text, wait_ms)
    }
}
