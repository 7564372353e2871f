//! The counters of one loaded section: what an AllocSvr hands numbers out from.
//!
//! A [`Section`] is made from the answer to one `Open` and serves that generation only. Inside, a
//! key's counter is an *offset*: how many numbers of the namespace above the base it has reached;
//! 0 means "not touched since load". The parts, each with its own invariant:
//!
//! ```text
//! next ──> gate ──> counters (dense chunks | keyed levels) ──CAS, never above──> window
//!          sealed?    └── a counter past 32 bits: wide                       └── highest
//! ```
//!
//! - [`gate`]: once sealed nobody enters; drained means everybody who entered has left.
//! - [`window`]: the part of the sequence that may be handed out; it only ever grows.
//! - [`dense`], [`keyed`]: where a key's counter lives; its address never changes.
//! - [`counter`]: moves one counter forward, never back, never past the window.
//!
//! The promise kept here: within one section object no number of a key is handed out twice, every
//! later number of a key is greater, none lies above the durable `max_seq`, and once
//! [`Section::final_seq`] has answered, no number is handed out any more and none handed out was
//! greater. Played under loom in `tests/loom_section.rs`.
//!
//! Pure memory: no I/O, no async, no clock. Callers check lease and epoch after taking a number.

mod counter;
mod dense;
mod gate;
mod keyed;
mod sync;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod window;

use std::marker::PhantomData;
use std::num::NonZeroU32;
// Not part of any protocol, so loom need not see it.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use counter::{Cell, Step, Wide};
use dense::Dense;
use gate::Gate;
use keyed::Keyed;
use window::Window;

/// What one `Open` granted; plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The generation this section object serves.
    pub generation: u64,
    /// `max_seq` before the `Open`: every number handed out earlier is at most this.
    pub base: u64,
    /// Durable upper bound of what may be handed out, at least `base`.
    pub max_seq: u64,
    /// Smallest number of the namespace above `base`; None when there is none up to 2^63-1.
    pub first: Option<u64>,
    /// Distance between neighbouring numbers of the namespace, at least 1.
    pub stride: u64,
}

/// A key within its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// Index of a uid within its dense section.
    Dense(u32),
    /// Key of a keyed section.
    Keyed(&'a [u8]),
}

/// Numbers handed out by one call: `first`, `first + stride` … `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Smallest of them.
    pub first: u64,
    /// Greatest of them; the key's cur_seq after the call.
    pub last: u64,
}

/// What a section knows of a key's cur_seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Current {
    /// The counter stands at this number: none greater was handed out, every later one is greater.
    Touched(u64),
    /// Nothing was handed out since load: cur_seq is at most the section's base.
    Untouched,
}

/// Why a section did not do what was asked. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The window does not reach. Raise `max_seq` to at least `needed`, widen, try again.
    #[error("the window ends below {needed}; wait for it to be widened")]
    Empty {
        /// Smallest `max_seq` with which this call would have gone through.
        needed: u64,
    },
    /// This section object serves no more. Look the section up again.
    #[error("the section object is sealed; look the section up again")]
    Sealed,
    /// The sequence would pass 2^63-1.
    #[error("the sequence is exhausted: it would pass 2^63-1")]
    Exhausted,
    /// The key cannot be in this section: wrong kind, or an index not below the section's size.
    #[error("the key does not belong to this section")]
    NotHere,
    /// A keyed section has no room for another key. Close idle sections or use more of them.
    #[error("the section holds too many keys; create the namespace with more sections")]
    Full,
}

/// The counters of one section, for one generation.
pub struct Section {
    generation: u64,
    gate: Gate,
    window: Window,
    counters: Counters,
    wide: Wide,
    touched: AtomicU64,
    used: AtomicBool,
}

enum Counters {
    Dense(Dense),
    Keyed(Keyed),
}

impl Section {
    /// A dense section of `size` uids. Allocates 16 bytes per 1,024 uids, counters come when touched.
    ///
    /// # Panics
    /// If `open` breaks its field rules: a `first` not above `base` would repeat numbers.
    pub fn dense(open: Open, size: u32) -> Self {
        Self::new(open, Counters::Dense(Dense::new(size)))
    }

