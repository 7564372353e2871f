//! Sections found lately, kept so that the next frames find them with one look: going through the
//! map costs a handful of cache lines for each section, and of a thousand sections nearly every key
//! of a frame has one of its own.
//!
//! Invariants:
//! - An object is sealed before it leaves the map, so of an object kept here numbers are taken, and
//!   what it knows is told, only if its gate was open *after* it was found. Were it trusted for
//!   having been in the map once, the numbers of a section closed and opened again would be read as
//!   they were before.
//! - Whoever takes an object out of the map has it forgotten here afterwards: it holds the memory
//!   of its counters. What frames note, they found while they held the cache; so either they found
//!   the map without it, or it is forgotten after they noted it.
//! - What is found was current by a table of this very version, and is of this very session.
//!
//! There are as many caches as processors. Frames take one that is free and never wait for it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use seqsvr_core::id::SectionKey;

use crate::sections::loaded_section::LoadedSection;
use crate::session::leased_session::LeasedSession;

/// Fewest and most places of a cache: 24 KiB to 1.5 MiB. With more sections than places the rest is
/// found in the map.
const CACHE_ENTRIES: std::ops::RangeInclusive<usize> = 1_024..=65_536;
/// Places for each section: few shall share one.
const CACHE_ENTRIES_PER_SECTION: usize = 4;

/// Sections by a hash of their number.
#[derive(Default)]
// Threads write to the locks of theirs all the time.
#[repr(align(128))]
pub(crate) struct LookupCache {
    /// All in it are of this session.
    session: Option<Arc<LeasedSession>>,
    /// None or a power of two.
    entries: Box<[Option<CacheEntry>]>,
}

struct CacheEntry {
    section: SectionKey,
    /// Of the table by which it was current.
    version: u64,
    loaded: Arc<LoadedSection>,
}

impl LookupCache {
    /// The section, if it is kept and was current by a table of this version.
    #[inline]
    pub(crate) fn find(&self, section: SectionKey, version: u64) -> Option<&LoadedSection> {
        let entry = self.entries.get(self.index_of(section))?.as_ref()?;
        (entry.section == section && entry.version == version).then_some(&*entry.loaded)
    }

    /// Keeps sections that were found in the map and are current by a table of this version. There
    /// are so many in all.
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

    /// Beyond the end if there are none.
    #[inline]
    fn index_of(&self, section: SectionKey) -> usize {
        let key = u64::from(section.namespace.0) << 32 | u64::from(section.section.0);
        let bits = self.entries.len().trailing_zeros();
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits)) as usize
    }
}

/// The caches of a process.
pub(crate) struct LookupCaches(Box<[Mutex<LookupCache>]>);

impl LookupCaches {
    /// One for each of so many threads.
    pub(crate) fn new(threads: usize) -> LookupCaches {
        LookupCaches((0..threads.max(1)).map(|_| Mutex::default()).collect())
    }

    /// A cache that nobody uses now, for as long as it is held: across no await, and not while
    /// anything is taken out of the map.
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

    /// Forgets objects that were taken out of the map. Not under a lock that others wait for: each
    /// cache is waited for, up to what a batch of frames takes.
    pub(crate) fn forget(&self, gone: &[Arc<LoadedSection>]) {
        for cache in &self.0 {
            let mut cache = cache.lock();
            gone.iter().for_each(|loaded| cache.forget(loaded));
        }
    }

    /// What all of them keep.
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

/// Number of this thread, the same at each call: they are counted from 0 as they first ask.
#[inline]
fn thread_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: Cell<usize> = Cell::new(THREADS.fetch_add(1, Relaxed)));
    NUMBER.with(Cell::get)
}
