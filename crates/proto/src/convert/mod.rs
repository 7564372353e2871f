//! Wire types to core types and back. All input from the wire is checked here, once.

mod family;
mod key;
mod namespace;
mod section;
mod table;
mod worker;

use bytes::Bytes;
use seqsvr_core::ids::Slot;

pub use key::{RequestKey, namespace_name};
pub use namespace::namespace_spec_from;
pub use section::{command_from, high_water_mark_from, section_reply_from};
pub use worker::worker_command_from;

/// Message that does not have the form that the contract requires; the text says which part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct DecodeError(pub &'static str);

/// Returns the 16 bytes of a 128-bit value, big-endian.
pub fn u128_to_bytes(value: u128) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

/// Reads a 128-bit value.
pub fn u128_from(bytes: &[u8], what: &'static str) -> Result<u128, DecodeError> {
    Ok(u128::from_be_bytes(
        bytes.try_into().map_err(|_| DecodeError(what))?,
    ))
}

fn slot_from(slot: u32) -> Result<Slot, DecodeError> {
    Ok(Slot(u16::try_from(slot).map_err(|_| DecodeError("slot"))?))
}
