//! Memory of counters: taken from regions in huge pages, and kept for the next section when
//! dropped.
//!
//! Invariant: memory that was taken is all zero, and no other section has it until it is put back.
//! If memory were handed out that another section still counts in, each would give out numbers of
//! the other. If it were not zero, keys that no caller touched would seem to be above their
//! section's base.
//!
//! Sizes are powers of two, and a piece lies at a multiple of its size in its region. A piece that
//! is put back is joined with its free other half, again and again, and cut for smaller sizes.
//!
//! Invariant: once the memory of counters has reached the limit, free memory is used before more is
//! mapped, for pieces of every size. Schedule that breaks it: sections of many small pieces fill
//! the budget. Sections that need large ones come, and some of the former are closed. Hardly any
//! two free neighbors join, so all large pieces would be new memory, and the process would grow to
//! twice the budget. Hence above the limit a large piece may consist of scattered chunks
//! ([`TakenPiece::Scattered`]).
//!
//! Invariant: sections have at most the limit and its slack. Schedule that breaks it: callers touch
//! all keys of more sections than the limit holds. They do so faster than the owner of the sections
//! checks the limit and closes some. Hence nothing is handed out above, and the caller must wait
//! until sections are closed.

use std::collections::{BTreeMap, BTreeSet};
// Not part of any protocol. This lock hands memory from thread to thread. The once-cell of a part
// of a section hands it from the thread that makes that part to a thread that reads it.
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::sync::AtomicU32;

/// Cells of the smallest piece, and of a chunk of a dense section: 4 KiB. Tiny under loom, which
/// visits each.
pub(super) const CHUNK_CELLS: usize = if cfg!(loom) { 2 } else { 1024 };
/// Cells of a region: 32 MiB, of which only what is touched takes memory.
const REGION_CELLS: usize = CHUNK_CELLS << 13;
/// Number of sizes: the greatest piece has 2^31 cells.
const PIECE_SIZES: usize = 22;

/// Cells that one section has for as long as it lives.
pub(super) type CellSlice = &'static [AtomicU32];
/// [`CHUNK_CELLS`] cells.
pub(super) type Chunk = &'static [AtomicU32; CHUNK_CELLS];

/// Cells in one piece, or in chunks of their own.
pub(super) enum TakenPiece {
    Whole(CellSlice),
    Scattered(Box<[Chunk]>),
}

/// Memory of counters of this process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterMemory {
    /// Bytes taken from the system and used once; never given back.
    pub mapped: usize,
    /// Bytes of `mapped` that no section has now.
    pub free: usize,
    /// Most bytes of the sections, kept by their owners; 0: no limit.
    pub limit: usize,
}

impl CounterMemory {
    /// Returns whether sections have more than the limit and half of its slack. Some should then be
    /// closed at once.
    pub fn is_tight(&self) -> bool {
        self.limit > 0
            && self.mapped - self.free > self.limit.saturating_add(limit_slack(self.limit) / 2)
    }
}

/// Smallest slack. An owner can close its sections only after they have grown.
const SLACK_MIN: usize = 64 << 20;

/// Returns the bytes that sections may have above the limit: a quarter of it, and at least 64 MiB.
fn limit_slack(limit: usize) -> usize {
    (limit / 4).max(SLACK_MIN)
}

/// Bytes up to which new memory is preferred to scattered free chunks. Sections may have this and
/// its slack.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

static POOL: Mutex<CellPool> = Mutex::new(CellPool::new());

struct CellPool {
    /// All regions, by the address of their first cell.
    regions: BTreeMap<usize, CellSlice>,
    /// Address of the newest region, and how many of its cells were used once; the others are zero.
    newest: (usize, usize),
    /// Addresses of free pieces, by size.
    free: [BTreeSet<usize>; PIECE_SIZES],
    /// Cells of free pieces.
    free_cells: usize,
    /// Cells used once.
    mapped_cells: usize,
}

