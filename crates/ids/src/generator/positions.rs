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
//! - The rule is a compare-and-swap, which never passes the bound. Where passing it is harmless
//!   ([`Passing::Harmless`]) a caller that sees enough room adds without a comparison
//!   (`fetch_add`), so that callers who meet never repeat their work, and checks afterwards. The
//!   schedule that breaks it without that check: a caller sees room and is paused, others take
//!   everything up to `limit`, the caller adds, and uses positions that the next holder of the
//!   worker hands out too. Harmless means that what the addition skips is only a gap. A policy that
//!   reads the last tick from the word must not add: it would take the skipped positions for ids
//!   of a tick in front of the clock, and reject a call because "the clock moved back".
//! - The mark shares the word with the position. With two words a caller could read "open", the
//!   sealer then seal and report the position, and the caller take the next one: the next holder
//!   begins there. In one word an addition before the seal is part of the reported position, and
//!   one after it returns the mark and is discarded.
//! - `limit` only grows, and a caller reads it before its addition. So the sealer, who reads it
//!   after its own change of the word, sees at least what the callers before it saw: everything
//!   used is below both, and the lesser of both is reported.
//! - The lane changes by a compare-and-swap under the lock of the lanes that are put aside. An
//!   addition that meets the new lane is discarded. Without that check its caller would stamp ids
//!   of the new lane with a bound that was judged for the old one.

use super::sync::{AtomicU64, Ordering};
use super::tick_grid::TickGrid;
use super::{Full, FullReason, SequenceStart};

const SEALED: u64 = 1 << 63;
/// Requests for which a caller that adds must see room: callers that meet at the bound compare, so
/// that only one that was paused skips positions. None under loom, so that it plays these schedules
/// with few positions.
const ROOM: u64 = if cfg!(loom) { 0 } else { 64 };
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
    grid: TickGrid,
    start: SequenceStart,
}

/// The word at one moment, not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) lane: u8,
    pub(super) position: u64,
}

/// What a caller may take, by its clock: positions of `tick` and later, below `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) tick: u64,
    pub(super) end: u64,
}

/// Positions that a caller took; they are its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) lane: u8,
    pub(super) first: u64,
    pub(super) count: u64,
}

/// Whether the word may pass a caller's bound, by positions that no caller uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    /// What is skipped is only a gap.
    Harmless,
    /// The word is read as the last id handed out.
    Never,
}

/// Why a caller took nothing.
pub(super) enum NotTaken<E> {
    Sealed,
    /// The least position that could be taken is not below the limit.
    AtLimit,
    /// It is not below the caller's own bound.
    AtEnd {
        position: u64,
    },
    /// The caller's own reason.
    Other(E),
}

impl<E> NotTaken<E> {
    /// Returns what the caller receives for a reason of the positions; `last_tick` is the greatest
    /// tick that it might stamp.
    pub(super) fn into_full(self, positions: &Positions, last_tick: u64) -> Full {
        let grid = positions.grid();
        let (reason, wait_ticks) = match self {
            Self::Sealed | Self::Other(_) => (FullReason::Sealed, 0),
            Self::AtLimit if positions.limit() >= grid.end() => (FullReason::EndOfTime, 0),
            Self::AtLimit => (FullReason::Limit, 0),
            Self::AtEnd { position } => {
                let tick = grid.tick_of(position);
                (FullReason::Ahead, tick.saturating_sub(last_tick).max(1))
            }
        };
        Full { reason, wait_ticks }
    }
}

impl Positions {
    /// Makes a word that begins at `mark`; nothing at or above `limit` is taken.
    pub(super) fn new(grid: TickGrid, start: SequenceStart, mark: Mark, limit: u64) -> Self {
        let positions = Self {
            word: OwnLine(AtomicU64::new(0)),
            limit: AtomicU64::new(limit.min(grid.end())),
            grid,
            start,
        };
        let word = positions.pack(mark.lane, mark.position.min(grid.end()));
        positions.word.0.store(word, Ordering::Release);
        positions
    }

    pub(super) fn grid(&self) -> &TickGrid {
        &self.grid
    }

