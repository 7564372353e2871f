//! Generator for one process without a store: a fixed worker, a clock, and a policy.
//!
//! Invariants:
//! - `aside[l]` of a lane that is not the present one is above everything used of it. A change of
//!   the lane holds the lock of `aside`, and notes the position that its compare-and-swap replaced:
//!   with a position read before, a caller could take ids in between, and the lane would repeat
//!   them when it is chosen again.
//! - A lane is chosen only if `aside[l]` is at or below the first position of the reading, where
//!   the lane continues.
//! - The clock is read *after* the word. If it was read before, another caller could stamp a later
//!   tick in between: the clock would seem to be set back, and a call would be rejected or use up a
//!   lane for nothing.

use std::num::NonZeroU32;
use std::sync::PoisonError;

use super::positions::{Mark, Positions};
use super::progress::LANES_MAX;
use super::sync::{Mutex, MutexGuard};
use super::{ClockPolicy, LaneChoice, NoId, Progress, Rejection, Run, SequenceStart, TickGrid};

/// A clock that counts in ticks of the layout since its epoch.
pub trait TickClock {
    /// Reads it.
    fn tick(&self) -> u64;

    /// Waits this many ticks or a little longer; returns false to give up instead. After a shorter
    /// wait the clock may still be behind, which some policies reject.
    fn wait(&self, ticks: u64) -> bool;
}

/// Generator of one process, for a worker that no other process uses, with a policy for a clock
/// that is behind.
///
/// Within one life no id repeats, for any readings of the clock. **A new process does not know what
/// the last one stamped: a restart after which the clock is behind repeats ids**, unless it begins
/// by [`resume`](Self::resume) with what the last one kept. With a store there is no such case.
pub struct Clocked<P> {
    positions: Positions,
    policy: P,
    aside: Mutex<[u64; LANES_MAX]>,
}

impl<P: ClockPolicy> Clocked<P> {
    /// Makes a generator that has given no id; it begins in `lane`, which counts modulo the lanes.
    pub fn new(grid: TickGrid, start: SequenceStart, policy: P, lane: u8) -> Self {
        let next_ticks = [0; LANES_MAX];
        Self::resume(grid, start, policy, &Progress { lane, next_ticks })
    }

    /// Makes a generator that gives no id which an earlier one may have given, up to what is kept
    /// in `progress`.
    pub fn resume(grid: TickGrid, start: SequenceStart, policy: P, progress: &Progress) -> Self {
        let aside = progress.next_ticks.map(|tick| grid.start_of(tick));
        let lane = progress.lane % grid.lanes() as u8;
        let mark = Mark {
            lane,
            position: aside[usize::from(lane)],
        };
        Self {
            positions: Positions::new(grid, start, mark, grid.end),
            policy,
            aside: Mutex::new(aside),
        }
    }

    /// Returns what a later process needs to continue: it covers every id taken before the call.
    /// A process that keeps it now and then adds [`Progress::reserve`].
    pub fn progress(&self) -> Progress {
        let aside = self.lock_aside();
        // The lane does not change here, since the lock is held.
        let mark = self.mark();
        let mut positions = *aside;
        positions[usize::from(mark.lane)] = mark.position;
        let grid = &self.positions.grid;
        let next_ticks = positions.map(|position| grid.tick_at_or_above(position));
        let lane = mark.lane;
        Progress { lane, next_ticks }
    }

    /// Takes up to `count` ids; `read_tick` is called at least once, and its last reading decides.
    /// Never waits: the error says how long to.
    ///
    /// # Errors
    ///
    /// If all ids that the policy allows now are used up, or the policy rejects the reading.
    #[inline]
    pub fn take(&self, count: NonZeroU32, read_tick: impl FnMut() -> u64) -> Result<Run, NoId> {
        self.take_after_wait(count, read_tick, false)
    }

    /// Takes up to `count` ids and waits for the clock as the policy has it.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take), if the clock gives up or is still behind after a wait.
    pub fn take_waiting(&self, count: NonZeroU32, clock: &impl TickClock) -> Result<Run, NoId> {
        let mut has_waited = false;
        loop {
            let taken = self.take_after_wait(count, || clock.tick(), has_waited);
            let Err(error) = taken else { return taken };
            has_waited |= matches!(error, NoId::MovedBack { .. });
            let wait_ticks = error.wait_ticks();
            if wait_ticks == 0 || !clock.wait(wait_ticks) {
                return taken;
            }
        }
    }

    #[inline]
    fn take_after_wait(
        &self,
        count: NonZeroU32,
        mut read_tick: impl FnMut() -> u64,
        has_waited: bool,
    ) -> Result<Run, NoId> {
        let count = count.get().into();
        if !P::USES_LAST_TICK {
            let now = read_tick();
            if let Ok(reach) = self.policy.reach(now, 0, has_waited)
                && let Some(run) = self.positions.add(count, now, reach)
            {
                return Ok(run);
            }
        }
        loop {
            let judge = |mark, now| self.reach(mark, now, has_waited);
            match self.positions.take(count, &mut read_tick, judge) {
                Ok(run) => return Ok(run),
                Err(rejection) if rejection.lanes.is_none() => return Err(rejection.error),
                Err(_) => self.change_lane(&mut read_tick, has_waited)?,
            }
        }
    }

    /// Returns the last tick that may be stamped at a reading.
    fn reach(&self, mark: Mark, now: u64, has_waited: bool) -> Result<u64, Rejection> {
        // The last tick that may have been stamped in the lane of the mark.
        let last_position = mark.position.saturating_sub(1);
        let last_tick = self.positions.grid.tick_of(last_position);
        self.policy.reach(now, last_tick, has_waited)
    }

    /// Moves to another lane that can continue at the reading, unless it has become unnecessary.
    #[cold]
    fn change_lane(
        &self,
        read_tick: &mut impl FnMut() -> u64,
        has_waited: bool,
    ) -> Result<(), NoId> {
        let mut aside = self.lock_aside();
        let grid = &self.positions.grid;
        loop {
            let mark = self.mark();
            let now = read_tick();
            let Err(Rejection { error, lanes }) = self.reach(mark, now, has_waited) else {
                return Ok(());
            };
            let position = grid.start_of(now).min(grid.end);
            let present = usize::from(mark.lane);
            let first = match lanes {
                None => return Err(error),
                Some(LaneChoice::Above) => present + 1,
                Some(LaneChoice::Other) => 0,
            };
            let mut free =
                (first..grid.lanes()).filter(|lane| *lane != present && aside[*lane] <= position);
            let lane = match lanes {
                Some(LaneChoice::Above) => free.next(),
                _ => free.min_by_key(|lane| aside[*lane]),
            };
            let lane = lane.ok_or(error)?;
            let to = Mark {
                lane: lane as u8,
                position,
            };
            if self.positions.swap(mark, to) {
                aside[present] = mark.position;
                return Ok(());
            }
        }
    }

    /// Returns the word at present.
    fn mark(&self) -> Mark {
        self.positions
            .mark()
            .unwrap_or_else(|| unreachable!("no caller can seal these positions"))
    }

    /// Locks; a panic elsewhere does not spread, because no holder leaves the data half changed.
    fn lock_aside(&self) -> MutexGuard<'_, [u64; LANES_MAX]> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
