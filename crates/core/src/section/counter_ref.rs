//! A key's counter, found before numbers are taken from it.
//!
//! A batch can look all of its keys up first and wait for their cache lines together: one miss
//! after the other costs 30 times an addition.

use std::num::NonZeroU32;

use super::counter::CounterCell;
use super::keyed_layout::KeyHash;
use super::sync::Ordering;
use super::{CounterKey, CurrentValue, NumberRange, Section, SectionCounters, TakeError};

/// Place of a key's counter, for as long as its section lives: counters never move.
#[derive(Clone, Copy)]
pub struct CounterRef<'a> {
    pub(super) section: &'a Section,
    pub(super) cell: CounterCell<'a>,
}

/// A key as its section looks for it.
#[derive(Clone, Copy, Debug)]
pub struct KeyLookup(pub(super) LookupKind);

#[derive(Clone, Copy, Debug)]
pub(super) enum LookupKind {
    Index(u32),
    Hash(KeyHash),
}

impl Section {
    /// Returns what to look for. Touches no memory of a single key.
    #[inline]
    pub fn prepare_lookup(&self, key: CounterKey<'_>) -> Option<KeyLookup> {
        Some(KeyLookup(match (&self.counters, key) {
            (SectionCounters::Dense(_), CounterKey::Dense(index)) => LookupKind::Index(index),
            (SectionCounters::Keyed(keyed), CounterKey::Keyed(key)) => {
                LookupKind::Hash(keyed.hash_key(key))
            }
            _ => return None,
        }))
    }

    /// Fetches what [`Section::prepare_lookup`] and [`Section::prefetch_entry`] look at first, for
    /// sections that are likely to be far away. The returned value means nothing, as with
    /// [`Section::prefetch_entry`].
    #[inline]
    pub fn prefetch_directory(&self) -> u32 {
        match &self.counters {
            SectionCounters::Keyed(keyed) => keyed.prefetch_directory(),
            SectionCounters::Dense(_) => 0,
        }
    }

    /// Fetches what [`Section::find_counter`] looks at first. The returned value means nothing: use
    /// it only to keep the load from being optimized away.
    #[inline]
    pub fn prefetch_entry(&self, sought: KeyLookup) -> u32 {
        match (&self.counters, sought.0) {
            (SectionCounters::Keyed(keyed), LookupKind::Hash(hash)) => keyed.prefetch_entry(hash),
            _ => 0,
        }
    }

    /// Returns the counter of a key of this section, if it or (dense) a near neighbor was touched
    /// since load.
    #[inline]
    pub fn find_counter(&self, sought: KeyLookup) -> Option<CounterRef<'_>> {
        let cell = match (&self.counters, sought.0) {
            (SectionCounters::Dense(dense), LookupKind::Index(index)) => {
                dense.find_cell(index).ok().flatten()
            }
            (SectionCounters::Keyed(keyed), LookupKind::Hash(hash)) => keyed.find_cell(hash),
            _ => None,
        }?;
        Some(CounterRef {
            section: self,
            cell,
        })
    }
}

impl CounterRef<'_> {
    /// Fetches the counter's cache line. The returned value means nothing: use it only to keep the
    /// load from being optimized away.
    #[inline]
    pub fn prefetch_counter(&self) -> u32 {
        self.cell.narrow.load(Ordering::Relaxed)
    }

    /// Returns the state of the key's cur_seq, also in a section that is sealed by now.
    #[inline]
    pub fn current(&self) -> CurrentValue {
        self.section
            .current_value(self.section.wide.read_offset(self.cell))
    }

    /// Does [`Section::next`] for this key.
    ///
    /// # Errors
    /// As [`Section::next`].
    #[inline]
    pub fn next(&self, count: NonZeroU32) -> Result<NumberRange, TakeError> {
        let guard = self.section.enter().ok_or(TakeError::Sealed)?;
        guard.next_at(self.cell, count)
    }
}