    /// A keyed section. `hash_key` is random and secret to the process, so that nobody can choose
    /// keys that collide; it may be shared by all sections.
    ///
    /// # Panics
    /// If `open` breaks its field rules: a `first` not above `base` would repeat numbers.
    pub fn keyed(open: Open, hash_key: [u64; 2]) -> Self {
        Self::new(open, Counters::Keyed(Keyed::new(hash_key)))
    }

    fn new(open: Open, counters: Counters) -> Self {
        Self {
            generation: open.generation,
            gate: Gate::default(),
            window: Window::new(&open),
            counters,
            wide: Wide::default(),
            touched: AtomicU64::new(0),
            used: AtomicBool::new(false),
        }
    }

    /// The `Open` this object belongs to.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Upper bound of every number handed out before this generation.
    pub fn base(&self) -> u64 {
        self.window.base()
    }

    /// Smallest number this generation can hand out; None when the namespace has none left.
    pub fn first(&self) -> Option<u64> {
        self.window.first()
    }

    /// Distance between neighbouring numbers.
    pub fn stride(&self) -> u64 {
        self.window.stride()
    }

    /// Durable bound as far as this object was told.
    pub fn max_seq(&self) -> u64 {
        self.window.max_seq()
    }

    /// Greatest offset that may be handed out.
    pub fn limit(&self) -> u64 {
        self.window.limit()
    }

    /// Greatest offset any counter has reached; 0 if none was touched. Momentary until drained.
    pub fn highest_offset(&self) -> u64 {
        self.window.highest()
    }

    /// Numbers between the furthest counter and the end of the window: what refill watches.
    pub fn left(&self) -> u64 {
        self.limit().saturating_sub(self.highest_offset())
    }

    /// The `max_seq` with which [`limit`](Self::limit) would be `limit`, or the furthest there is.
    /// What to ask a raise for.
    pub fn max_seq_for(&self, limit: u64) -> u64 {
        self.window.max_seq_for(limit)
    }

    /// Widens the window to a `max_seq` that is durable *for this generation*. Never narrows, so a
    /// late or repeated reply is harmless.
    pub fn widen(&self, max_seq: u64) {
        self.window.widen(max_seq);
    }

