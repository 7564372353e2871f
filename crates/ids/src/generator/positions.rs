//! One atomic word that hands out positions: lane, next position, and the mark "sealed".
//!
//! ```text
//! bit 63: sealed | lane, 0 to 3 bits | next position
//! ```
//!
//! Invariant: every change of the word is a read-modify-write, hence they are in one order, and
//! within a lane the position only grows. A caller owns the positions between the value that its
//! read-modify-write replaced and the value that it stored. So no two callers own a position of a
//! lane. A caller uses what it owns only if all of it is below the bound that it read *before*: the
//! lesser of its clock's bound and `limit`. Otherwise it discards them, which leaves a gap.
//!
//! - The rule is a compare-and-swap, which never passes the bound.
//! - A caller whose bound does not depend on the word may add instead ([`Positions::add`]): one
//!   transfer of the cache line, and callers who meet never repeat their work. It checks
//!   afterwards. The schedule that breaks it without that check: others take everything up to
//!   `limit`, the caller adds, and uses positions that the next holder of the worker hands out too.
//!   What an addition skips is only a gap; `may_add` keeps it short. A policy that reads the last
//!   tick from the word must not add: it would take the skipped positions for ids of a tick in
//!   front of the clock, and reject a call because "the clock moved back".
//! - The mark shares the word with the position. With two words a caller could read "open", the
//!   sealer then seal and report the position, and the caller take the next one: the next holder
//!   begins there. In one word an addition before the seal is part of the reported position, and
//!   one after it returns the mark and is discarded.
//! - `limit` only grows, and a caller reads it before its addition. So the sealer, who reads it
//!   after its own change of the word, sees at least what the callers before it saw: everything
//!   used is below both, and the lesser of both is reported.
//! - The lane changes by a compare-and-swap under the lock of the lanes that are put aside, so the
//!   position that it replaces is above everything taken of the old lane. An addition that meets
//!   the new lane owns positions there. They are within its bound: that bound follows from the
//!   reading of the clock alone, in every lane.

use super::sync::{AtomicBool, AtomicU64, Ordering};
use super::tick_grid::TickGrid;
use super::{NoId, Run, SequenceStart};

const SEALED: u64 = 1 << 63;
/// Greatest request that is served by an addition.
const ADDED_MAX: u64 = 64;
/// Positions below the bound from which on callers add: only a few skip some at the bound. None
/// under loom, so that it plays these schedules with few positions.
const ROOM: u64 = if cfg!(loom) { 0 } else { 64 * ADDED_MAX };
/// Most positions of one call; a larger request gets this many.
pub(super) const COUNT_MAX: u64 = 1 << 20;

/// A value on a cache line of its own: callers that change it do not slow down those that read its
/// neighbors.
#[repr(align(128))]
struct OwnLine<T>(T);

/// The word and its limit.
pub(super) struct Positions {
    word: OwnLine<AtomicU64>,
    limit: AtomicU64,
    /// Whether an addition is likely to stay within its bound: a hint, without which no caller
    /// would add. An addition that fails clears it.
    may_add: AtomicBool,
    pub(super) grid: TickGrid,
    start: SequenceStart,
}

/// The word at one moment, not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) lane: u8,
    pub(super) position: u64,
}

impl Mark {
    /// Returns the word.
    fn pack(self, grid: &TickGrid) -> u64 {
        u64::from(self.lane) << grid.position_bits | self.position
    }

    /// Returns positions of the lane.
    #[inline]
    fn run(self, first: u64, count: u64) -> Run {
        Run {
            lane: self.lane,
            first,
            count,
        }
    }
}

impl Positions {
    /// Makes a word that begins at `mark`; nothing at or above `limit` is taken.
    pub(super) fn new(grid: TickGrid, start: SequenceStart, mut mark: Mark, limit: u64) -> Self {
        mark.position = mark.position.min(grid.end);
        Self {
            word: OwnLine(AtomicU64::new(mark.pack(&grid))),
            limit: AtomicU64::new(limit.min(grid.end)),
            may_add: AtomicBool::new(false),
            grid,
            start,
        }
    }

    #[inline]
    fn unpack(&self, word: u64) -> Option<Mark> {
        (word & SEALED == 0).then_some(Mark {
            lane: (word >> self.grid.position_bits) as u8,
            position: word & self.grid.position_mask,
        })
    }

    /// Returns the word at present; None once sealed.
    #[inline]
    pub(super) fn mark(&self) -> Option<Mark> {
        self.unpack(self.word.0.load(Ordering::Acquire))
    }

