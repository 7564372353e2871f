//! One counter: a 32-bit cell, and a wide counter for the rare key that outgrows it.
//!
//! Invariants:
//! - A cell only grows, each time by a CAS from the value that the new one was computed from. So no
//!   two calls take the same numbers, and a later call takes greater ones.
//! - `WIDE_MARKER` in a cell is final: the counter lives in the wide map from then on. The cell
//!   changes to `WIDE_MARKER` by a CAS *while the map is locked*, and the entry is there before the
//!   lock is released. If the entry were added first without the lock, a caller could still move
//!   the cell by a CAS, and the wide counter would repeat its numbers. If the cell were changed
//!   before locking, a caller could find `WIDE_MARKER` and no entry.

use hashbrown::HashMap;

use super::TakeError;
use super::sync::{AtomicU32, Mutex, Ordering, lock_ignoring_poison};

/// Greatest offset a cell holds; the few values above are kept for markers.
pub(super) const NARROW_MAX: u32 = u32::MAX - 16;
/// Marks a cell whose counter is in the wide map.
const WIDE_MARKER: u32 = u32::MAX;

/// Place of a key's counter.
#[derive(Clone, Copy)]
pub(super) struct CounterCell<'a> {
    pub(super) narrow: &'a AtomicU32,
    /// Permanent id of the cell within its section.
    pub(super) id: u64,
}

/// Offsets of one counter before and after a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterAdvance {
    pub(super) before: u64,
    pub(super) after: u64,
}

/// The wide counters of a section, by cell id. Holders of the lock do a few instructions and one
/// possible growth of the map, never a wait.
pub(super) struct WideCounters(Mutex<HashMap<u64, u64>>);

impl Default for WideCounters {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl WideCounters {
    /// Moves the counter to `to(current offset)`, which must not be less; leaves it on an error.
    #[inline]
    pub(super) fn advance(
        &self,
        cell: CounterCell<'_>,
        to: impl Fn(u64) -> Result<u64, TakeError>,
    ) -> Result<CounterAdvance, TakeError> {
        let mut seen = cell.narrow.load(Ordering::Acquire);
        while seen != WIDE_MARKER {
            let before = u64::from(seen);
            let after = to(before)?;
            debug_assert!(after >= before, "a counter never goes back");
            if after == before {
                return Ok(CounterAdvance { before, after });
            }
            let moved = match u32::try_from(after) {
                Ok(narrow) if narrow <= NARROW_MAX => swap_cell(cell, seen, narrow),
                _ => self.make_wide(cell, seen, after),
            };
            match moved {
                Ok(()) => return Ok(CounterAdvance { before, after }),
                Err(now) => seen = now,
            }
        }
        self.advance_wide(cell, to)
    }

    /// Moves a counter that is wide, as `advance` does.
    #[cold]
    fn advance_wide(
        &self,
        cell: CounterCell<'_>,
        to: impl Fn(u64) -> Result<u64, TakeError>,
    ) -> Result<CounterAdvance, TakeError> {
        let mut wide = lock_ignoring_poison(&self.0);
        let counter = wide
            .get_mut(&cell.id)
            .unwrap_or_else(|| panic_missing_entry());
        let before = *counter;
        let after = to(before)?;
        debug_assert!(after >= before, "a counter never goes back");
        *counter = after;
        Ok(CounterAdvance { before, after })
    }

    /// Makes a counter wide, if its cell still has this value.
    #[cold]
    fn make_wide(&self, cell: CounterCell<'_>, seen: u32, after: u64) -> Result<(), u32> {
        let mut wide = lock_ignoring_poison(&self.0);
        swap_cell(cell, seen, WIDE_MARKER)?;
        wide.insert(cell.id, after);
        Ok(())
    }

    /// Returns the offset of the counter.
    pub(super) fn read_offset(&self, cell: CounterCell<'_>) -> u64 {
        match cell.narrow.load(Ordering::Acquire) {
            WIDE_MARKER => *lock_ignoring_poison(&self.0)
                .get(&cell.id)
                .unwrap_or_else(|| panic_missing_entry()),
            narrow => u64::from(narrow),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        lock_ignoring_poison(&self.0).allocation_size()
    }
}

#[inline]
fn swap_cell(cell: CounterCell<'_>, from: u32, to: u32) -> Result<(), u32> {
    cell.narrow
        .compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Acquire)
        .map(drop)
}

/// Panics on a cell marked wide without its entry: any value would risk a repeated number.
fn panic_missing_entry() -> ! {
    unreachable!("a cell marked wide has its entry before the lock is let go")
}
