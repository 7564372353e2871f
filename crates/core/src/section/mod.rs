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
//! - `gate`: once sealed no caller enters; drained means that every caller that entered has left.
//! - `window`: the part of the sequence that may be handed out; it only ever grows.
//! - `dense`, `keyed`: where a key's counter lives; its address never changes.
//! - `keyed_layout`: levels, lines and entries of `keyed`; `scattered_levels`: levels whose memory
//!   is in many pieces.
//! - `cell_pool`: the memory of all of them, within a limit.
//! - `counter`: moves one counter forward, never back, never past the window.
//!
//! The promise kept here: within one section object no number of a key is handed out twice, every
//! later number of a key is greater, and none lies above the durable `max_seq`. Once
//! [`Section::high_water_mark`] has answered, no number is handed out any more, and none handed out
//! was greater. Played under loom in `tests/loom_section.rs`.
//!
//! Pure memory: no I/O, no async, no clock. Callers check lease and epoch after taking a number.

mod cell_pool;
mod counter;
mod counter_ref;
mod dense;
mod gate;
mod guard;
mod keyed;
mod keyed_layout;
mod scattered_levels;
mod sync;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod types;
mod window;

use std::num::NonZeroU32;
// Not part of any protocol, so loom need not see it.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

pub use cell_pool::{CounterMemory, add_memory_limit, counter_memory};
use counter::{CounterAdvance, CounterCell, WideCounters};
pub use counter_ref::{CounterRef, KeyLookup};
use dense::DenseCounters;
use gate::Gate;
pub use guard::SectionGuard;
use keyed::KeyedCounters;
pub use types::{CounterKey, CurrentValue, NumberRange, SectionGrant, TakeError};
use window::Window;

/// The counters of one section, for one generation.
pub struct Section {
    generation: u64,
    gate: Gate,
    window: Window,
    counters: SectionCounters,
    wide: WideCounters,
    touched: AtomicU64,
    used: AtomicBool,
}

enum SectionCounters {
    Dense(DenseCounters),
    Keyed(KeyedCounters),
}

impl Section {
    /// Makes a dense section of `size` uids. It allocates 16 bytes per 1,024 uids; counters come
    /// when touched.
    ///
    /// # Panics
    /// If `open` breaks its field rules: a `first` not above `base` would repeat numbers.
    pub fn dense(open: SectionGrant, size: u32) -> Self {
        Self::new(open, SectionCounters::Dense(DenseCounters::new(size)))
    }

    /// Makes a keyed section. `hash_key` is random and secret to the process, so that no caller can
    /// choose keys that collide; all sections may share it.
    ///
    /// # Panics
    /// If `open` breaks its field rules: a `first` not above `base` would repeat numbers.
    pub fn keyed(open: SectionGrant, hash_key: [u64; 2]) -> Self {
        Self::new(open, SectionCounters::Keyed(KeyedCounters::new(hash_key)))
    }

    fn new(open: SectionGrant, counters: SectionCounters) -> Self {
        Self {
            generation: open.generation,
            gate: Gate::default(),
            window: Window::new(&open),
            counters,
            wide: WideCounters::default(),
            touched: AtomicU64::new(0),
            used: AtomicBool::new(false),
        }
    }

    /// Returns the generation of the `Open` this object belongs to.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the upper bound of every number handed out before this generation.
    pub fn base(&self) -> u64 {
        self.window.base()
    }

    /// Returns the smallest number this generation can hand out; None when the namespace has none
    /// left.
    pub fn first(&self) -> Option<u64> {
        self.window.first()
    }

    /// Returns the distance between neighboring numbers.
    pub fn stride(&self) -> u64 {
        self.window.stride()
    }

    /// Returns the greatest durable bound that this object has received.
    #[inline]
    pub fn max_seq(&self) -> u64 {
        self.window.max_seq()
    }

    /// Returns the greatest offset that may be handed out.
    #[inline]
    pub fn offset_limit(&self) -> u64 {
        self.window.offset_limit()
    }

    /// Returns the greatest offset any counter has reached; 0 if none was touched. Momentary until
    /// drained.
    #[inline]
    pub fn highest_offset(&self) -> u64 {
        self.window.highest_offset()
    }

    /// Returns the numbers between the furthest counter and the end of the window: what refill
    /// watches.
    #[inline]
    pub fn numbers_remaining(&self) -> u64 {
        self.offset_limit().saturating_sub(self.highest_offset())
    }

    /// Returns the `max_seq` with which [`offset_limit`](Self::offset_limit) would be `limit`, or
    /// the furthest there is. It is the target of a raise.
    pub fn max_seq_for(&self, limit: u64) -> u64 {
        self.window.max_seq_for(limit)
    }

    /// Widens the window to a `max_seq` that is durable *for this generation*. Never narrows, so a
    /// late or repeated reply is harmless.
    pub fn widen_to(&self, max_seq: u64) {
        self.window.widen_to(max_seq);
    }

