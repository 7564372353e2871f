//! Layout of a keyed section in memory: its levels, their lines, and the entries in a line.
//!
//! What an entry holds, and why it never moves, is in `keyed`.

use super::counter::CounterCell;
use super::sync::{AtomicU32, Ordering};

/// Number of levels, which together hold 50 million keys.
pub(super) const LEVELS_MAX: usize = if cfg!(loom) { 3 } else { 20 };

/// Returns the entries of a level; the first has 8, 128 bytes. Tiny under loom, so that a test
/// reaches the last.
pub(super) const fn level_entries(level: usize) -> usize {
    match level {
        _ if cfg!(loom) => 2 << level.saturating_sub(1),
        0..=3 => 8 << (2 * level),
        _ => 64 << level,
    }
}

/// Cells of an entry: three of the hash, and the offset.
pub(super) const ENTRY_CELLS: usize = 4;
/// Cells of the hash; the offset follows them.
pub(super) const HASH_CELLS: usize = 3;
/// Cells of a cache line; those of the first level under loom.
pub(super) const LINE_CELLS: usize = if cfg!(loom) { 8 } else { 16 };

/// Hash by which a key is found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyHash {
    /// Bits that are kept and compared; the first cell is not 0.
    pub(super) tag: [u32; HASH_CELLS],
    /// Bits that choose the line where the search begins.
    pub(super) first_line: u32,
}

/// Searches the line of that number: returns the entry of this hash (true), or the first empty one
/// (false).
#[inline(always)]
pub(super) fn find_entry_in_line(
    cells: &[AtomicU32; LINE_CELLS],
    line: usize,
    hash: KeyHash,
) -> Option<(usize, bool)> {
    let [first, second, third] = hash.tag;
    let (entries, _) = cells.as_chunks::<ENTRY_CELLS>();
    let mut all = (line * entries.len()..).zip(entries);
    all.find_map(|(at, entry)| match entry[0].load(Ordering::Acquire) {
        0 => Some((at, false)),
        kept if kept == first
            && entry[1].load(Ordering::Relaxed) == second
            && entry[2].load(Ordering::Relaxed) == third =>
        {
            Some((at, true))
        }
        _ => None,
    })
}

/// Returns the counter of the entry of that number in a level.
#[inline]
pub(super) fn cell_of_entry(
    entry: &[AtomicU32; ENTRY_CELLS],
    level: usize,
    at: usize,
) -> CounterCell<'_> {
    CounterCell {
        narrow: &entry[HASH_CELLS],
        id: (level as u64) << 32 | at as u64,
    }
}
