//! The sections that frames served together are inside of: each entered once, however many of its
//! keys are asked for.
//!
//! They are kept by the last bits of their number; one that comes to a taken place is looked up and
//! entered for each of its keys, which costs time only. They are left together when the frames are
//! done: nobody waits in between, so a section that is sealed meanwhile drains as soon as the
//! numbers of these are taken.

use seqsvr_core::id::SectionKey;
use seqsvr_core::section::Adder;

use crate::sections::loaded_section::LoadedSection;

/// Most sections kept.
const ENTERED_SECTIONS_MAX: usize = 1_024;

/// The sections entered so far.
pub(super) struct EnteredSections<'m> {
    entries: Vec<Option<(&'m LoadedSection, Adder<'m>)>>,
}

impl<'m> EnteredSections<'m> {
    /// For so many items.
    pub(super) fn with_capacity(items: usize) -> EnteredSections<'m> {
        let entries = items.clamp(1, ENTERED_SECTIONS_MAX).next_power_of_two();
        EnteredSections {
            entries: std::iter::repeat_with(|| None).take(entries).collect(),
        }
    }

    /// How to take numbers of a section, entered now if it was not; None if another has its place,
    /// or it is sealed.
    #[inline]
    pub(super) fn adder_of(&mut self, loaded: &'m LoadedSection) -> Option<&Adder<'m>> {
        let index = self.entry_index(loaded.fence.section);
        let entry = &mut self.entries[index];
        if entry.is_none() {
            *entry = Some((loaded, loaded.section.enter()?));
        }
        let (entered, adder) = entry.as_ref()?;
        std::ptr::eq(*entered, loaded).then_some(adder)
    }

    /// The section, if it was entered.
    #[inline]
    pub(super) fn find(&self, section: SectionKey) -> Option<&'m LoadedSection> {
        let (entered, _) = self.entries[self.entry_index(section)].as_ref()?;
        (entered.fence.section == section).then_some(*entered)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'m LoadedSection> {
        self.entries.iter().flatten().map(|(loaded, _)| *loaded)
    }

    #[inline]
    fn entry_index(&self, section: SectionKey) -> usize {
        let number = section.section.0.wrapping_add(section.namespace.0);
        number as usize & (self.entries.len() - 1)
    }
}
