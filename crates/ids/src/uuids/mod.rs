//! UUIDs of RFC 9562, by the crate `uuid`; times and random bits come in as arguments.
//!
//! | Version | Here |
//! |---|---|
//! | 1, 6 | [`GregorianUuids`]: time since 1582 in 100 ns, a node drawn per process |
//! | 2 | not made: it has a user id, and repeats within seven minutes; use 4 or 7 |
//! | 3, 5 | [`Uuid::new_v3`] and [`Uuid::new_v5`] with a [`parse_namespace`] |
//! | 4 | [`make_v4`] |
//! | 7 | [`UuidV7Generator`] |
//! | 8 | [`make_v8`] around an id of 64 bits, [`read_v8`] back |
//!
//! A GUID is a UUID whose first three fields lie in memory in little-endian order, as Windows
//! writes them: [`Uuid::to_bytes_le`], [`Uuid::from_bytes_le`]. The order of RFC 9562 is
//! [`Uuid::into_bytes`], [`Uuid::from_bytes`]. Their texts are equal. No part of either is unique.

mod gregorian;
mod namespace;
mod v7_generator;

pub use gregorian::GregorianUuids;
pub use namespace::parse_namespace;
pub use uuid::Uuid;
use uuid::{Builder, Version};
pub use v7_generator::UuidV7Generator;

/// Greatest family of a version 8.
pub const V8_FAMILY_MAX: u64 = (1 << 48) - 1;
/// Bits of an id below the variant of a version 8.
const V8_LOW_BITS: u32 = 62;
const V8_LOW_MASK: u64 = (1 << V8_LOW_BITS) - 1;

/// Makes a version 4: 122 random bits. Half a chance of one repetition among 2.7 * 10^18.
#[inline]
pub fn make_v4(mut random: impl FnMut() -> u64) -> Uuid {
    let bits = u128::from(random()) << 64 | u128::from(random());
    Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
}

/// Makes a version 8 around an id of 64 bits; `family` tells ids of several families apart.
///
/// The id lies in the last bytes: its 62 low bits after the variant, its two top bits before it.
/// The first 48 bits are the family, of which [`V8_FAMILY_MAX`] is the greatest; more is cut off.
/// It is as unique, and within a family as ordered, as the id.
#[inline]
pub fn make_v8(family: u64, id: u64) -> Uuid {
    let high = family << 16 | id >> V8_LOW_BITS;
    let bits = u128::from(high) << 64 | u128::from(id & V8_LOW_MASK);
    Builder::from_custom_bytes(bits.to_be_bytes()).into_uuid()
}

/// Returns the family and the id of a version 8 that [`make_v8`] made; None for anything else.
pub fn read_v8(uuid: Uuid) -> Option<(u64, u64)> {
    let (high, low) = uuid.as_u64_pair();
    let (family, id) = (high >> 16, (high & 3) << V8_LOW_BITS | low & V8_LOW_MASK);
    (uuid.get_version() == Some(Version::Custom) && make_v8(family, id) == uuid)
        .then_some((family, id))
}
