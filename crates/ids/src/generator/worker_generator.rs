//! Generator of one worker within a grant of ticks.
//!
//! Invariant: nothing at or above `limit` is handed out, and `limit` is only set to ticks that were
//! granted to this very worker epoch. The schedule that breaks it: the answer to an acquisition of
//! an earlier epoch arrives late and widens the generator beyond its own grant, into ticks of the
//! next holder. So [`WorkerGenerator::widen`] compares epochs.

use std::num::NonZeroU32;

use super::positions::{Mark, Positions};
use super::{NoId, Run, SequenceStart, TickGrid};

/// Generator of one worker epoch: positions from `from` up to a limit that only grows.
///
/// Pure: the caller brings the time, which decides only where in the grant an id falls. A clock
/// that is wrong, stopped or set back never repeats an id.
pub struct WorkerGenerator {
    positions: Positions,
    epoch: u64,
    from: u64,
}

impl WorkerGenerator {
    /// Makes the generator of a worker epoch to which ticks `from..until` are granted.
    pub fn new(grid: TickGrid, start: SequenceStart, epoch: u64, from: u64, until: u64) -> Self {
        let mark = Mark {
            lane: 0,
            position: grid.start_of(from),
        };
        Self {
            positions: Positions::new(grid, start, mark, grid.start_of(until)),
            epoch,
            from,
        }
    }

    /// Takes up to `count` ids of `now_tick` and later, at most `ahead_ticks` in front of it.
    ///
    /// # Errors
    ///
    /// If the grant or the ticks that may be stamped now are used up, or after
    /// [`seal`](Self::seal).
    #[inline]
    pub fn take(&self, count: NonZeroU32, now_tick: u64, ahead_ticks: u64) -> Result<Run, NoId> {
        let count = count.get().into();
        let reach = |now: u64| now.saturating_add(ahead_ticks);
        if let Some(run) = self.positions.add(count, now_tick, reach(now_tick)) {
            return Ok(run);
        }
        self.positions
            .take(count, || now_tick, |_, now| Ok(reach(now)))
    }

    /// Raises the limit to the tick `until`, if the grant is of this worker epoch; returns whether
    /// it is. Never lowers it.
    pub fn widen(&self, epoch: u64, until: u64) -> bool {
        let is_own = epoch == self.epoch;
        if is_own {
            self.positions.widen(self.positions.grid.start_of(until));
        }
        is_own
    }

    /// Returns the first tick of which no id was handed out; a later call may return a greater one.
    pub fn unused(&self) -> u64 {
        let mark = self.positions.mark();
        let position = mark.map_or(u64::MAX, |mark| mark.position);
        self.positions
            .grid
            .tick_at_or_above(position)
            .max(self.from)
    }

    /// Ends the generator: no take succeeds any more. Returns the first tick of which no id was
    /// handed out; a later call may return a greater one.
    pub fn seal(&self) -> u64 {
        let position = self.positions.seal();
        let unused = self.positions.grid.tick_at_or_above(position);
        unused.max(self.from)
    }
}