    /// Takes `count` positions at the word by an addition, if all of them are later than the first
    /// one of the tick `now` and not beyond the tick `reach`. On None the caller takes by
    /// [`take`](Self::take).
    #[inline]
    pub(super) fn add(&self, count: u64, now: u64, reach: u64) -> Option<Run> {
        if count > ADDED_MAX || !self.may_add.load(Ordering::Relaxed) {
            return None;
        }
        let end = self.end_of(reach).min(self.limit.load(Ordering::Acquire));
        let begin = self.grid.start_of(now);
        let before = self.unpack(self.word.0.fetch_add(count, Ordering::AcqRel));
        let taken = before.filter(|mark| mark.position > begin && mark.position + count <= end);
        if taken.is_none() {
            self.may_add.store(false, Ordering::Relaxed);
        }
        taken.map(|mark| mark.run(mark.position, count))
    }

    /// Takes up to `count` positions by a compare-and-swap.
    ///
    /// `read_tick` is called after the word was read, so that the clock shows at least what the
    /// caller saw that wrote the word. `judge` returns the last tick that may be stamped at a
    /// reading; it is not called if the reading is the tick of the last position that was taken,
    /// which every caller may continue.
    #[inline]
    pub(super) fn take<E: From<NoId>>(
        &self,
        count: u64,
        mut read_tick: impl FnMut() -> u64,
        judge: impl Fn(Mark, u64) -> Result<u64, E>,
    ) -> Result<Run, E> {
        let count = count.min(COUNT_MAX);
        loop {
            let word = self.word.0.load(Ordering::Acquire);
            let Some(mark) = self.unpack(word) else {
                return Err(NoId::Sealed.into());
            };
            let now = read_tick();
            let limit = self.limit.load(Ordering::Acquire);
            let begin = self.grid.start_of(now);
            let tick_end = limit.min(begin + self.grid.capacity());
            // Branches, not minima: the processor guesses them and need not wait for their result.
            let run = if mark.position > begin && mark.position + count <= tick_end {
                mark.run(mark.position, count)
            } else {
                self.choose(mark, count, now, limit, |now| judge(mark, now))?
            };
            let to = word + (run.first + run.count - mark.position);
            if self.swap_words(word, to) {
                return Ok(run);
            }
        }
    }

    /// Chooses what is free at and after `mark`, lifted to the tick `now`, up to the tick that
    /// `judge` returns.
    #[inline]
    fn choose<E: From<NoId>>(
        &self,
        mark: Mark,
        count: u64,
        now: u64,
        limit: u64,
        judge: impl Fn(u64) -> Result<u64, E>,
    ) -> Result<Run, E> {
        let reach = judge(now)?;
        let begin = self.grid.start_of(now);
        let first = match mark.position > begin {
            true => mark.position,
            false => begin + self.start.offset(now, mark.position, self.grid.capacity()),
        };
        let end = self.end_of(reach).min(limit);
        if first >= limit {
            let is_over = limit >= self.grid.end;
            let error = if is_over {
                NoId::EndOfTime
            } else {
                NoId::Limit
            };
            return Err(error.into());
        }
        if first >= end {
            let mut wait_ticks = self.grid.tick_of(first).saturating_sub(reach).max(1);
            // A reach that is held at the last tick does not move before the clock has passed it.
            if judge(now.saturating_add(wait_ticks)).is_ok_and(|later| later <= reach) {
                wait_ticks += reach.saturating_sub(now);
            }
            return Err(NoId::Full { wait_ticks }.into());
        }
        if end - first >= ROOM && !self.may_add.load(Ordering::Relaxed) {
            self.may_add.store(true, Ordering::Relaxed);
        }
        Ok(mark.run(first, count.min(end - first)))
    }

    /// Returns the first position after a tick.
    #[inline]
    fn end_of(&self, tick: u64) -> u64 {
        self.grid.start_of(tick.saturating_add(1))
    }

    /// Moves the word from one mark to another, unless it changed.
    pub(super) fn swap(&self, from: Mark, to: Mark) -> bool {
        self.swap_words(from.pack(&self.grid), to.pack(&self.grid))
    }

    #[inline]
    fn swap_words(&self, from: u64, to: u64) -> bool {
        self.word
            .0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Raises the limit; never lowers it.
    pub(super) fn widen(&self, limit: u64) {
        self.limit
            .fetch_max(limit.min(self.grid.end), Ordering::AcqRel);
    }

    /// Ends all takes; returns a position at or below which nothing is left in use: everything used
    /// is below it. A later call may return a greater one.
    pub(super) fn seal(&self) -> u64 {
        let word = self.word.0.fetch_or(SEALED, Ordering::AcqRel);
        let position = word & self.grid.position_mask;
        position.min(self.limit.load(Ordering::Acquire))
    }
}
