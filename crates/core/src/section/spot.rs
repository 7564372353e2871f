//! A key's counter, found before numbers are taken from it.
//!
//! A batch can look all of its keys up first and wait for their cache lines together: one miss
//! after the other costs 30 times an addition.

use std::num::NonZeroU32;

use super::counter::Cell;
use super::keyed::Hash;
use super::sync::Ordering;
use super::{Counters, Current, Key, Range, Refusal, Section};

/// Place of a key's counter, for as long as its section lives: counters never move.
#[derive(Clone, Copy)]
pub struct Spot<'a> {
    pub(super) section: &'a Section,
    pub(super) cell: Cell<'a>,
}

/// A key as its section looks for it.
#[derive(Clone, Copy, Debug)]
pub struct Sought(pub(super) By);

#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    Index(u32),
    Hash(Hash),
}

impl Section {
    /// Returns what to look for. Touches no memory of a single key.
    #[inline]
    pub fn sought(&self, key: Key<'_>) -> Option<Sought> {
        Some(Sought(match (&self.counters, key) {
            (Counters::Dense(_), Key::Dense(index)) => By::Index(index),
            (Counters::Keyed(keyed), Key::Keyed(key)) => By::Hash(keyed.hash(key)),
            _ => return None,
        }))
    }

    /// Fetches what [`Section::sought`] and [`Section::fetch`] look at first, for sections that are
    /// likely to be far away. The returned value means nothing, as with [`Section::fetch`].
    #[inline]
    pub fn near(&self) -> u32 {
        match &self.counters {
            Counters::Keyed(keyed) => keyed.near(),
            Counters::Dense(_) => 0,
        }
    }

    /// Fetches what [`Section::spot`] looks at first. The returned value means nothing: use it only
    /// to keep the load from being optimized away.
    #[inline]
    pub fn fetch(&self, sought: Sought) -> u32 {
        match (&self.counters, sought.0) {
            (Counters::Keyed(keyed), By::Hash(hash)) => keyed.fetch(hash),
            _ => 0,
        }
    }

    /// Returns the counter of a key of this section, if it or (dense) a near neighbor was touched
    /// since load.
    #[inline]
    pub fn spot(&self, sought: Sought) -> Option<Spot<'_>> {
        let cell = match (&self.counters, sought.0) {
            (Counters::Dense(dense), By::Index(index)) => dense.find(index).ok().flatten(),
            (Counters::Keyed(keyed), By::Hash(hash)) => keyed.search(hash),
            _ => None,
        }?;
        Some(Spot {
            section: self,
            cell,
        })
    }
}

impl Spot<'_> {
    /// Fetches the counter's cache line. The returned value means nothing: use it only to keep the
    /// load from being optimized away.
    #[inline]
    pub fn fetch(&self) -> u32 {
        self.cell.narrow.load(Ordering::Relaxed)
    }

    /// Returns the state of the key's cur_seq, also in a section that is sealed by now.
    #[inline]
    pub fn current(&self) -> Current {
        self.section.known(self.section.wide.read(self.cell))
    }

    /// Does [`Section::next`] for this key.
    ///
    /// # Errors
    /// As [`Section::next`].
    #[inline]
    pub fn next(&self, count: NonZeroU32) -> Result<Range, Refusal> {
        let adder = self.section.enter().ok_or(Refusal::Sealed)?;
        adder.next_at(self.cell, count)
    }
}
