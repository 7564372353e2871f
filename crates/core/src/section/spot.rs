//! A key's counter, found before numbers are taken from it, so that a batch can look all of its keys
//! up first and wait for their cache lines together: one miss after the other costs 30 times an
//! addition.

use std::num::NonZeroU32;

use super::counter::Cell;
use super::sync::Ordering;
use super::{Key, Range, Refusal, Section};

/// Where a key's counter is, for as long as its section lives: counters never move.
#[derive(Clone, Copy)]
pub struct Spot<'a> {
    pub(super) section: &'a Section,
    pub(super) cell: Cell<'a>,
}

impl Section {
    /// The key's counter, if it or (dense) a near neighbour was touched since load.
    #[inline]
    pub fn spot(&self, key: Key<'_>) -> Option<Spot<'_>> {
        let cell = self.find(key).ok().flatten()?;
        Some(Spot {
            section: self,
            cell,
        })
    }
}

impl Spot<'_> {
    /// Fetches the counter's cache line. What is returned means nothing: use it only to keep the
    /// load from being optimised away.
    #[inline]
    pub fn fetch(&self) -> u32 {
        self.cell.narrow.load(Ordering::Relaxed)
    }

    /// [`Section::next`] of this key.
    ///
    /// # Errors
    /// As [`Section::next`].
    #[inline]
    pub fn next(&self, count: NonZeroU32) -> Result<Range, Refusal> {
        let adder = self.section.enter().ok_or(Refusal::Sealed)?;
        adder.next_at(self.cell, count)
    }
}
