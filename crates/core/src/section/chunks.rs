//! Memory of counters: taken from regions in huge pages, and kept for the next section when dropped.
//!
//! Invariant: what was taken is all zero and nobody else has it until it is put back. Were memory
//! handed out that another section still counts in, each would give out numbers of the other; were it
//! not zero, keys nobody touched would seem to stand above their section's base.
//!
//! Sizes are powers of two. What is put back is cut for smaller ones and never joined again.

// Not part of any protocol: memory is handed from thread to thread by this lock, and from who makes a
// part of a section to who reads it by that part's once-cell.
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use super::sync::AtomicU32;

/// Cells of the smallest piece, and of a chunk of a dense section: 4 KiB. Tiny under loom, which visits
/// each.
pub(super) const CHUNK: usize = if cfg!(loom) { 2 } else { 1024 };
/// Cells of a region: 32 MiB, of which only what is touched takes memory.
const REGION: usize = CHUNK << 13;
/// Sizes there are: the greatest piece has 2^31 cells.
const SIZES: usize = 22;

/// Cells that one section has for as long as it lives.
pub(super) type Cells = &'static [AtomicU32];
/// [`CHUNK`] cells.
pub(super) type Chunk = &'static [AtomicU32; CHUNK];

static POOL: Mutex<Pool> = Mutex::new(Pool {
    fresh: &[],
    used: [const { Vec::new() }; SIZES],
});

struct Pool {
    /// What nobody ever had of the newest region; zero.
    fresh: Cells,
    /// What was put back, by size.
    used: [Vec<Cells>; SIZES],
}

/// `n` cells of zeros; `n` is [`CHUNK`] times a power of two.
pub(super) fn take(n: usize) -> Cells {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cells) = pool.cut(n) {
        drop(pool);
        cells.iter().for_each(|cell| cell.store(0, Relaxed));
        return cells;
    }
    // loom's atomics belong to one run of a model, so there nothing is left over for the next.
    if n > REGION || cfg!(loom) {
        drop(pool);
        return region(n);
    }
    loop {
        if let Some((cells, rest)) = pool.fresh.split_at_checked(n) {
            pool.fresh = rest;
            return cells;
        }
        let end = std::mem::replace(&mut pool.fresh, region(REGION));
        pool.keep(end);
    }
}

/// [`take`] of the smallest size.
#[expect(clippy::expect_used, reason = "that many were asked for")]
pub(super) fn take_chunk() -> Chunk {
    take(CHUNK).first_chunk().expect("as many as asked for")
}

/// Takes back what nobody looks at any more.
#[cfg_attr(
    loom,
    expect(
        unused_variables,
        reason = "loom's atomics belong to one run of a model"
    )
)]
pub(super) fn put_back(all: impl Iterator<Item = Cells>) {
    #[cfg(not(loom))]
    {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        all.for_each(|cells| pool.used[size_of(cells.len())].push(cells));
    }
}

impl Pool {
    /// Of what was put back: the smallest piece that is large enough, without what is too much of it.
    fn cut(&mut self, n: usize) -> Option<Cells> {
        let piece = self.used[size_of(n)..].iter_mut().find_map(Vec::pop)?;
        let (cells, rest) = piece.split_at(n);
        self.keep(rest);
        Some(cells)
    }

    /// Keeps cells in pieces as large as can be.
    fn keep(&mut self, mut rest: Cells) {
        while !rest.is_empty() {
            let size = (rest.len() / CHUNK).ilog2() as usize;
            let piece;
            (piece, rest) = rest.split_at(CHUNK << size);
            self.used[size].push(piece);
        }
    }
}

/// Which size so many cells are.
fn size_of(cells: usize) -> usize {
    (cells / CHUNK).trailing_zeros() as usize
}

#[cfg(not(loom))]
fn region(cells: usize) -> Cells {
    crate::pages::zeroed(cells)
}

#[cfg(loom)]
fn region(cells: usize) -> Cells {
    Vec::from_iter((0..cells).map(|_| AtomicU32::new(0))).leak()
}
