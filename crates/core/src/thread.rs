//! Which thread this is, for what each thread is to have one of.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Number of this thread, the same at each call: they are counted from 0 as they first ask.
#[inline]
pub fn number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: Cell<usize> = Cell::new(THREADS.fetch_add(1, Relaxed)));
    NUMBER.with(Cell::get)
}