/// Raises the limit of this process: an owner of sections keeps them within this number of bytes.
pub fn add_memory_limit(bytes: u64) {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let add = |limit: usize| Some(limit.saturating_add(bytes));
    // Always Some, so it does not fail.
    let _ = LIMIT.fetch_update(Relaxed, Relaxed, add);
}

/// Returns the memory that the counters of this process have.
pub fn counter_memory() -> CounterMemory {
    let pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    CounterMemory {
        mapped: pool.mapped_cells * size_of::<AtomicU32>(),
        free: pool.free_cells * size_of::<AtomicU32>(),
        limit: LIMIT.load(Relaxed),
    }
}

/// Takes `n` cells of zeros; `n` is [`CHUNK_CELLS`] times a power of two. None: sections have too
/// much already.
fn take_piece(n: usize) -> Option<CellSlice> {
    // loom's atomics belong to one run of a model, so nothing is left over for the next run.
    if cfg!(loom) {
        return Some(map_region(n));
    }
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if !pool.has_room(n, LIMIT.load(Relaxed)) {
        return None;
    }
    let Some(cells) = pool.cut_piece(n) else {
        return Some(pool.map_piece(n));
    };
    drop(pool);
    clear_cells(cells);
    Some(cells)
}

/// Takes `n` cells of zeros, in one piece unless that would take new memory above the limit. None:
/// sections have too much already.
pub(super) fn take_piece_or_chunks(n: usize) -> Option<TakenPiece> {
    if cfg!(loom) {
        return Some(TakenPiece::Whole(map_region(n)));
    }
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let limit = LIMIT.load(Relaxed);
    if !pool.has_room(n, limit) {
        return None;
    }
    match pool.take_chunks(n, limit / size_of::<AtomicU32>()) {
        Some(chunks) => {
            drop(pool);
            chunks.iter().for_each(|chunk| clear_cells(*chunk));
            Some(TakenPiece::Scattered(chunks))
        }
        None => {
            drop(pool);
            take_piece(n).map(TakenPiece::Whole)
        }
    }
}

fn clear_cells(cells: &[AtomicU32]) {
    cells.iter().for_each(|cell| cell.store(0, Relaxed));
}

/// Takes a piece of the smallest size, as [`take_piece`] does.
pub(super) fn take_chunk() -> Option<Chunk> {
    take_piece(CHUNK_CELLS)?.first_chunk()
}

/// Takes back memory that no thread uses any more.
#[cfg_attr(
    loom,
    expect(
        unused_variables,
        reason = "loom's atomics belong to one run of a model"
    )
)]
pub(super) fn put_back(all: impl Iterator<Item = CellSlice>) {
    #[cfg(not(loom))]
    {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        all.for_each(|cells| pool.keep_piece(address_of(cells), cells.len()));
    }
}

impl CellPool {
    const fn new() -> CellPool {
        CellPool {
            regions: BTreeMap::new(),
            newest: (0, REGION_CELLS),
            free: [const { BTreeSet::new() }; PIECE_SIZES],
            free_cells: 0,
            mapped_cells: 0,
        }
    }

    /// Returns whether sections may have `n` more cells by the limit (in bytes; 0: no limit).
    fn has_room(&self, n: usize, limit: usize) -> bool {
        let used = (self.mapped_cells - self.free_cells + n) * size_of::<AtomicU32>();
        limit == 0 || used <= limit.saturating_add(limit_slack(limit))
    }

    /// Takes the smallest free piece that is large enough, and keeps the rest of it free.
    fn cut_piece(&mut self, n: usize) -> Option<CellSlice> {
        let wanted = size_of_piece(n);
        let sizes = self.free[wanted..].iter_mut().zip(wanted..);
        let (at, found) = { sizes }.find_map(|(free, size)| Some((free.pop_last()?, size)))?;
        for size in wanted..found {
            let half = at + (CHUNK_CELLS << size) * size_of::<AtomicU32>();
            self.free[size].insert(half);
        }
        self.free_cells -= n;
        self.cells_at(at, n)
    }

