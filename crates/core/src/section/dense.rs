//! Counters of a dense section: 4 bytes a uid, in chunks that come with their first touched uid.
//!
//! Neighboring uids are touched together, so a chunk's unused cells stay few, while an untouched
//! chunk costs one empty directory entry. A chunk, once there, stays at its place.

// Accounting only, so loom need not see it.
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::TakeError;
use super::cell_pool::{self, CHUNK_CELLS, Chunk};
use super::counter::CounterCell;
use super::sync::{AtomicU32, OnceLock};

pub(super) struct DenseCounters {
    size: u32,
    chunks: Box<[OnceLock<Chunk>]>,
    bytes: AtomicUsize,
}

impl DenseCounters {
    pub(super) fn new(size: u32) -> Self {
        let chunks: Box<[OnceLock<Chunk>]> = (0..(size as usize).div_ceil(CHUNK_CELLS))
            .map(|_| OnceLock::new())
            .collect();
        let bytes = AtomicUsize::new(size_of_val(&*chunks));
        Self {
            size,
            chunks,
            bytes,
        }
    }

    /// Returns the uid's cell, if its chunk was touched.
    #[inline]
    pub(super) fn find_cell(&self, index: u32) -> Result<Option<CounterCell<'_>>, TakeError> {
        Ok(self
            .chunk_of(index)?
            .get()
            .map(|chunk| cell_in_chunk(chunk, index)))
    }

    /// Returns the uid's cell; makes its chunk if needed.
    pub(super) fn touch_cell(&self, index: u32) -> Result<CounterCell<'_>, TakeError> {
        let place = self.chunk_of(index)?;
        let chunk = match place.get() {
            Some(chunk) => chunk,
            None => self.make_chunk(place)?,
        };
        Ok(cell_in_chunk(chunk, index))
    }

    /// Returns the chunk of a place that had none. One of two threads makes it.
    fn make_chunk<'a>(&self, place: &'a OnceLock<Chunk>) -> Result<&'a Chunk, TakeError> {
        let taken = cell_pool::take_chunk().ok_or(TakeError::MemoryExhausted)?;
        let kept = place.get_or_init(|| taken);
        if std::ptr::eq(*kept, taken) {
            let bytes = size_of::<[AtomicU32; CHUNK_CELLS]>();
            self.bytes.fetch_add(bytes, Relaxed);
        } else {
            cell_pool::put_back(std::iter::once(taken.as_slice()));
        }
        Ok(kept)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    #[inline]
    fn chunk_of(&self, index: u32) -> Result<&OnceLock<Chunk>, TakeError> {
        if index >= self.size {
            return Err(TakeError::WrongSection);
        }
        Ok(&self.chunks[index as usize / CHUNK_CELLS])
    }
}

impl Drop for DenseCounters {
    /// A thread that looks at a cell borrows this, so no thread does any more.
    fn drop(&mut self) {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        cell_pool::put_back(chunks.map(|chunk| chunk.as_slice()));
    }
}

#[inline]
fn cell_in_chunk<'a>(chunk: Chunk, index: u32) -> CounterCell<'a> {
    CounterCell {
        narrow: &chunk[index as usize % CHUNK_CELLS],
        id: u64::from(index),
    }
}
