//! Levels of a keyed section that consist of chunks of their own.
//!
//! They exist because the memory of counters has reached its limit and no free piece is large
//! enough (see `cell_pool`). A search comes here only after it has missed in the levels that are in
//! one piece. So sections that have no scattered levels pay nothing for them.
//!
//! Invariant: the invariants of `keyed`; an entry lies within one chunk and never moves.

use super::cell_pool::{CHUNK_CELLS, Chunk};
use super::counter::CounterCell;
use super::keyed_layout::{
    ENTRY_CELLS, KeyHash, LEVELS_MAX, LINE_CELLS, cell_of_entry, find_entry_in_line,
};
use super::sync::{AtomicU32, OnceLock};

/// Lines of a chunk.
const CHUNK_LINES: usize = if CHUNK_CELLS < LINE_CELLS {
    1
} else {
    CHUNK_CELLS / LINE_CELLS
};
/// Entries of a chunk.
const CHUNK_ENTRIES: usize = if CHUNK_CELLS < ENTRY_CELLS {
    1
} else {
    CHUNK_CELLS / ENTRY_CELLS
};

/// Levels by their number; those in one piece are empty here.
pub(super) struct ScatteredLevels {
    levels: [OnceLock<Box<[Chunk]>>; LEVELS_MAX],
}

impl ScatteredLevels {
    pub(super) fn new() -> Box<ScatteredLevels> {
        let levels = std::array::from_fn(|_| OnceLock::new());
        Box::new(ScatteredLevels { levels })
    }

    pub(super) fn set_level(&self, level: usize, chunks: Box<[Chunk]>) {
        self.levels[level].get_or_init(|| chunks);
    }

    /// Returns the key's cell, if it was touched.
    #[cold]
    pub(super) fn find_cell(&self, hash: KeyHash, depth: usize) -> Option<CounterCell<'_>> {
        (0..depth).rev().find_map(|level| {
            let chunks = self.levels[level].get()?;
            match find_entry(chunks, hash)? {
                (at, true) => Some(cell_of_entry(entry_at(chunks, at)?, level, at)),
                (_, false) => None,
            }
        })
    }

    /// Returns the empty entry where a new key would go, and its number.
    pub(super) fn find_empty(
        &self,
        hash: KeyHash,
        level: usize,
    ) -> Option<(&[AtomicU32; ENTRY_CELLS], usize)> {
        let chunks = self.levels[level].get()?;
        let (at, _) = find_entry(chunks, hash)?;
        Some((entry_at(chunks, at)?, at))
    }

    pub(super) fn chunks(&self) -> impl Iterator<Item = Chunk> {
        let levels = self.levels.iter().filter_map(OnceLock::get);
        levels.flat_map(|chunks| chunks.iter().copied())
    }
}

fn entry_at(chunks: &[Chunk], at: usize) -> Option<&[AtomicU32; ENTRY_CELLS]> {
    let (entries, _) = chunks.get(at / CHUNK_ENTRIES)?.as_chunks::<ENTRY_CELLS>();
    entries.get(at % CHUNK_ENTRIES)
}

/// Searches as in a level of one piece.
fn find_entry(chunks: &[Chunk], hash: KeyHash) -> Option<(usize, bool)> {
    let lines = chunks.len() * CHUNK_LINES;
    let begin = hash.first_line as usize & (lines - 1);
    (begin..begin + lines).find_map(|line| {
        let line = line & (lines - 1);
        let (of_chunk, _) = chunks.get(line / CHUNK_LINES)?.as_chunks::<LINE_CELLS>();
        find_entry_in_line(of_chunk.get(line % CHUNK_LINES)?, line, hash)
    })
}
