//! The section rows of the state, with counts of them.
//!
//! Invariant: `open` is the number of rows that are open. The page reads it once a second, and
//! counting millions of rows each time would keep entries from being applied. So every change of a
//! row passes through here.

use super::{PagedMap, SectionRow};
use crate::ids::SectionKey;

/// All sections ever opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SectionRows {
    rows: PagedMap<SectionKey, SectionRow>,
    open: u64,
}

impl SectionRows {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn open(&self) -> u64 {
        self.open
    }

    pub(super) fn get(&self, key: &SectionKey) -> Option<&SectionRow> {
        self.rows.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&SectionKey, &SectionRow)> {
        self.rows.iter()
    }

    /// Sets a row.
    pub(super) fn insert(&mut self, key: SectionKey, section: SectionRow) {
        let is_open = section.open;
        let was_open = self.rows.insert(key, section).is_some_and(|s| s.open);
        self.count(was_open, is_open);
    }

    /// Changes a row, if there is one.
    pub(super) fn change(&mut self, key: SectionKey, change: impl FnOnce(&mut SectionRow)) {
        if let Some(section) = self.rows.get_mut(&key) {
            let was_open = section.open;
            change(section);
            let is_open = section.open;
            self.count(was_open, is_open);
        }
    }

    fn count(&mut self, was_open: bool, is_open: bool) {
        self.open += u64::from(is_open);
        self.open -= u64::from(was_open);
    }
}
