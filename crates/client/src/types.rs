//! Results of calls.

use seqsvr_core::geometry::COUNT_MAX;

use crate::error::Error;

/// Numbers that now belong to the caller: first, first + stride, … last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuedRange {
    /// The smallest number.
    pub first: u64,
    /// The greatest number; equal to `first` if the caller requested one.
    pub last: u64,
    /// Epoch of the slot when the numbers were given.
    pub epoch: u64,
    /// Distance between neighbors, at least 1.
    pub stride: u32,
}

impl IssuedRange {
    /// Returns all of them, rising.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<> {
        (self.first..=self.last).step_by(self.stride.max(1) as usize)
    }
}

/// The certainty of [`Current::value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentKind {
    /// No greater number was given out before, and every later one will be greater.
    Exact,
    /// No number was ever given out; the value is the namespace's start - 1.
    Never,
    /// Not used since the section was loaded: a bound, not a floor and not a version to save.
    AtMost,
}

/// The last number given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The certainty of the value.
    pub kind: CurrentKind,
    /// The number or the bound.
    pub value: u64,
    /// Epoch of the slot when the value was read.
    pub epoch: u64,
}

/// The result of RaiseTo for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// The key's current number: the requested value rounded up, or a greater one it already had.
    pub value: u64,
    /// Epoch of the slot.
    pub epoch: u64,
}

/// Rejects a count outside the limits, before it can fail a whole batch.
pub(crate) fn validate_count(count: u32) -> Result<(), Error> {
    if count == 0 || count > COUNT_MAX {
        return Err(Error::invalid(format!(
            "count must be 1 to {COUNT_MAX}, not {count}"
        )));
    }
    Ok(())
}
