//! Levels of a keyed section that consist of chunks of their own.
//!
//! They exist because the memory of counters has reached its limit and no free piece is large
//! enough (see `chunks`). A search comes here only after it has missed in the levels that are in
//! one piece. So sections that have no scattered levels pay nothing for them.
//!
//! Invariant: the invariants of `keyed`; an entry lies within one chunk and never moves.

use super::chunks::{CHUNK, Chunk};
use super::counter::Cell;
use super::keyed::{ENTRY, Hash, LEVELS, LINE, cell_at, probe_line};
use super::sync::{AtomicU32, OnceLock};

/// Lines of a chunk.
const LINES: usize = if CHUNK < LINE { 1 } else { CHUNK / LINE };
/// Entries of a chunk.
const ENTRIES: usize = if CHUNK < ENTRY { 1 } else { CHUNK / ENTRY };

/// Levels by their number; those in one piece are empty here.
pub(super) struct Scattered {
    levels: [OnceLock<Box<[Chunk]>>; LEVELS],
}

impl Scattered {
    pub(super) fn new() -> Box<Scattered> {
        let levels = std::array::from_fn(|_| OnceLock::new());
        Box::new(Scattered { levels })
    }

    pub(super) fn set(&self, level: usize, chunks: Box<[Chunk]>) {
        self.levels[level].get_or_init(|| chunks);
    }

    /// Returns the key's cell, if it was touched.
    #[cold]
    pub(super) fn search(&self, hash: Hash, depth: usize) -> Option<Cell<'_>> {
        (0..depth).rev().find_map(|level| {
            let chunks = self.levels[level].get()?;
            match probe(chunks, hash)? {
                (at, true) => Some(cell_at(entry(chunks, at)?, level, at)),
                (_, false) => None,
            }
        })
    }

    /// Returns the empty entry where a new key would go, and its number.
    pub(super) fn free(&self, hash: Hash, level: usize) -> Option<(&[AtomicU32; ENTRY], usize)> {
        let chunks = self.levels[level].get()?;
        let (at, _) = probe(chunks, hash)?;
        Some((entry(chunks, at)?, at))
    }

    pub(super) fn chunks(&self) -> impl Iterator<Item = Chunk> {
        let levels = self.levels.iter().filter_map(OnceLock::get);
        levels.flat_map(|chunks| chunks.iter().copied())
    }
}

fn entry(chunks: &[Chunk], at: usize) -> Option<&[AtomicU32; ENTRY]> {
    let (entries, _) = chunks.get(at / ENTRIES)?.as_chunks::<ENTRY>();
    entries.get(at % ENTRIES)
}

/// Searches as in a level of one piece.
fn probe(chunks: &[Chunk], hash: Hash) -> Option<(usize, bool)> {
    let lines = chunks.len() * LINES;
    let begin = hash.place as usize & (lines - 1);
    (begin..begin + lines).find_map(|line| {
        let line = line & (lines - 1);
        let (of_chunk, _) = chunks.get(line / LINES)?.as_chunks::<LINE>();
        probe_line(of_chunk.get(line % LINES)?, line, hash)
    })
}
