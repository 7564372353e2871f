//! Sequence number with which a tick begins.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// Where a generator begins in a tick to which the clock lifts it.
///
/// A run that is longer than the rest of its tick begins the following tick at the least number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SequenceStart {
    /// At the least number.
    #[default]
    Zero,
    /// At a number below `below` that a keyed hash of the tick chooses, so that `id % shards` is
    /// even at low rates. At most one id fewer a tick for each number below.
    Random {
        /// The first number not chosen; above the ids of a tick it counts as these.
        below: u32,
        /// Key of the hash, such as the worker.
        key: u64,
    },
    /// At the number after the last one; at the least number if that is above half.
    Carry,
}

impl SequenceStart {
    /// Returns how far into `tick` it begins; `position` is that of the generator.
    pub(super) fn offset(self, tick: u64, position: u64, capacity: u64) -> u64 {
        match self {
            Self::Zero => 0,
            Self::Random { below, key } => {
                let below = u64::from(below).clamp(1, capacity);
                BuildHasherDefault::<DefaultHasher>::default().hash_one((key, tick)) % below
            }
            Self::Carry => {
                let next = position % capacity;
                if next > capacity / 2 { 0 } else { next }
            }
        }
    }
}
