//! Sections entered by the batches that are served together. Each is entered once, however many of
//! its keys are requested.
//!
//! Sections are kept by the last bits of their number. A section whose entry another section holds
//! is located and entered for each of its keys, which costs time only. All are left together when
//! the batches are done. Nothing waits in between, so a section that is sealed during that time
//! drains as soon as the numbers of these batches are taken.

use seqsvr_core::ids::SectionKey;
use seqsvr_core::section::SectionGuard;

use crate::sections::loaded_section::LoadedSection;

/// Maximum sections kept; above it sections share entries.
const ENTERED_SECTIONS_MAX: usize = 1_024;

/// Sections entered so far.
pub(super) struct EnteredSections<'m> {
    entries: Vec<Option<(&'m LoadedSection, SectionGuard<'m>)>>,
}

impl<'m> EnteredSections<'m> {
    /// Creates entries for `items` items.
    pub(super) fn with_capacity(items: usize) -> EnteredSections<'m> {
        let entries = items.clamp(1, ENTERED_SECTIONS_MAX).next_power_of_two();
        EnteredSections {
            entries: std::iter::repeat_with(|| None).take(entries).collect(),
        }
    }

    /// Returns the guard of a section, which is entered now if it was not. None if another section
    /// holds its entry, or if it is sealed.
    #[inline]
    pub(super) fn guard_of(&mut self, loaded: &'m LoadedSection) -> Option<&SectionGuard<'m>> {
        let index = self.entry_index(loaded.fence.section);
        let entry = &mut self.entries[index];
        if entry.is_none() {
            *entry = Some((loaded, loaded.section.enter()?));
        }
        let (entered, guard) = entry.as_ref()?;
        std::ptr::eq(*entered, loaded).then_some(guard)
    }

    /// Returns the section, if it was entered.
    #[inline]
    pub(super) fn find(&self, section: SectionKey) -> Option<&'m LoadedSection> {
        let (entered, _) = self.entries[self.entry_index(section)].as_ref()?;
        (entered.fence.section == section).then_some(*entered)
    }

    /// Returns all entered sections.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'m LoadedSection> {
        self.entries.iter().flatten().map(|(loaded, _)| *loaded)
    }

    #[inline]
    fn entry_index(&self, section: SectionKey) -> usize {
        let number = section.section.0.wrapping_add(section.namespace.0);
        number as usize & (self.entries.len() - 1)
    }
}
