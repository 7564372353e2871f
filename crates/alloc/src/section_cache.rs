//! Sections found lately, kept so that the next frames find them with one look: going through the map
//! costs a handful of cache lines for each section, and of a thousand sections nearly every key of a
//! frame has one of its own.
//!
//! Invariants:
//! - An object is sealed before it leaves the map, so of an object kept here numbers are taken, and what
//!   it knows is told, only if its gate was open *after* it was found. Were it trusted for having been in the
//!   map once, the numbers of a section closed and opened again would be read as they were before.
//! - Whoever takes an object out of the map has it forgotten here: it holds the memory of its counters. What
//!   frames note, they found while they held the cache; so either they found the map without it, or it is
//!   forgotten after they noted it.
//! - Kept is only what was current by the table and of the session that the cache was last used with.
//!
//! There are as many caches as worker threads. Frames take one that is free and never wait for it.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use seqsvr_core::id::SectionKey;
use seqsvr_core::route::RoutingTable;
use seqsvr_core::thread;

use crate::loaded::Loaded;
use crate::session::Session;

/// Fewest and most places of a cache: 16 KiB to 1 MiB.
const PLACES: std::ops::RangeInclusive<usize> = 1_024..=65_536;

/// Sections by the last bits of their number.
#[derive(Default)]
pub(crate) struct SectionCache {
    /// Version of the table, and session, by which all in it are usual.
    version: u64,
    session: Option<Arc<Session>>,
    /// None or a power of two.
    places: Box<[Option<Place>]>,
}

struct Place {
    section: SectionKey,
    loaded: Arc<Loaded>,
}

impl SectionCache {
    /// The section, if it is kept.
    #[inline]
    pub(crate) fn get(&self, section: SectionKey) -> Option<&Loaded> {
        let place = self.places.get(place(section, self.places.len()))?.as_ref();
        let place = place.filter(|place| place.section == section)?;
        Some(&place.loaded)
    }

    /// Keeps sections that were found in the map, of so many there are.
    pub(crate) fn note(&mut self, found: Vec<Arc<Loaded>>, sections: usize) {
        if found.is_empty() {
            return;
        }
        let wanted = sections.next_power_of_two();
        let wanted = wanted.clamp(*PLACES.start(), *PLACES.end());
        if self.places.len() < wanted {
            self.places = std::iter::repeat_with(|| None).take(wanted).collect();
        }
        let places = self.places.len();
        for loaded in found {
            let section = loaded.key();
            self.places[place(section, places)] = Some(Place { section, loaded });
        }
    }

    fn forget(&mut self, section: SectionKey) -> Option<Arc<Loaded>> {
        let place = self.places.get_mut(place(section, self.places.len()))?;
        Some(place.take_if(|place| place.section == section)?.loaded)
    }

    fn use_with(&mut self, table: &RoutingTable, session: &Arc<Session>) {
        let same = |known: &Arc<Session>| Arc::ptr_eq(known, session);
        if self.version != table.version() || !self.session.as_ref().is_some_and(same) {
            self.places.fill_with(|| None);
            self.version = table.version();
            self.session = Some(session.clone());
        }
    }
}

#[inline]
fn place(section: SectionKey, places: usize) -> usize {
    // Sections of a namespace have neighbouring numbers; those of the next begin elsewhere.
    let first = section.namespace.0.wrapping_mul(0x9E37_79B9);
    first.wrapping_add(section.section.0) as usize & places.wrapping_sub(1)
}

/// The caches of a process.
pub(crate) struct SectionCaches(Box<[Mutex<SectionCache>]>);

impl SectionCaches {
    /// One for each of so many threads.
    pub(crate) fn new(threads: usize) -> SectionCaches {
        SectionCaches((0..threads.max(1)).map(|_| Mutex::default()).collect())
    }

    /// A cache that nobody uses now, for as long as it is held: across no await, and not while anything is
    /// taken out of the map.
    pub(crate) fn take(
        &self,
        table: &RoutingTable,
        session: &Arc<Session>,
    ) -> Option<MutexGuard<'_, SectionCache>> {
        let (others, mine) = self.0.split_at(thread::number() % self.0.len());
        let mut cache = mine.iter().chain(others).find_map(Mutex::try_lock)?;
        cache.use_with(table, session);
        Some(cache)
    }

    /// Forgets a section that was taken out of the map.
    pub(crate) fn forget(&self, section: SectionKey) {
        for cache in &self.0 {
            // Let go outside of the lock, as that may free all of its counters.
            let kept = cache.lock().forget(section);
            drop(kept);
        }
    }

    /// What all of them keep.
    #[cfg(test)]
    pub(crate) fn all(&self) -> Vec<Arc<Loaded>> {
        let caches = self.0.iter().map(Mutex::lock);
        let kept = caches.flat_map(|cache| {
            let places = cache.places.iter().flatten();
            places.map(|place| place.loaded.clone()).collect::<Vec<_>>()
        });
        kept.collect()
    }
}
