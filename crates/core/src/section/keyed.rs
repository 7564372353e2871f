//! Counters of a keyed section: a concurrent map from the hash of a key to its cell.
//!
//! Open-addressing tables, called levels. The first four are each four times as large as the one
//! before, so that few keys lie in few levels; the later ones are each twice as large. A full level
//! is left as it is and the next one opened, so an entry never moves. So a cell's address is
//! stable, a reader needs no lock, and nothing is ever freed under it. Lookups begin at the newest
//! level, which once it is full holds half of the keys or more, and end at the oldest.
//!
//! An entry is four cells, 16 bytes. One is the counter. The others are 96 bits of the key's
//! 128-bit SipHash-1-3 under a secret hash key, which are kept and compared; the other 32 choose
//! the place. If two keys ever agree in those 96 (odds of 2^-57 among a million keys of one
//! section), they share one counter: gaps, but still no number twice.
//!
//! Invariants:
//! - Entries are added only under the writer's lock, after looking again there, so a key has one
//!   entry. Without the second look two threads would each add one and hand the same numbers out. A
//!   reader's miss outside the lock is only a hint.
//! - The first cell is never 0 in a taken entry and is stored last, with release: a thread that
//!   reads it also sees the two after it. (Safety does not depend on it: a thread that sees less
//!   misses, and looks again under the lock.)
//! - A level never fills beyond 3/4, so each search ends at an empty entry, after a few steps.

// Accounting only, so loom need not see it.
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use siphasher::sip128::SipHasher13;

use super::cell_pool::{self, CHUNK_CELLS, CellSlice, TakenPiece};
use super::counter::CounterCell;
use super::keyed_layout::{
    ENTRY_CELLS, HASH_CELLS, KeyHash, LEVELS_MAX, LINE_CELLS, cell_of_entry, find_entry_in_line,
    level_entries,
};
use super::scattered_levels::ScatteredLevels;
use super::sync::{AtomicU32, Mutex, OnceLock, Ordering, lock_ignoring_poison};
use super::types::TakeError;

/// Levels fetched before a search: the newest three have three quarters of the keys and more.
const LEVELS_PREFETCHED: usize = 3;

/// Entries as cells.
enum LevelCells {
    /// Fewer cells than a chunk.
    Small(Box<[AtomicU32]>),
    Large(CellSlice),
}

impl Deref for LevelCells {
    type Target = [AtomicU32];

    #[inline]
    fn deref(&self) -> &[AtomicU32] {
        match self {
            LevelCells::Small(cells) => cells,
            LevelCells::Large(cells) => cells,
        }
    }
}

pub(super) struct KeyedCounters {
    hash_key: [u64; 2],
    /// Levels in use.
    depth: AtomicU32,
    levels: Box<[OnceLock<LevelCells>; LEVELS_MAX]>,
    /// Levels that are not in one piece; empty in `levels`.
    scattered: OnceLock<Box<ScatteredLevels>>,
    writer: Mutex<LevelWriter>,
    bytes: AtomicUsize,
}

#[derive(Default)]
struct LevelWriter {
    /// Entries the newest level can still take.
    room: usize,
}

impl KeyedCounters {
    pub(super) fn new(hash_key: [u64; 2]) -> Self {
        Self {
            hash_key,
            depth: AtomicU32::new(0),
            levels: Box::new(std::array::from_fn(|_| OnceLock::new())),
            scattered: OnceLock::new(),
            writer: Mutex::new(LevelWriter::default()),
            bytes: AtomicUsize::new(size_of::<[OnceLock<LevelCells>; LEVELS_MAX]>()),
        }
    }

    /// Returns the key's cell; adds one if needed.
    pub(super) fn touch_cell(&self, key: &[u8]) -> Result<CounterCell<'_>, TakeError> {
        let hash = self.hash_key(key);
        let mut writer = lock_ignoring_poison(&self.writer);
        if let Some(cell) = self.find_cell(hash) {
            return Ok(cell);
        }
        if writer.room == 0 {
            writer.room = self.open_level()?;
        }
        let cell = self.add_entry(hash).ok_or(TakeError::SectionFull)?;
        writer.room -= 1;
        Ok(cell)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    #[inline]
    pub(super) fn hash_key(&self, key: &[u8]) -> KeyHash {
        let hash = SipHasher13::new_with_keys(self.hash_key[0], self.hash_key[1]).hash(key);
        let kept = [hash.h1, hash.h1 >> 32, hash.h2 >> 32].map(|bits| bits as u32);
        KeyHash {
            tag: [kept[0].max(1), kept[1], kept[2]],
            first_line: hash.h2 as u32,
        }
    }

    /// Fetches the memory that shows where that is.
    #[inline]
    pub(super) fn prefetch_directory(&self) -> u32 {
        let depth = self.depth.load(Ordering::Acquire) as usize;
        let newest = self.levels[..depth].iter().rev();
        // Three neighbors may lie in two lines.
        newest
            .step_by(LEVELS_PREFETCHED - 1)
            .take(2)
            .fold(0, |sum, level| sum | u32::from(level.get().is_some()))
    }

