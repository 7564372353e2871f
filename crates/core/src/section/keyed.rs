//! Counters of a keyed section: a concurrent map from the hash of a key to its cell.
//!
//! Open-addressing tables, called levels, as many again as all before them together. A full level is
//! left as it is and the next one opened, so an entry never moves: a cell's address is stable, a
//! reader needs no lock and nothing is ever freed under it. Lookups go from the newest level, which
//! holds half of the keys, to the oldest.
//!
//! An entry takes 16 bytes. Of the key's 128-bit SipHash-1-3 under a secret hash key, 32 bits choose
//! the place and 96 are kept and compared. Should two keys ever agree in those 96 (odds of 2^-57 among
//! a million keys of one section), they share one counter: gaps, but still no number twice.
//!
//! Invariants:
//! - Entries are added only under the writer's lock, after looking again there, so a key has one
//!   entry. Without the second look two threads would each add one and hand the same numbers out.
//!   A reader's miss outside the lock is only a hint.
//! - `lo` is never 0 in a taken entry and is stored last, with release: who reads it also sees `hi`.
//!   (Safety does not hang on it: whoever sees less misses, and looks again under the lock.)
//! - A level never fills beyond 3/4, so each search ends at an empty entry, after a few steps.

// Accounting only, so loom need not see it.
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use siphasher::sip128::SipHasher13;

use super::Refusal;
use super::counter::Cell;
use super::sync::{AtomicU32, AtomicU64, Mutex, OnceLock, Ordering, lock};

/// Entries of the first level: 128 bytes. Tiny under loom, so that a test reaches the second.
const FIRST_LEVEL: usize = if cfg!(loom) { 2 } else { 8 };
/// All levels together hold 50 million keys.
const LEVELS: usize = if cfg!(loom) { 3 } else { 24 };

type Level = Box<[Entry]>;

struct Entry {
    lo: AtomicU64,
    hi: AtomicU32,
    offset: AtomicU32,
}

#[derive(Clone, Copy)]
struct Hash {
    lo: u64,
    hi: u32,
    place: u32,
}

pub(super) struct Keyed {
    hash_key: [u64; 2],
    /// Levels in use.
    depth: AtomicU32,
    levels: Box<[OnceLock<Level>; LEVELS]>,
    writer: Mutex<Writer>,
    bytes: AtomicUsize,
}

#[derive(Default)]
struct Writer {
    /// Entries the newest level can still take.
    room: usize,
}

impl Keyed {
    pub(super) fn new(hash_key: [u64; 2]) -> Self {
        Self {
            hash_key,
            depth: AtomicU32::new(0),
            levels: Box::new(std::array::from_fn(|_| OnceLock::new())),
            writer: Mutex::new(Writer::default()),
            bytes: AtomicUsize::new(size_of::<[OnceLock<Level>; LEVELS]>()),
        }
    }

    /// The key's cell, if it was touched.
    pub(super) fn find(&self, key: &[u8]) -> Option<Cell<'_>> {
        self.search(self.hash(key))
    }

    /// The key's cell; adds one if need be.
    pub(super) fn touch(&self, key: &[u8]) -> Result<Cell<'_>, Refusal> {
        let hash = self.hash(key);
        let mut writer = lock(&self.writer);
        if let Some(cell) = self.search(hash) {
            return Ok(cell);
        }
        if writer.room == 0 {
            writer.room = self.open_level()?;
        }
        let cell = self.add(hash).ok_or(Refusal::Full)?;
        writer.room -= 1;
        Ok(cell)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    fn hash(&self, key: &[u8]) -> Hash {
        let hash = SipHasher13::new_with_keys(self.hash_key[0], self.hash_key[1]).hash(key);
        Hash {
            lo: hash.h1.max(1),
            hi: (hash.h2 >> 32) as u32,
            place: hash.h2 as u32,
        }
    }

    fn search(&self, hash: Hash) -> Option<Cell<'_>> {
        let depth = self.depth.load(Ordering::Acquire) as usize;
        (0..depth).rev().find_map(|level| {
            let entries = self.levels[level].get()?;
            match probe(entries, hash)? {
                (at, true) => Some(cell(entries, level, at)),
                (_, false) => None,
            }
        })
    }

    /// Opens the next level and tells how many entries it may take. Writer only.
    fn open_level(&self) -> Result<usize, Refusal> {
        let depth = self.depth.load(Ordering::Acquire);
        let level = self.levels.get(depth as usize).ok_or(Refusal::Full)?;
        let size = FIRST_LEVEL << depth.saturating_sub(1);
        level.get_or_init(|| {
            self.bytes.fetch_add(size * size_of::<Entry>(), Relaxed);
            (0..size).map(|_| Entry::empty()).collect()
        });
        self.depth.store(depth + 1, Ordering::Release);
        Ok(size * 3 / 4)
    }

    /// Adds an entry to the newest level. Writer only, when the key has none and there is room.
    fn add(&self, hash: Hash) -> Option<Cell<'_>> {
        let level = (self.depth.load(Ordering::Acquire) as usize).checked_sub(1)?;
        let entries = self.levels[level].get()?;
        let (at, _) = probe(entries, hash)?;
        entries[at].hi.store(hash.hi, Ordering::Relaxed);
        entries[at].lo.store(hash.lo, Ordering::Release);
        Some(cell(entries, level, at))
    }
}

impl Entry {
    fn empty() -> Self {
        Self {
            lo: AtomicU64::new(0),
            hi: AtomicU32::new(0),
            offset: AtomicU32::new(0),
        }
    }
}

/// The entry of this hash (true), or the empty one where it would go (false).
fn probe(entries: &Level, hash: Hash) -> Option<(usize, bool)> {
    let mask = entries.len() - 1;
    (0..entries.len()).find_map(|step| {
        let at = (hash.place as usize + step) & mask;
        match entries[at].lo.load(Ordering::Acquire) {
            0 => Some((at, false)),
            lo if lo == hash.lo && entries[at].hi.load(Ordering::Relaxed) == hash.hi => {
                Some((at, true))
            }
            _ => None,
        }
    })
}

fn cell(entries: &Level, level: usize, at: usize) -> Cell<'_> {
    Cell {
        narrow: &entries[at].offset,
        id: (level as u64) << 32 | at as u64,
    }
}