    /// Takes free chunks for more than one chunk, if no free piece is large enough and new memory
    /// would pass the limit (in cells).
    fn take_chunks(&mut self, n: usize, limit: usize) -> Option<Box<[Chunk]>> {
        let whole = self.free[size_of_piece(n)..]
            .iter()
            .any(|free| !free.is_empty());
        if n == CHUNK_CELLS || whole || self.mapped_cells + n <= limit || self.free_cells < n {
            return None;
        }
        let chunks = (0..n / CHUNK_CELLS).map_while(|_| self.cut_piece(CHUNK_CELLS)?.first_chunk());
        Some(chunks.collect())
    }

    /// Takes memory that was never used. It begins at a multiple of `n`; the memory left out is
    /// kept.
    fn map_piece(&mut self, n: usize) -> CellSlice {
        if n > REGION_CELLS {
            let cells = map_region(n);
            self.regions.insert(address_of(cells), cells);
            self.mapped_cells += n;
            return cells;
        }
        let (at, used) = self.newest;
        let begin = used.next_multiple_of(n);
        self.keep_unused(at, used, begin.min(REGION_CELLS));
        if begin + n <= REGION_CELLS
            && let Some(cells) = self.cells_at(at + begin * size_of::<AtomicU32>(), n)
        {
            self.newest.1 = begin + n;
            self.mapped_cells += n;
            return cells;
        }
        self.keep_unused(at, begin.min(REGION_CELLS), REGION_CELLS);
        let new = map_region(REGION_CELLS);
        self.regions.insert(address_of(new), new);
        self.newest = (address_of(new), n);
        self.mapped_cells += n;
        &new[..n]
    }

    /// Keeps cells of the newest region that were never used.
    fn keep_unused(&mut self, at: usize, mut begin: usize, end: usize) {
        self.mapped_cells += end - begin;
        while begin < end {
            let aligned = 1 << (begin | REGION_CELLS).trailing_zeros();
            let n = aligned.min(1 << (end - begin).ilog2());
            self.keep_piece(at + begin * size_of::<AtomicU32>(), n);
            begin += n;
        }
    }

    /// Keeps a piece, joined with its other half as long as that is free.
    fn keep_piece(&mut self, at: usize, n: usize) {
        let Some((&base, region)) = self.regions.range(..=at).next_back() else {
            return;
        };
        self.free_cells += n;
        let place = |offset: usize| base + offset * size_of::<AtomicU32>();
        let (mut offset, mut n, whole) = ((at - base) / size_of::<AtomicU32>(), n, region.len());
        while n < whole && self.free[size_of_piece(n)].remove(&place(offset ^ n)) {
            offset &= !n;
            n *= 2;
        }
        self.free[size_of_piece(n)].insert(place(offset));
    }

    /// Returns the cells at an address.
    fn cells_at(&self, at: usize, n: usize) -> Option<CellSlice> {
        let (base, region) = self.regions.range(..=at).next_back()?;
        let begin = (at - base) / size_of::<AtomicU32>();
        region.get(begin..begin + n)
    }
}

/// Returns the size of a piece of this many cells.
fn size_of_piece(cells: usize) -> usize {
    (cells / CHUNK_CELLS).trailing_zeros() as usize
}

fn address_of(cells: &[AtomicU32]) -> usize {
    cells.as_ptr().addr()
}

#[cfg(not(loom))]
fn map_region(cells: usize) -> CellSlice {
    crate::huge_pages::zeroed_slice(cells)
}

#[cfg(loom)]
fn map_region(cells: usize) -> CellSlice {
    Vec::from_iter((0..cells).map(|_| AtomicU32::new(0))).leak()
}

#[cfg(all(test, not(loom)))]
mod tests;
