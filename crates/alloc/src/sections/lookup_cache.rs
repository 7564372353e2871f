//! Sections found recently, kept so that the next batches find them in one step. The map costs a
//! handful of cache lines for each section, and with a thousand sections nearly every key of a
//! batch has a section of its own.
//!
//! Invariants:
//! - An object is sealed before it leaves the map. So numbers of a cached object are taken or read
//!   only if its gate was open *after* it was found. Schedule that breaks it: an object is trusted
//!   because it was in the map once; its section is closed and opened again; its numbers are read
//!   as they were before.
//! - The task that takes an object out of the map removes it here afterwards, because the object
//!   holds the memory of its counters. Batches add what they found while they held the cache. So
//!   either they searched the map when the object had left it, or the object is removed here after
//!   they added it.
//! - Each object found here was current by a table of the requested version, and is of the
//!   requested session.
//!
//! There are as many caches as processors. Batches take a free one and never wait for it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use seqsvr_core::ids::SectionKey;

use crate::sections::loaded_section::LoadedSection;
use crate::session::leased_session::LeasedSession;

/// Minimum and maximum entries of a cache: 24 KiB to 1.5 MiB. With more sections than entries, the
/// other sections are found in the map.
const CACHE_ENTRIES: std::ops::RangeInclusive<usize> = 1_024..=65_536;
/// Entries for each section, so that few sections share one.
const CACHE_ENTRIES_PER_SECTION: usize = 4;

/// Cached sections by a hash of their number.
#[derive(Default)]
// Each thread writes to the lock of its cache all the time, so caches share no cache line.
#[repr(align(128))]
pub(crate) struct LookupCache {
    /// Session of all its sections.
    session: Option<Arc<LeasedSession>>,
    /// Empty, or a power of two.
    entries: Box<[Option<CacheEntry>]>,
}

struct CacheEntry {
    section: SectionKey,
    /// Version of the table by which it was current.
    version: u64,
    loaded: Arc<LoadedSection>,
}

impl LookupCache {
    /// Returns the section, if it is cached and was current by a table of this version.
    #[inline]
    pub(crate) fn find(&self, section: SectionKey, version: u64) -> Option<&LoadedSection> {
        let entry = self.entries.get(self.index_of(section))?.as_ref()?;
        (entry.section == section && entry.version == version).then_some(&*entry.loaded)
    }

    /// Adds sections that were found in the map and are current by a table of this version.
    /// `sections`: number of loaded sections.
    pub(crate) fn insert_found(
        &mut self,
        found: Vec<Arc<LoadedSection>>,
        version: u64,
        sections: usize,
    ) {
        let entry_count = sections
            .saturating_mul(CACHE_ENTRIES_PER_SECTION)
            .min(*CACHE_ENTRIES.end());
        let entry_count = entry_count.max(*CACHE_ENTRIES.start()).next_power_of_two();
        if self.entries.len() < entry_count {
            self.entries = std::iter::repeat_with(|| None).take(entry_count).collect();
        }
        for loaded in found {
            let section = loaded.key();
            self.entries[self.index_of(section)] = Some(CacheEntry {
                section,
                version,
                loaded,
            });
        }
    }

    fn forget(&mut self, gone: &Arc<LoadedSection>) {
        let index = self.index_of(gone.key());
        if let Some(entry) = self.entries.get_mut(index) {
            entry.take_if(|entry| Arc::ptr_eq(&entry.loaded, gone));
        }
    }

    /// Returns the index of a section's entry; it is beyond the end if there are no entries.
    #[inline]
    fn index_of(&self, section: SectionKey) -> usize {
        let key = u64::from(section.namespace.0) << 32 | u64::from(section.section.0);
        let bits = self.entries.len().trailing_zeros();
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits)) as usize
    }
}

/// Lookup caches of a process.
pub(crate) struct LookupCaches(Box<[Mutex<LookupCache>]>);

impl LookupCaches {
    /// Creates one cache for each of `threads` threads.
    pub(crate) fn new(threads: usize) -> LookupCaches {
        LookupCaches((0..threads.max(1)).map(|_| Mutex::default()).collect())
    }

    /// Locks a cache that no other thread uses now, if there is one. Hold it across no await, and
    /// not while an object is taken out of the map.
    pub(crate) fn try_acquire(
        &self,
        session: &Arc<LeasedSession>,
    ) -> Option<MutexGuard<'_, LookupCache>> {
        let (others, mine) = self.0.split_at(thread_number() % self.0.len());
        let mut cache = mine.iter().chain(others).find_map(Mutex::try_lock)?;
        if !(cache.session.as_ref()).is_some_and(|known| Arc::ptr_eq(known, session)) {
            *cache = LookupCache {
                session: Some(session.clone()),
                ..LookupCache::default()
            };
        }
        Some(cache)
    }

    /// Removes objects that were taken out of the map. Do not call it under a lock that others wait
    /// for: it waits for each cache, up to the time of a batch.
    pub(crate) fn forget(&self, gone: &[Arc<LoadedSection>]) {
        for cache in &self.0 {
            let mut cache = cache.lock();
            gone.iter().for_each(|loaded| cache.forget(loaded));
        }
    }

    /// Returns all cached sections.
    #[cfg(test)]
    pub(crate) fn all(&self) -> Vec<Arc<LoadedSection>> {
        let caches = self.0.iter().map(Mutex::lock);
        let cached = caches.flat_map(|cache| {
            let entries = cache.entries.iter().flatten();
            entries
                .map(|entry| entry.loaded.clone())
                .collect::<Vec<_>>()
        });
        cached.collect()
    }
}

/// Returns the number of this thread, the same at each call. Threads are counted from 0 in the
/// order of their first call.
#[inline]
fn thread_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: Cell<usize> = Cell::new(THREADS.fetch_add(1, Relaxed)));
    NUMBER.with(Cell::get)
}