    /// Enters for one call or a batch; None once sealed. While an adder lives the section cannot
    /// drain, so never hold one across an await (it is not `Send`) or while waiting for a refill.
    pub fn enter(&self) -> Option<Adder<'_>> {
        if !self.gate.enter() {
            return None;
        }
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
        Some(Adder {
            section: self,
            not_send: PhantomData,
        })
    }

    /// [`Adder::next`] as a call of its own.
    ///
    /// # Errors
    /// As [`Adder::next`], and [`Refusal::Sealed`].
    pub fn next(&self, key: Key<'_>, count: NonZeroU32) -> Result<Range, Refusal> {
        self.enter().ok_or(Refusal::Sealed)?.next(key, count)
    }

    /// [`Adder::raise_to`] as a call of its own.
    ///
    /// # Errors
    /// As [`Adder::raise_to`], and [`Refusal::Sealed`].
    pub fn raise_to(&self, key: Key<'_>, target: u64) -> Result<Current, Refusal> {
        self.enter().ok_or(Refusal::Sealed)?.raise_to(key, target)
    }

    /// What is known of a key's cur_seq. Allocates nothing.
    ///
    /// # Errors
    /// [`Refusal::Sealed`]: the next owner or generation may already have gone further.
    /// [`Refusal::NotHere`].
    pub fn current(&self, key: Key<'_>) -> Result<Current, Refusal> {
        let offset = self.find(key)?.map_or(0, |cell| self.wide.read(cell));
        // After reading: an answer is given only if the section was still open when it was read,
        // hence before anyone else could hand out a greater number.
        if self.gate.is_sealed() {
            return Err(Refusal::Sealed);
        }
        Ok(self.known(offset))
    }

    /// Seals: from now on nobody enters. Cannot be undone; sealing twice is harmless.
    pub fn seal(&self) {
        self.gate.seal();
    }

    /// Whether the section was sealed.
    pub fn is_sealed(&self) -> bool {
        self.gate.is_sealed()
    }

    /// Highest number any counter reached, by handing out or by RaiseTo, `base` if none: exact and
    /// final. None until the section is sealed and every adder has left, and now and then once more
    /// while a late caller is turned away: ask again.
    pub fn final_seq(&self) -> Option<u64> {
        if !self.gate.is_drained() {
            return None;
        }
        Some(match self.known(self.window.highest()) {
            Current::Touched(number) => number,
            Current::Untouched => self.base(),
        })
    }

    /// Whether anyone entered since the last call: what idle detection asks at each sweep. A use
    /// that races with the sweep may be told at this one or at the next.
    pub fn take_used(&self) -> bool {
        self.used.load(Relaxed) && self.used.swap(false, Relaxed)
    }

    /// How many keys were touched since load.
    pub fn touched(&self) -> u64 {
        self.touched.load(Relaxed)
    }

    /// Bytes this object holds, itself included, without the allocator's own overhead.
    pub fn bytes(&self) -> usize {
        let counters = match &self.counters {
            Counters::Dense(dense) => dense.bytes(),
            Counters::Keyed(keyed) => keyed.bytes(),
        };
        size_of::<Self>() + counters + self.wide.bytes()
    }

    fn known(&self, offset: u64) -> Current {
        match self.window.number(offset) {
            Some(number) => Current::Touched(number),
            None => Current::Untouched,
        }
    }

    fn find(&self, key: Key<'_>) -> Result<Option<Cell<'_>>, Refusal> {
        match (&self.counters, key) {
            (Counters::Dense(dense), Key::Dense(index)) => dense.find(index),
            (Counters::Keyed(keyed), Key::Keyed(key)) => Ok(keyed.find(key)),
            _ => Err(Refusal::NotHere),
        }
    }

    fn touch(&self, key: Key<'_>) -> Result<Cell<'_>, Refusal> {
        match (&self.counters, key) {
            (Counters::Dense(dense), Key::Dense(index)) => dense.touch(index),
            (Counters::Keyed(keyed), Key::Keyed(key)) => keyed.touch(key),
            _ => Err(Refusal::NotHere),
        }
    }

    /// Moves a key's counter from where it stands to `to(there)`.
    fn advance(
        &self,
        key: Key<'_>,
        to: impl Fn(u64) -> Result<u64, Refusal>,
    ) -> Result<Step, Refusal> {
        let cell = match self.find(key)? {
            Some(cell) => cell,
            // A call that will be refused must not cost memory: anyone can invent keys.
            None if to(0)? == 0 => {
                return Ok(Step {
                    before: 0,
                    after: 0,
                });
            }
            None => self.touch(key)?,
        };
        let step = self.wide.advance(cell, to)?;
        if step.before == 0 && step.after > 0 {
            self.touched.fetch_add(1, Relaxed);
        }
        self.window.reached(step.after);
        Ok(step)
    }
}

/// Leave to hand numbers out of a section that was not sealed when it was given. Leaves on drop.
pub struct Adder<'a> {
    section: &'a Section,
    not_send: PhantomData<*const ()>,
}

impl Adder<'_> {
    /// Hands out the next `count` numbers of a key. Lock-free and without allocation once the key is
    /// touched; only a counter that left 32 bits takes a short lock.
    ///
    /// # Errors
    /// [`Refusal::Empty`], [`Refusal::Exhausted`], [`Refusal::NotHere`], [`Refusal::Full`].
    pub fn next(&self, key: Key<'_>, count: NonZeroU32) -> Result<Range, Refusal> {
        let window = &self.section.window;
        let count = u64::from(count.get());
        let step = self
            .section
            .advance(key, |offset| window.admit(offset + count))?;
        // Both offsets were admitted, so both have a number.
        let number = |offset| window.number(offset).ok_or(Refusal::Exhausted);
        Ok(Range {
            first: number(step.before + 1)?,
            last: number(step.after)?,
        })
    }

    /// Moves a key's counter to the first number of the namespace at or above `target`, so that
    /// every later number is greater. Never lowers. The caller widened the window before. Tells
    /// where the counter stands now; `Untouched` when `target` is not above the base, for then
    /// every number to come is above it anyway.
    ///
    /// # Errors
    /// [`Refusal::Empty`], [`Refusal::Exhausted`], [`Refusal::NotHere`], [`Refusal::Full`].
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
    fn drop(&mut self) {
        self.section.gate.leave();
    }
}