    /// Enters for one call or a batch; None once sealed. The section cannot drain while a caller
    /// lives. So never hold one across an await (it is not `Send`) or while waiting for a refill.
    #[inline]
    pub fn enter(&self) -> Option<SectionGuard<'_>> {
        let guard = SectionGuard::enter(self)?;
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
        Some(guard)
    }

    /// Does [`SectionGuard::next`] as a call of its own.
    ///
    /// # Errors
    /// As [`SectionGuard::next`], and [`TakeError::Sealed`].
    pub fn next(&self, key: CounterKey<'_>, count: NonZeroU32) -> Result<NumberRange, TakeError> {
        self.enter().ok_or(TakeError::Sealed)?.next(key, count)
    }

    /// Does [`SectionGuard::raise_to`] as a call of its own.
    ///
    /// # Errors
    /// As [`SectionGuard::raise_to`], and [`TakeError::Sealed`].
    pub fn raise_to(&self, key: CounterKey<'_>, target: u64) -> Result<CurrentValue, TakeError> {
        self.enter().ok_or(TakeError::Sealed)?.raise_to(key, target)
    }

    /// Does [`SectionGuard::raise_untouched`] as a call of its own.
    ///
    /// # Errors
    /// As [`SectionGuard::raise_untouched`], and [`TakeError::Sealed`].
    pub fn raise_untouched(
        &self,
        key: CounterKey<'_>,
        target: u64,
    ) -> Result<(CurrentValue, bool), TakeError> {
        let guard = self.enter().ok_or(TakeError::Sealed)?;
        guard.raise_untouched(key, target)
    }

    /// Returns the state of a key's cur_seq. Allocates nothing.
    ///
    /// # Errors
    /// [`TakeError::Sealed`]: the next owner or generation may already have gone further.
    /// [`TakeError::WrongSection`].
    pub fn current(&self, key: CounterKey<'_>) -> Result<CurrentValue, TakeError> {
        let offset = self
            .find_cell(key)?
            .map_or(0, |cell| self.wide.read_offset(cell));
        // After reading: an answer is given only if the section was still open when it was read,
        // hence before any other section object could hand out a greater number.
        if self.gate.is_sealed() {
            return Err(TakeError::Sealed);
        }
        Ok(self.current_value(offset))
    }

    /// Seals: from now on no caller enters. It cannot be undone; sealing twice is harmless.
    pub fn seal(&self) {
        self.gate.seal();
    }

    /// Returns whether the section was sealed.
    pub fn is_sealed(&self) -> bool {
        self.gate.is_sealed()
    }

    /// Returns the highest number any counter reached, by handing out or by RaiseTo, `base` if
    /// none: exact and final. None until the section is sealed and every caller has left. It may be
    /// None again while a late caller is rejected: the caller retries.
    pub fn high_water_mark(&self) -> Option<u64> {
        if !self.gate.is_drained() {
            return None;
        }
        Some(match self.current_value(self.window.highest_offset()) {
            CurrentValue::Touched(number) => number,
            CurrentValue::Untouched => self.base(),
        })
    }

    /// Returns whether a caller entered since the last call: idle detection calls it at each sweep.
    /// A use that races with the sweep may show at this sweep or at the next.
    pub fn take_used(&self) -> bool {
        self.used.load(Relaxed) && self.used.swap(false, Relaxed)
    }

    /// Returns whether a caller entered since the last [`take_used`](Self::take_used).
    pub fn is_used(&self) -> bool {
        self.used.load(Relaxed)
    }

    /// Returns how many keys were touched since load.
    pub fn keys_in_memory(&self) -> u64 {
        self.touched.load(Relaxed)
    }

    /// Returns the bytes this object holds, itself included, without the allocator's own overhead.
    pub fn memory_bytes(&self) -> usize {
        let counters = match &self.counters {
            SectionCounters::Dense(dense) => dense.memory_bytes(),
            SectionCounters::Keyed(keyed) => keyed.memory_bytes(),
        };
        size_of::<Self>() + counters + self.wide.memory_bytes()
    }

    fn current_value(&self, offset: u64) -> CurrentValue {
        match self.window.number_at(offset) {
            Some(number) => CurrentValue::Touched(number),
            None => CurrentValue::Untouched,
        }
    }

    #[inline]
    fn find_cell(&self, key: CounterKey<'_>) -> Result<Option<CounterCell<'_>>, TakeError> {
        match (&self.counters, key) {
            (SectionCounters::Dense(dense), CounterKey::Dense(index)) => dense.find_cell(index),
            (SectionCounters::Keyed(keyed), CounterKey::Keyed(key)) => {
                Ok(keyed.find_cell(keyed.hash_key(key)))
            }
            _ => Err(TakeError::WrongSection),
        }
    }

    fn touch_cell(&self, key: CounterKey<'_>) -> Result<CounterCell<'_>, TakeError> {
        match (&self.counters, key) {
            (SectionCounters::Dense(dense), CounterKey::Dense(index)) => dense.touch_cell(index),
            (SectionCounters::Keyed(keyed), CounterKey::Keyed(key)) => keyed.touch_cell(key),
            _ => Err(TakeError::WrongSection),
        }
    }

    /// Moves a key's counter from its offset to `to(offset)`.
    fn advance_key(
        &self,
        key: CounterKey<'_>,
        to: impl Fn(u64) -> Result<u64, TakeError>,
    ) -> Result<CounterAdvance, TakeError> {
        let cell = match self.find_cell(key)? {
            Some(cell) => cell,
            // A call that will be rejected must not cost memory: any caller can invent keys.
            None if to(0)? == 0 => {
                return Ok(CounterAdvance {
                    before: 0,
                    after: 0,
                });
            }
            None => self.touch_cell(key)?,
        };
        self.advance_cell(cell, to)
    }

    #[inline]
    fn advance_cell(
        &self,
        cell: CounterCell<'_>,
        to: impl Fn(u64) -> Result<u64, TakeError>,
    ) -> Result<CounterAdvance, TakeError> {
        let step = self.wide.advance(cell, to)?;
        if step.before == 0 && step.after > 0 {
            self.touched.fetch_add(1, Relaxed);
        }
        self.window.note_offset(step.after);
        Ok(step)
    }
}
