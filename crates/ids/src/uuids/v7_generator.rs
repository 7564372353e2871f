//! Version 7: the Unix time in milliseconds, a counter, and random bits.
//!
//! Invariant: the time and the counter of a process only rise. They share one word, so a counter
//! that is used up continues in the next millisecond, in front of the clock.

use std::time::Duration;

use uuid::{Builder, Uuid, Variant, Version};

use crate::rising_counter::RisingCounter;

/// Bits of the counter: 12 before the variant and 4 after it.
const COUNTER_BITS: u32 = 16;
/// Bits after the variant that the counter has.
const COUNTER_LOW_BITS: u32 = 4;
const RANDOM_BITS: u32 = 58;

/// Maker of version 7, whose time ends in the year 10889.
///
/// UUIDs of one maker rise, also within a millisecond and when the clock is set back: it then
/// continues at its last time, and counts. A millisecond begins at a random count in the lower half
/// (RFC 9562, 6.2, method 1). 58 further bits are random.
#[derive(Debug, Default)]
pub struct UuidV7Generator {
    last: RisingCounter,
}

impl UuidV7Generator {
    /// Makes a version 7 that is greater than all that this generator made.
    #[inline]
    pub fn make(&self, since_unix_epoch: Duration, mut random: impl FnMut() -> u64) -> Uuid {
        let now_ms = since_unix_epoch.as_millis() as u64;
        let bits = random();
        let word = self.last.next(|last| match last >> COUNTER_BITS < now_ms {
            true => now_ms << COUNTER_BITS | random() >> (u64::BITS - COUNTER_BITS + 1),
            false => 0,
        });
        let high = word >> COUNTER_LOW_BITS;
        let time = high >> 12 << 16 | high & 0xfff;
        let low = (word & 0xf) << RANDOM_BITS | bits >> (u64::BITS - RANDOM_BITS);
        Builder::from_u128(u128::from(time) << 64 | u128::from(low))
            .with_version(Version::SortRand)
            .with_variant(Variant::RFC4122)
            .into_uuid()
    }
}
