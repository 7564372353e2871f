//! Chunks of counters: taken from regions in huge pages, and kept for the next section when dropped.
//!
//! Invariant: a chunk that was taken is all zero and nobody else has it until it is put back. Were one
//! handed out that another section still counts in, each would give out numbers of the other; were one
//! not zero, uids nobody touched would seem to stand above their section's base.

// Not part of any protocol: chunks are handed from thread to thread by this lock, and from who makes a
// section's directory to who reads it by the directory.
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use super::sync::AtomicU32;

/// Cells in a chunk: 4 KiB. Tiny under loom, which visits each.
pub(super) const CHUNK: usize = if cfg!(loom) { 2 } else { 1024 };
/// Cells of a region: 32 MiB, of which only what is touched takes memory.
#[cfg(not(loom))]
const REGION: usize = 8 << 20;

/// Cells that one section has for as long as it lives.
pub(super) type Chunk = &'static [AtomicU32; CHUNK];

static POOL: Mutex<Pool> = Mutex::new(Pool {
    fresh: &[],
    used: Vec::new(),
});

struct Pool {
    /// What nobody ever had of the newest region; zero.
    fresh: &'static [AtomicU32],
    /// What was put back.
    used: Vec<Chunk>,
}

/// A chunk of zeros.
pub(super) fn take() -> Chunk {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(chunk) = pool.used.pop() {
        drop(pool);
        chunk.iter().for_each(|cell| cell.store(0, Relaxed));
        return chunk;
    }
    loop {
        if let Some((chunk, rest)) = pool.fresh.split_first_chunk() {
            pool.fresh = rest;
            return chunk;
        }
        pool.fresh = region();
    }
}

/// Takes back chunks that nobody looks at any more.
#[cfg_attr(
    loom,
    expect(
        unused_variables,
        reason = "loom's atomics belong to one run of a model"
    )
)]
pub(super) fn put_back(chunks: impl Iterator<Item = Chunk>) {
    #[cfg(not(loom))]
    {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        pool.used.extend(chunks);
    }
}

#[cfg(not(loom))]
fn region() -> &'static [AtomicU32] {
    crate::pages::zeroed(REGION)
}

#[cfg(loom)]
fn region() -> &'static [AtomicU32] {
    Vec::from_iter((0..CHUNK).map(|_| AtomicU32::new(0))).leak()
}
