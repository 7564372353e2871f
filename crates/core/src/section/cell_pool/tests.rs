//! Pieces of a pool: taken, put back, joined, scattered.

use super::*;

/// A pool of its own: sections of other tests use the one of the process.
fn pool() -> CellPool {
    CellPool::new()
}

impl CellPool {
    fn take(&mut self, n: usize) -> CellSlice {
        self.cut_piece(n).unwrap_or_else(|| self.map_piece(n))
    }

    fn keep_all(&mut self, all: impl IntoIterator<Item = CellSlice>) {
        for cells in all {
            self.keep_piece(address_of(cells), cells.len());
        }
    }
}

fn marked(cells: CellSlice, mark: u32) -> CellSlice {
    cells.iter().for_each(|cell| cell.store(mark, Relaxed));
    cells
}

/// Pieces of all sizes, taken and put back in a random order: no cell is in two of them.
#[test]
fn cell_pool_pieces_share_no_cell() {
    let mut pool = pool();
    let (mut held, mut seed): (Vec<(u32, CellSlice)>, u64) = (Vec::new(), 7);
    for mark in 1..3_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = (seed >> 33) as usize;
        let n = CHUNK_CELLS << (random % 9);
        held.push((mark, marked(pool.take(n), mark)));
        if !random.is_multiple_of(3) || held.len() > 100 {
            let (mark, cells) = held.swap_remove(random / 16 % held.len());
            assert!(cells.iter().all(|cell| cell.load(Relaxed) == mark));
            pool.keep_all([cells]);
        }
        let held: usize = held.iter().map(|(_, cells)| cells.len()).sum();
        assert_eq!(held + pool.free_cells, pool.mapped_cells);
    }
    pool.keep_all(held.into_iter().map(|(_, cells)| cells));
    assert_eq!(pool.free_cells, pool.mapped_cells);
}

/// Schedule: small pieces fill the memory and are put back; then large ones come, then small ones.
#[test]
fn cell_pool_joins_returned_pieces() {
    let mut pool = pool();
    for n in [
        CHUNK_CELLS,
        CHUNK_CELLS << 4,
        CHUNK_CELLS << 13,
        CHUNK_CELLS << 2,
    ] {
        let all: Vec<_> = (0..REGION_CELLS / n).map(|_| pool.take(n)).collect();
        assert_eq!(
            (pool.mapped_cells, pool.free_cells),
            (REGION_CELLS, 0),
            "{n}"
        );
        pool.keep_all(all);
        assert_eq!(pool.free_cells, REGION_CELLS);
    }
    // Larger than a region.
    let huge = pool.take(REGION_CELLS * 2);
    pool.keep_all([huge]);
    let again: Vec<_> = (0..3).map(|_| pool.take(REGION_CELLS)).collect();
    assert_eq!(pool.mapped_cells, 3 * REGION_CELLS);
    pool.keep_all(again);
    assert_eq!(pool.free_cells, 3 * REGION_CELLS);
}

/// Schedule: every second small piece stays in use, so nothing can be joined; large ones come.
#[test]
fn cell_pool_above_limit_uses_free_chunks_first() {
    let mut pool = pool();
    let all: Vec<_> = (0..REGION_CELLS / CHUNK_CELLS)
        .map(|_| pool.take(CHUNK_CELLS))
        .collect();
    let halves = all.into_iter().enumerate();
    let (free, used): (Vec<_>, Vec<_>) = halves.partition(|(i, _)| i % 2 == 0);
    for (_, cells) in &used {
        marked(cells, 1);
    }
    pool.keep_all(free.into_iter().map(|(_, cells)| cells));
    assert!(
        pool.cut_piece(2 * CHUNK_CELLS).is_none(),
        "nothing is joined"
    );
    let n = 16 * CHUNK_CELLS;
    assert!(
        pool.take_chunks(n, REGION_CELLS + n).is_none(),
        "new memory is below the limit"
    );
    for _ in 0..REGION_CELLS / n / 2 {
        let chunks = pool.take_chunks(n, REGION_CELLS).expect("free chunks");
        assert_eq!(chunks.len(), 16);
        chunks.iter().for_each(|chunk| clear_cells(*chunk));
    }
    assert!(pool.take_chunks(n, REGION_CELLS).is_none(), "none is left");
    assert_eq!((pool.mapped_cells, pool.free_cells), (REGION_CELLS, 0));
    for (_, cells) in &used {
        assert!(cells.iter().all(|cell| cell.load(Relaxed) == 1));
    }
}
