//! Wire types to core types and back. All input from the wire is checked here, once.

mod key;
mod namespace;
mod section;
mod table;

use bytes::Bytes;
use seqsvr_core::id::Slot;

pub use key::{Keyed, namespace_name};
pub use namespace::spec_from;
pub use section::{command_from, final_from, section_reply};

/// Message that does not have the form that the contract requires; the text says which part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct Malformed(pub &'static str);

/// Returns the 16 bytes of a 128-bit value, big-endian.
pub fn u128_bytes(value: u128) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

/// Reads a 128-bit value.
pub fn u128_from(bytes: &[u8], what: &'static str) -> Result<u128, Malformed> {
    Ok(u128::from_be_bytes(
        bytes.try_into().map_err(|_| Malformed(what))?,
    ))
}

fn slot_from(slot: u32) -> Result<Slot, Malformed> {
    Ok(Slot(u16::try_from(slot).map_err(|_| Malformed("slot"))?))
}
