//! Locations of the items of a block, found before any number is taken: their sections, their
//! lookups there, and their counters.

use std::hint::black_box;

use seqsvr_core::namespace::Namespace;
use seqsvr_core::section::{CounterKey, CounterRef, KeyLookup, Section};

use super::key_location::with_section_key;
use crate::batch::request::BatchRequest;
use crate::sections::loaded_section::LoadedSection;

/// Items located together: a few times as many cache misses as a core can have in flight.
pub(super) const LOOKUP_BLOCK_ITEMS: usize = 64;

/// Locations of the items of a block, in columns. Entries of all fields together would be copied
/// while their parts are still on their way to the cache.
pub(super) struct LookupBlock<'m> {
    /// None: not servable by the fast path.
    pub(super) sections: [Option<&'m LoadedSection>; LOOKUP_BLOCK_ITEMS],
    /// Index of a uid in its dense section.
    pub(super) dense_indices: [u32; LOOKUP_BLOCK_ITEMS],
    /// Lookups of keys of keyed sections.
    key_lookups: Vec<Option<KeyLookup>>,
    /// None: the key and its neighbors are new.
    pub(super) counters: [Option<CounterRef<'m>>; LOOKUP_BLOCK_ITEMS],
}

impl LookupBlock<'_> {
    pub(super) fn empty() -> Self {
        LookupBlock {
            sections: [None; LOOKUP_BLOCK_ITEMS],
            dense_indices: [0; LOOKUP_BLOCK_ITEMS],
            key_lookups: Vec::new(),
            counters: [None; LOOKUP_BLOCK_ITEMS],
        }
    }

    /// Hashes `n` keys of keyed sections, and prefetches where the sections will look for them
    /// first. Hashing leaves a core no room to look ahead, so the directories that hold those
    /// addresses are prefetched before it.
    pub(super) fn prefetch_keys(
        &mut self,
        batch: &BatchRequest,
        begin: usize,
        n: usize,
        namespace: &Namespace,
    ) {
        let known_sections = self.sections[..n].iter().flatten();
        black_box(known_sections.fold(0, |sum, loaded| sum | loaded.section.prefetch_directory()));
        self.key_lookups.clear();
        self.key_lookups.extend((0..n).map(|at| {
            let loaded = self.sections[at]?;
            with_section_key(batch.key_at(begin + at), namespace, 0, |key| {
                loaded.section.prepare_lookup(key)
            })
        }));
        let lookups = self.sections[..n].iter().zip(&self.key_lookups);
        let fetched = lookups
            .filter_map(|(loaded, sought)| Some((*loaded)?.section.prefetch_entry((*sought)?)));
        black_box(fetched.fold(0, u32::wrapping_add));
    }

    /// Clears the lookups, because keys of dense sections are not hashed.
    pub(super) fn clear_lookups(&mut self) {
        self.key_lookups.clear();
    }

    /// Returns the lookup of an item in its section.
    #[inline]
    pub(super) fn key_lookup(&self, at: usize, section: &Section) -> Option<KeyLookup> {
        match self.key_lookups.get(at) {
            Some(sought) => *sought,
            None => section.prepare_lookup(CounterKey::Dense(self.dense_indices[at])),
        }
    }
}
