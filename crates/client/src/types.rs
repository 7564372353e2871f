//! Results of calls.

use seqsvr_proto::v1;

use crate::pipe::RawAnswer;

/// Numbers that now belong to the caller: first, first + stride, … last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The smallest number.
    pub first: u64,
    /// The greatest number; equal to `first` if the caller requested one.
    pub last: u64,
    /// Epoch of the slot when the numbers were given.
    pub epoch: u64,
    /// Distance between neighbors, at least 1.
    pub stride: u32,
}

impl Numbers {
    /// Returns all of them, rising.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<> {
        (self.first..=self.last).step_by(self.stride.max(1) as usize)
    }

    /// Reads an answer and checks that it has `count` numbers, all above `floor`.
    pub(crate) fn decode(
        raw: RawAnswer,
        stride: u32,
        count: u32,
        floor: Option<u64>,
    ) -> Result<Numbers, &'static str> {
        let numbers = Numbers {
            first: raw.value,
            last: raw.last,
            epoch: raw.epoch,
            stride,
        };
        let span = u64::from(count.max(1) - 1) * u64::from(numbers.stride);
        if numbers.first == 0 || numbers.last.checked_sub(numbers.first) != Some(span) {
            return Err("number count differs from the request");
        }
        if floor.is_some_and(|floor| numbers.first <= floor) {
            return Err("numbers are not above the floor");
        }
        Ok(numbers)
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

impl Current {
    pub(crate) fn decode(raw: RawAnswer) -> Result<Current, &'static str> {
        let kind = match v1::CurrentKind::try_from(raw.kind) {
            Ok(v1::CurrentKind::Exact) => CurrentKind::Exact,
            Ok(v1::CurrentKind::Never) => CurrentKind::Never,
            Ok(v1::CurrentKind::AtMost) => CurrentKind::AtMost,
            Ok(v1::CurrentKind::Unspecified) | Err(_) => return Err("unknown kind of current"),
        };
        Ok(Current {
            kind,
            value: raw.value,
            epoch: raw.epoch,
        })
    }
}

/// The result of RaiseTo for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// The key's current number: the requested value rounded up, or a greater one it already had.
    pub value: u64,
    /// Epoch of the slot.
    pub epoch: u64,
}
