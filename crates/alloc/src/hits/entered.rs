//! The sections of frames served together: each looked up and entered once, however many of its keys are
//! asked for.
//!
//! Sections are kept by the last bits of their number; one that comes to a taken place takes it over,
//! which costs time only. They are left together when the frames are done, at the latest: nobody waits in
//! between, so a section that is sealed meanwhile drains as soon as the numbers of these are taken.

use std::sync::Arc;

use seqsvr_core::id::SectionKey;
use seqsvr_core::section::Adder;

use crate::loaded::Loaded;

/// Most sections kept.
const PLACES_MAX: usize = 256;

/// The sections found so far.
pub(super) struct Entered<'m> {
    places: Vec<Option<Inside<'m>>>,
}

/// A section, and whether these frames are inside of it.
struct Inside<'m> {
    section: SectionKey,
    /// As the map has it, and what that points to: one step less for each item.
    shared: &'m Arc<Loaded>,
    loaded: &'m Loaded,
    adder: Option<Adder<'m>>,
}

impl<'m> Entered<'m> {
    /// For so many items.
    pub(super) fn new(items: usize) -> Entered<'m> {
        let places = items.clamp(1, PLACES_MAX).next_power_of_two();
        Entered {
            places: std::iter::repeat_with(|| None).take(places).collect(),
        }
    }

    /// The section, if it was found before. Nothing here is written to, or waits for what was: what is
    /// found next is found meanwhile.
    #[inline]
    pub(super) fn get(&self, section: SectionKey) -> Option<&'m Loaded> {
        let inside = self.places[self.place(section)].as_ref();
        let inside = inside.filter(|inside| inside.section == section)?;
        Some(inside.loaded)
    }

    /// Keeps a section that was found now, and gives the one whose place it takes if numbers were taken of
    /// that.
    pub(super) fn put(&mut self, shared: &'m Arc<Loaded>) -> Option<&'m Arc<Loaded>> {
        let section = shared.key();
        let at = self.place(section);
        let left = self.places[at].replace(Inside {
            section,
            shared,
            loaded: shared,
            adder: None,
        })?;
        left.adder.is_some().then_some(left.shared)
    }

    /// How to take numbers of a section that was found, entered now if it was not; None if another has
    /// taken its place since, or it is sealed.
    #[inline]
    pub(super) fn adder(&mut self, loaded: &'m Loaded) -> Option<&Adder<'m>> {
        let at = self.place(loaded.fence.section);
        let inside = self.places[at].as_mut();
        let inside = inside.filter(|inside| std::ptr::eq(inside.loaded, loaded))?;
        if inside.adder.is_none() {
            inside.adder = loaded.section.enter();
        }
        inside.adder.as_ref()
    }

    /// The sections that numbers were taken of, but for those whose places others took.
    pub(super) fn all(&self) -> impl Iterator<Item = &'m Arc<Loaded>> {
        let inside = self.places.iter().flatten();
        inside
            .filter(|inside| inside.adder.is_some())
            .map(|inside| inside.shared)
    }

    #[inline]
    fn place(&self, section: SectionKey) -> usize {
        section.section.0 as usize & (self.places.len() - 1)
    }
}
