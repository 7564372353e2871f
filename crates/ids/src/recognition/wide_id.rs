//! Ids above 64 bits.

use std::fmt;

use seqsvr_core::layout::format_utc_ms;

use super::OLDEST_MS;
use crate::codec::IdParts;
use crate::presets::IdReading;

/// Widths of the parts below the time of npm `sonyflake`.
const SEQ_BITS: u32 = 8;
const WORKER_BITS: u32 = 16;
/// Bits of the ids that npm `sonyflake` makes.
const SONYFLAKE_BITS: u32 = 65;

/// An id of more than 64 bits. Its text says how many, and what it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideId(u128);

impl WideId {
    /// Splits numbers that fit an id from those that are wider.
    ///
    /// # Errors
    /// The number has more than 64 bits.
    pub fn narrow(number: u128) -> Result<u64, WideId> {
        u64::try_from(number).map_err(|_| WideId(number))
    }

    /// Returns the number.
    pub fn number(self) -> u128 {
        self.0
    }

    /// Returns the parts and the time, if npm `sonyflake` with the Unix epoch can have made the id.
    pub fn as_sonyflake(self) -> Option<IdReading> {
        let time_ms = (self.0 >> (SEQ_BITS + WORKER_BITS)) as u64;
        let parts = IdParts {
            tick: time_ms,
            worker: u32::from(self.0 as u16),
            seq: u32::from((self.0 >> WORKER_BITS) as u8),
            ..IdParts::default()
        };
        let is_one = self.bits() == SONYFLAKE_BITS && time_ms >= OLDEST_MS;
        is_one.then_some(IdReading { parts, time_ms })
    }

    fn bits(self) -> u32 {
        u128::BITS - self.0.leading_zeros()
    }
}

impl fmt::Display for WideId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, bits) = (self.0, self.bits());
        write!(f, "{number} has {bits} bits: an id has at most 64; ")?;
        match self.as_sonyflake() {
            Some(IdReading { parts, time_ms }) => write!(
                f,
                "npm sonyflake 1.1.2 makes such ids, with 41 bits of milliseconds since 1970, 8 of \
                 seq and 16 of worker: it would be of {}, worker {}, seq {}",
                format_utc_ms(time_ms),
                parts.worker,
                parts.seq
            ),
            None => f.write_str("write for example 225912364091068416, or a UUID with its hyphens"),
        }
    }
}

impl std::error::Error for WideId {}
