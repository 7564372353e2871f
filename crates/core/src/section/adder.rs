//! Handing numbers out: what may be done between entering a section's gate and leaving it.
//!
//! Invariant: an adder exists only between a successful `enter` of the gate and its one `leave`.
//! Counters change only through an adder, so a drained section changes no more.

use std::marker::PhantomData;
use std::num::NonZeroU32;

use super::counter::{Cell, Step};
use super::{Current, Key, Range, Refusal, Section, Spot};

/// Permission to hand numbers out of a section that was not sealed when it was given. Leaves on
/// drop.
pub struct Adder<'a> {
    section: &'a Section,
    not_send: PhantomData<*const ()>,
}

impl<'a> Adder<'a> {
    #[inline]
    pub(super) fn enter(section: &'a Section) -> Option<Self> {
        section.gate.enter().then(|| Self {
            section,
            not_send: PhantomData,
        })
    }

    /// Hands out the next `count` numbers of a key. Lock-free and without allocation once the key
    /// is touched; only a counter that left 32 bits takes a short lock.
    ///
    /// # Errors
    /// [`Refusal::Empty`], [`Refusal::Exhausted`], [`Refusal::NotHere`], [`Refusal::Full`],
    /// [`Refusal::NoMemory`].
    pub fn next(&self, key: Key<'_>, count: NonZeroU32) -> Result<Range, Refusal> {
        let window = &self.section.window;
        let count = u64::from(count.get());
        let step = self
            .section
            .advance(key, |offset| window.admit(offset + count))?;
        Ok(self.range(step))
    }

    /// Does [`Adder::next`] for a key that was found before. It serves a spot of another section as
    /// a call of its own.
    ///
    /// # Errors
    /// As [`Adder::next`]; of another section also [`Refusal::Sealed`].
    #[inline]
    pub fn next_spot(&self, spot: Spot<'_>, count: NonZeroU32) -> Result<Range, Refusal> {
        // The window of one section must never admit an offset for the counter of another.
        match std::ptr::eq(self.section, spot.section) {
            true => self.next_at(spot.cell, count),
            false => spot.next(count),
        }
    }

    #[inline]
    pub(super) fn next_at(&self, cell: Cell<'_>, count: NonZeroU32) -> Result<Range, Refusal> {
        let window = &self.section.window;
        let count = u64::from(count.get());
        let step = self
            .section
            .advance_cell(cell, |offset| window.admit(offset + count))?;
        Ok(self.range(step))
    }

    /// Returns the range of two admitted offsets: the last one was admitted, so the first one too.
    #[inline]
    fn range(&self, step: Step) -> Range {
        let window = &self.section.window;
        Range {
            first: window.number_admitted(step.before + 1),
            last: window.number_admitted(step.after),
        }
    }

    /// Moves a key's counter to the first number of the namespace at or above `target`, so that
    /// every later number is greater. Never lowers. The caller has widened the window before.
    /// Returns where the counter is now. Returns `Untouched` when `target` is not above the base:
    /// every number to come is above it anyway.
    ///
    /// # Errors
    /// [`Refusal::Empty`], [`Refusal::Exhausted`], [`Refusal::NotHere`], [`Refusal::Full`],
    /// [`Refusal::NoMemory`].
    pub fn raise_to(&self, key: Key<'_>, target: u64) -> Result<Current, Refusal> {
        let window = &self.section.window;
        let wanted = window.offset_at_or_above(target)?;
        let step = self.section.advance(key, |offset| {
            if offset >= wanted {
                Ok(offset)
            } else {
                window.admit(wanted)
            }
        })?;
        Ok(self.section.known(step.after))
    }
}

impl Drop for Adder<'_> {
    #[inline]
    fn drop(&mut self) {
        self.section.gate.leave();
    }
}
