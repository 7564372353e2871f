//! Handing numbers out: what may be done between entering a section's gate and leaving it.
//!
//! Invariant: a section guard exists only between a successful `enter` of the gate and its one
//! `leave`. Counters change only through a guard, so a drained section changes no more.

use std::marker::PhantomData;
use std::num::NonZeroU32;

use super::counter::{CounterAdvance, CounterCell};
use super::{CounterKey, CounterRef, CurrentValue, NumberRange, Section, TakeError};

/// Permission to hand numbers out of a section that was not sealed when it was given. Leaves on
/// drop.
pub struct SectionGuard<'a> {
    section: &'a Section,
    not_send: PhantomData<*const ()>,
}

impl<'a> SectionGuard<'a> {
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
    /// [`TakeError::WindowExhausted`], [`TakeError::SequenceExhausted`],
    /// [`TakeError::WrongSection`], [`TakeError::SectionFull`], [`TakeError::MemoryExhausted`].
    pub fn next(&self, key: CounterKey<'_>, count: NonZeroU32) -> Result<NumberRange, TakeError> {
        let window = &self.section.window;
        let count = u64::from(count.get());
        let step = self
            .section
            .advance_key(key, |offset| window.admit(offset + count))?;
        Ok(self.number_range(step))
    }

    /// Does [`SectionGuard::next`] for a key that was found before. It serves a counter of another
    /// section as a call of its own.
    ///
    /// # Errors
    /// As [`SectionGuard::next`]; of another section also [`TakeError::Sealed`].
    #[inline]
    pub fn take_at(
        &self,
        spot: CounterRef<'_>,
        count: NonZeroU32,
    ) -> Result<NumberRange, TakeError> {
        // The window of one section must never admit an offset for the counter of another.
        match std::ptr::eq(self.section, spot.section) {
            true => self.next_at(spot.cell, count),
            false => spot.next(count),
        }
    }

    #[inline]
    pub(super) fn next_at(
        &self,
        cell: CounterCell<'_>,
        count: NonZeroU32,
    ) -> Result<NumberRange, TakeError> {
        let window = &self.section.window;
        let count = u64::from(count.get());
        let step = self
            .section
            .advance_cell(cell, |offset| window.admit(offset + count))?;
        Ok(self.number_range(step))
    }

    /// Returns the range of two admitted offsets: the last one was admitted, so the first one too.
    #[inline]
    fn number_range(&self, step: CounterAdvance) -> NumberRange {
        let window = &self.section.window;
        NumberRange {
            first: window.admitted_number_at(step.before + 1),
            last: window.admitted_number_at(step.after),
        }
    }

    /// Moves a key's counter to the first number of the namespace at or above `target`, so that
    /// every later number is greater. Never lowers. The caller has widened the window before.
    /// Returns where the counter is now. Returns `Untouched` when `target` is not above the base:
    /// every number to come is above it anyway.
    ///
    /// # Errors
    /// [`TakeError::WindowExhausted`], [`TakeError::SequenceExhausted`],
    /// [`TakeError::WrongSection`], [`TakeError::SectionFull`], [`TakeError::MemoryExhausted`].
    pub fn raise_to(&self, key: CounterKey<'_>, target: u64) -> Result<CurrentValue, TakeError> {
        let window = &self.section.window;
        let wanted = window.offset_at_or_above(target)?;
        let step = self.section.advance_key(key, |offset| {
            if offset >= wanted {
                Ok(offset)
            } else {
                window.admit(wanted)
            }
        })?;
        Ok(self.section.current_value(step.after))
    }

    /// Moves a key's counter as [`raise_to`](Self::raise_to) does, but only if the key was not
    /// touched since load. Returns where the counter is now, and whether this call moved it.
    ///
    /// Invariant: of all calls for one key, and of all that take its numbers, one at most finds it
    /// untouched. Schedule that breaks it: two calls read 0, both raise, and both report that the
    /// key had no number. So the one CAS that moves the counter from 0 decides.
    ///
    /// # Errors
    /// Those of [`raise_to`](Self::raise_to).
    pub fn raise_untouched(
        &self,
        key: CounterKey<'_>,
        target: u64,
    ) -> Result<(CurrentValue, bool), TakeError> {
        let window = &self.section.window;
        let wanted = window.offset_at_or_above(target)?;
        let step = self.section.advance_key(key, |offset| match offset {
            0 => window.admit(wanted),
            touched => Ok(touched),
        })?;
        let has_moved = step.before == 0 && step.after > 0;
        Ok((self.section.current_value(step.after), has_moved))
    }
}

impl Drop for SectionGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.section.gate.leave();
    }
}
