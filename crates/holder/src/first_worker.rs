//! The first worker of a holder, as a thread knows it.
//!
//! A look at the list of workers takes two atomic exchanges, longer than the rest of an id. So each
//! thread keeps the first worker of the holder that it used last, with the version of the list.
//!
//! Invariant: a thread uses it for this very holder only. Schedule that breaks it with a counter of
//! each holder: a thread takes an id of one family, then one of another whose list has been
//! published as often, and gets an id of the first family. So versions are unique in the process.
//! A worker that is no longer in the list is sealed, so one that is kept too long gives no id.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::held_worker::HeldWorker;

thread_local! {
    /// Version of a list, and its first worker.
    static KNOWN: RefCell<Option<(u64, Arc<HeldWorker>)>> = const { RefCell::new(None) };
}

/// Returns a version that no other list of this process has.
pub(crate) fn next_version() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// Uses the first worker of a list whose version was read before; None: it has none.
#[inline]
pub(crate) fn with_first_worker<T>(
    version: u64,
    list: &ArcSwap<Vec<Arc<HeldWorker>>>,
    consume: impl FnOnce(&HeldWorker) -> Option<T>,
) -> Option<T> {
    let used = KNOWN.try_with(|known| {
        if let Some((of, worker)) = &*known.borrow()
            && *of == version
        {
            return consume(worker);
        }
        let first = find(list)?;
        let used = consume(&first);
        known.replace(Some((version, first)));
        used
    });
    // At the end of a thread there is none.
    used.ok().flatten()
}

#[cold]
fn find(list: &ArcSwap<Vec<Arc<HeldWorker>>>) -> Option<Arc<HeldWorker>> {
    list.load().first().cloned()
}
