//! What was found of the items of a block, before anything is taken: their sections, what to look
//! for there, and their counters.

use std::hint::black_box;

use seqsvr_core::namespace::Namespace;
use seqsvr_core::section::{Key, Section, Sought, Spot};

use super::place::with_key;
use crate::frame::BatchRequest;
use crate::loaded::LoadedSection;

/// Items looked up together: as many misses as a core can have under way, a few times over.
pub(super) const BLOCK: usize = 64;

/// What was found of the items of a block. In columns: an entry of all would be copied about while
/// its parts are still on their way to the cache.
pub(super) struct LookupBlock<'m> {
    /// None: not as usual.
    pub(super) loaded: [Option<&'m LoadedSection>; BLOCK],
    /// Of a uid in its dense section.
    pub(super) indices: [u32; BLOCK],
    /// Of keys of keyed sections.
    sought: Vec<Option<Sought>>,
    /// None: nobody touched it or a neighbour yet.
    pub(super) spots: [Option<Spot<'m>>; BLOCK],
}

impl LookupBlock<'_> {
    pub(super) fn none() -> Self {
        LookupBlock {
            loaded: [None; BLOCK],
            indices: [0; BLOCK],
            sought: Vec::new(),
            spots: [None; BLOCK],
        }
    }

    /// Hashes `n` keys of keyed sections, and fetches where the sections will look for them first.
    /// Before hashing, which leaves a core no room to look ahead, it fetches what tells where that
    /// is.
    pub(super) fn seek(
        &mut self,
        frame: &BatchRequest,
        begin: usize,
        n: usize,
        namespace: &Namespace,
    ) {
        let near = self.loaded[..n].iter().flatten();
        black_box(near.fold(0, |sum, loaded| sum | loaded.section.near()));
        self.sought.clear();
        self.sought.extend((0..n).map(|at| {
            let loaded = self.loaded[at]?;
            with_key(frame.key(begin + at), namespace, 0, |key| {
                loaded.section.sought(key)
            })
        }));
        let found = self.loaded[..n].iter().zip(&self.sought);
        let fetched = found.filter_map(|(l, sought)| Some((*l)?.section.fetch((*sought)?)));
        black_box(fetched.fold(0, u32::wrapping_add));
    }

    /// For keys of dense sections there is nothing to hash.
    pub(super) fn seek_none(&mut self) {
        self.sought.clear();
    }

    /// What to look for in the section of the item.
    #[inline]
    pub(super) fn sought(&self, at: usize, section: &Section) -> Option<Sought> {
        match self.sought.get(at) {
            Some(sought) => *sought,
            None => section.sought(Key::Dense(self.indices[at])),
        }
    }
}