    /// Fetches where a search looks first.
    #[inline]
    pub(super) fn prefetch_entry(&self, hash: KeyHash) -> u32 {
        let depth = self.depth.load(Ordering::Acquire) as usize;
        let newest = self.levels[..depth].iter().rev().take(LEVELS_PREFETCHED);
        newest.filter_map(OnceLock::get).fold(0, |sum, level| {
            let (lines, _) = level.as_chunks::<LINE_CELLS>();
            sum | lines[first_line(lines, hash)][0].load(Ordering::Relaxed)
        })
    }

    /// Returns the key's cell, if it was touched.
    #[inline]
    pub(super) fn find_cell(&self, hash: KeyHash) -> Option<CounterCell<'_>> {
        let depth = self.depth.load(Ordering::Acquire) as usize;
        let found = (0..depth).rev().find_map(|level| {
            let entries = self.levels[level].get()?;
            match find_entry(entries, hash)? {
                (at, true) => Some(cell_in_level(entries, level, at)),
                (_, false) => None,
            }
        });
        found.or_else(|| self.scattered()?.find_cell(hash, depth))
    }

    /// Returns the levels not in one piece. Under loom all memory comes in one piece.
    #[inline]
    fn scattered(&self) -> Option<&ScatteredLevels> {
        match cfg!(loom) {
            true => None,
            false => self.scattered.get().map(|scattered| &**scattered),
        }
    }

    /// Opens the next level and returns how many entries it may take. Writer only.
    fn open_level(&self) -> Result<usize, TakeError> {
        let depth = self.depth.load(Ordering::Acquire);
        let level = self
            .levels
            .get(depth as usize)
            .ok_or(TakeError::SectionFull)?;
        let size = level_entries(depth as usize);
        let cells = size * ENTRY_CELLS;
        let mut bytes = cells * size_of::<AtomicU32>();
        let taken = match cells < CHUNK_CELLS {
            true => Ok(LevelCells::Small(
                (0..cells).map(|_| AtomicU32::new(0)).collect(),
            )),
            false => {
                match cell_pool::take_piece_or_chunks(cells).ok_or(TakeError::MemoryExhausted)? {
                    TakenPiece::Whole(cells) => Ok(LevelCells::Large(cells)),
                    TakenPiece::Scattered(chunks) => Err(chunks),
                }
            }
        };
        match taken {
            Ok(cells) => drop(level.get_or_init(|| cells)),
            Err(chunks) => {
                bytes += size_of_val(&*chunks);
                let scattered = self.scattered.get_or_init(ScatteredLevels::new);
                scattered.set_level(depth as usize, chunks);
            }
        }
        self.bytes.fetch_add(bytes, Relaxed);
        self.depth.store(depth + 1, Ordering::Release);
        Ok(size * 3 / 4)
    }

    /// Adds an entry to the newest level. Writer only, when the key has none and there is room.
    fn add_entry(&self, hash: KeyHash) -> Option<CounterCell<'_>> {
        let level = (self.depth.load(Ordering::Acquire) as usize).checked_sub(1)?;
        let (entry, at) = match self.levels[level].get() {
            Some(entries) => {
                let (at, _) = find_entry(entries, hash)?;
                (entries.as_chunks().0.get(at)?, at)
            }
            None => self.scattered()?.find_empty(hash, level)?,
        };
        let [first, second, third] = hash.tag;
        entry[1].store(second, Ordering::Relaxed);
        entry[2].store(third, Ordering::Relaxed);
        entry[0].store(first, Ordering::Release);
        Some(cell_of_entry(entry, level, at))
    }
}

impl Drop for KeyedCounters {
    /// A thread that looks at a cell borrows this, so no thread does any more.
    fn drop(&mut self) {
        let levels = self.levels.iter().filter_map(OnceLock::get);
        cell_pool::put_back(levels.filter_map(|level| match level {
            LevelCells::Small(_) => None,
            LevelCells::Large(cells) => Some(*cells),
        }));
        if let Some(scattered) = self.scattered() {
            cell_pool::put_back(scattered.chunks().map(|chunk| chunk.as_slice()));
        }
    }
}

/// Returns the entry of this hash (true), or the empty one where it would go (false). Looks through
/// whole lines. In a full level a search for a key that is not there takes 1.6 lines; if it began
/// in the middle of a line, it would take 2.6.
#[inline]
fn find_entry(entries: &[AtomicU32], hash: KeyHash) -> Option<(usize, bool)> {
    let (lines, _) = entries.as_chunks::<LINE_CELLS>();
    let begin = first_line(lines, hash);
    (begin..begin + lines.len()).find_map(|line| {
        let line = line & (lines.len() - 1);
        find_entry_in_line(lines.get(line)?, line, hash)
    })
}

/// Returns the line where the search for a hash begins.
#[inline]
fn first_line(lines: &[[AtomicU32; LINE_CELLS]], hash: KeyHash) -> usize {
    hash.first_line as usize & (lines.len() - 1)
}

fn cell_in_level(entries: &[AtomicU32], level: usize, at: usize) -> CounterCell<'_> {
    CounterCell {
        narrow: &entries[at * ENTRY_CELLS + HASH_CELLS],
        id: (level as u64) << 32 | at as u64,
    }
}