    #[inline]
    fn pack(&self, lane: u8, position: u64) -> u64 {
        (u64::from(lane) << self.grid.position_bits()) | position
    }

    #[inline]
    fn unpack(&self, word: u64) -> Option<Mark> {
        let bits = self.grid.position_bits();
        (word & SEALED == 0).then_some(Mark {
            lane: (word >> bits) as u8,
            position: word & ((1 << bits) - 1),
        })
    }

    /// Returns the word at present; None once sealed.
    #[inline]
    pub(super) fn mark(&self) -> Option<Mark> {
        self.unpack(self.word.0.load(Ordering::Acquire))
    }

    /// Takes up to `count` positions, within what `judge` allows. It is called with the word as it
    /// is, so that a clock is read *after* the word: the clock then shows at least what the caller
    /// saw that wrote the word.
    #[inline]
    pub(super) fn take<E>(
        &self,
        count: u64,
        passing: Passing,
        mut judge: impl FnMut(Mark) -> Result<Bounds, E>,
    ) -> Result<Taken, NotTaken<E>> {
        let count = count.min(COUNT_MAX);
        loop {
            let Some(mark) = self.mark() else {
                return Err(NotTaken::Sealed);
            };
            let bounds = judge(mark).map_err(NotTaken::Other)?;
            let limit = self.limit.load(Ordering::Acquire);
            let end = bounds.end.min(limit);
            let begin = self.grid.start_of(bounds.tick);
            let has_room = mark.position > begin && mark.position + count * (ROOM + 1) <= end;
            if passing == Passing::Harmless && has_room {
                if let Some(taken) = self.add(mark.lane, count, end) {
                    return Ok(taken);
                }
            } else if let Some(taken) = self.compare_and_swap(mark, count, bounds, limit)? {
                return Ok(taken);
            }
        }
    }

    /// Takes what lies at the word by an addition; None if that is not all within the bounds.
    #[inline]
    fn add(&self, lane: u8, count: u64, end: u64) -> Option<Taken> {
        let before = self.unpack(self.word.0.fetch_add(count, Ordering::AcqRel))?;
        (before.lane == lane && before.position + count <= end).then_some(Taken {
            lane,
            first: before.position,
            count,
        })
    }

    /// Takes what is left, or lifts the position to the present; None if the word changed.
    fn compare_and_swap<E>(
        &self,
        mark: Mark,
        count: u64,
        bounds: Bounds,
        limit: u64,
    ) -> Result<Option<Taken>, NotTaken<E>> {
        let begin = self.grid.start_of(bounds.tick);
        let first = if mark.position > begin {
            mark.position
        } else {
            let capacity = self.grid.capacity();
            begin + self.start.offset(bounds.tick, mark.position, capacity)
        };
        if first >= limit {
            return Err(NotTaken::AtLimit);
        }
        if first >= bounds.end {
            return Err(NotTaken::AtEnd { position: first });
        }
        let count = count.min(bounds.end.min(limit) - first);
        let lane = mark.lane;
        let swapped = self.swap(
            mark,
            Mark {
                lane,
                position: first + count,
            },
        );
        Ok(swapped.then_some(Taken { lane, first, count }))
    }

    /// Moves the word from one mark to another, unless it changed.
    pub(super) fn swap(&self, from: Mark, to: Mark) -> bool {
        let from = self.pack(from.lane, from.position);
        let to = self.pack(to.lane, to.position);
        self.word
            .0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Raises the limit; never lowers it.
    pub(super) fn widen(&self, limit: u64) {
        self.limit
            .fetch_max(limit.min(self.grid.end()), Ordering::AcqRel);
    }

    /// Returns the limit.
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// Ends all takes; returns a position at or below which nothing is left in use: everything used
    /// is below it. A later call may return a greater one.
    pub(super) fn seal(&self) -> u64 {
        let word = self.word.0.fetch_or(SEALED, Ordering::AcqRel);
        let position = word & ((1 << self.grid.position_bits()) - 1);
        position.min(self.limit())
    }
}
