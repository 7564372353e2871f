//! Items of a request, counted from its bytes as they arrive.
//!
//! The server rejects a request of far too many items when its bytes show the number, not when it
//! is complete. A request of four megabytes of uids, received and decoded whole, took a thread
//! milliseconds, in which no other call of that thread was answered. As many bytes of empty keys
//! took sixteen times the memory that was counted for them.
//!
//! Invariant: of a message that passes, no field (by number) has more than twice [`ITEMS_MAX`]
//! entries of bytes, or takes more than [`ROOM`] as a packed column. It is twice, so that a caller
//! of a Pipe with somewhat too many items loses that frame only. Of other calls no column of uids
//! has more than [`ITEMS_MAX`].
//!
//! The bytes read also give the memory that the message takes once it is decoded, before it is.

use bytes::Bytes;
use prost::encoding::WireType;
use seqsvr_core::geometry::KEY_MAX;
use tonic::Status;

use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::{ITEMS_MAX, MESSAGE_BYTES_MAX};
use seqsvr_proto::v1::Reason;

/// Most that one field counts: twice [`ITEMS_MAX`] entries, each of them as one [`ENTRY`].
const ROOM: u64 = 2 * ITEMS_MAX as u64 * ENTRY;
/// Count of a single entry. An entry of a packed column, of at most 10 bytes, counts its bytes.
const ENTRY: u64 = 16;
/// Memory of a single entry: a key without a byte has a handle of this size.
const ENTRY_KEPT: usize = size_of::<Bytes>();
/// Field of the namespace, a text, in all requests.
const NAMESPACE: u64 = 1;
/// Field of the uids, of a fixed width, in all requests of more than one item.
const UIDS: u64 = 2;
const UID_BYTES: u64 = 8;
/// Field of the keys, in all requests of more than one item, and of the key of the others.
const KEYS: u64 = 3;
/// Bytes of a key that count as one: the longest key, of 128, counts as one entry.
const KEY_BYTES: u64 = 8;
/// Field of the floors, of a fixed width.
const FLOORS: u64 = 5;
/// Field of the request in a Pipe's frame.
const NEXT: u64 = 3;
const CURRENT: u64 = 4;
/// Number of counters. Fields from the last one on count together; no request has such fields.
const FIELDS: usize = 16;
/// Bytes of a message's prefix: a flag, and the length in four bytes.
const PREFIX: u8 = 5;

/// Reader of the messages of one call.
pub(crate) struct EntryScanner {
    /// Whether each message is a Pipe's frame.
    frames: bool,
    at: At,
    /// Bytes of the message still to come, and of a frame's request.
    left: u64,
    left_within: u64,
    counted: [u64; FIELDS],
    /// Bytes that the bytes read become in memory, beyond themselves.
    kept: usize,
}

/// Part that the next byte belongs to.
#[derive(Clone, Copy)]
enum At {
    /// The prefix of a message: bytes of it read, and the last four of them.
    Prefix(u8, u32),
    Number(Number, u64, u32),
    /// Bytes to skip.
    Skip(u64),
    /// Rest of a message that is rejected for another reason; nothing more is read.
    Rejected,
}

/// A number of variable length; the value so far and its bits follow.
#[derive(Clone, Copy)]
enum Number {
    Tag,
    Value,
    /// Length of a field.
    Length(u64),
}

const TAG: At = At::Number(Number::Tag, 0, 0);

impl EntryScanner {
    pub(crate) fn new(frames: bool) -> EntryScanner {
        EntryScanner {
            frames,
            at: At::Prefix(0, 0),
            left: 0,
            left_within: 0,
            counted: [0; FIELDS],
            kept: 0,
        }
    }

    /// Reads the next bytes. Returns the bytes that they take in memory once they are decoded,
    /// beyond themselves.
    ///
    /// # Errors
    /// INVALID_ARGUMENT: far too many items, or no message of this protocol.
    pub(crate) fn read(&mut self, mut data: &[u8]) -> Result<usize, Status> {
        self.kept = 0;
        while let Some((&byte, rest)) = data.split_first() {
            match self.at {
                At::Rejected => break,
                At::Prefix(n, length) => {
                    data = rest;
                    self.prefix(n, length << 8 | u32::from(byte))?;
                }
                At::Skip(n) => {
                    let in_request = self.left_within > 0;
                    let here = n.min(data.len() as u64);
                    data = &data[here as usize..];
                    self.take(here)?;
                    self.at = match n - here {
                        0 => TAG,
                        more => At::Skip(more),
                    };
                    self.end(in_request)?;
                }
                At::Number(what, value, bits) => {
                    data = rest;
                    let in_request = self.left_within > 0;
                    self.take(1)?;
                    let value = value | u64::from(byte & 0x7f) << bits;
                    if byte & 0x80 == 0 {
                        self.at = self.number(what, value, !self.frames || in_request)?;
                    } else if bits < 63 {
                        self.at = At::Number(what, value, bits + 7);
                    } else {
                        return Err(malformed());
                    }
                    self.end(in_request)?;
                }
            }
        }
        Ok(self.kept)
    }

    fn prefix(&mut self, n: u8, length: u32) -> Result<(), Status> {
        // The flag means compressed: the decoder rejects that, and also a message that is too long.
        if n == 0 && length != 0 {
            self.at = At::Rejected;
        } else if n + 1 < PREFIX {
            self.at = At::Prefix(n + 1, length);
        } else if length as usize > MESSAGE_BYTES_MAX {
            self.at = At::Rejected;
        } else {
            self.at = TAG;
            (self.left, self.left_within) = (length.into(), 0);
            self.counted = [0; FIELDS];
            return self.end(false);
        }
        Ok(())
    }

    /// Notes that bytes of the message were read, and of its request if that has not ended.
    fn take(&mut self, n: u64) -> Result<(), Status> {
        self.left = self.left.checked_sub(n).ok_or_else(malformed)?;
        if self.left_within > 0 {
            self.left_within = self.left_within.checked_sub(n).ok_or_else(malformed)?;
        }
        Ok(())
    }

    /// Checks that neither a request nor a message ends in the middle of a field; after a message
    /// comes the next one's prefix. (If a request could end within a field, it would be read
    /// otherwise here than where it is decoded.)
    fn end(&mut self, was_in_request: bool) -> Result<(), Status> {
        let request_ended = was_in_request && self.left_within == 0;
        if !request_ended && self.left > 0 {
            return Ok(());
        }
        if !matches!(self.at, At::Number(Number::Tag, 0, 0)) {
            return Err(malformed());
        }
        if self.left == 0 {
            self.at = At::Prefix(0, 0);
        }
        Ok(())
    }

    /// Returns what follows a number that was read; its last byte was within a request or not.
    fn number(&mut self, what: Number, value: u64, in_request: bool) -> Result<At, Status> {
        match what {
            Number::Value => Ok(TAG),
            Number::Tag => {
                let field = value >> 3;
                let wire = WireType::try_from(value & 7).map_err(|_| malformed())?;
                Ok(match wire {
                    WireType::LengthDelimited => At::Number(Number::Length(field), 0, 0),
                    WireType::Varint => {
                        self.count(field, ENTRY)?;
                        At::Number(Number::Value, 0, 0)
                    }
                    WireType::SixtyFourBit => {
                        self.count(field, ENTRY)?;
                        At::Skip(8)
                    }
                    WireType::ThirtyTwoBit => {
                        self.count(field, ENTRY)?;
                        At::Skip(4)
                    }
                    // proto3 has no groups.
                    WireType::StartGroup | WireType::EndGroup => return Err(malformed()),
                })
            }
            Number::Length(field) => {
                if value > self.left {
                    return Err(malformed());
                }
                let uids = value / UID_BYTES;
                if !self.frames && field == UIDS && uids > ITEMS_MAX as u64 {
                    return Err(too_many(&format!(", not {uids}")));
                }
                let counts = match (in_request, field) {
                    (true, KEYS) => (value / KEY_BYTES).max(ENTRY),
                    (false, NEXT | CURRENT) => ENTRY,
                    _ => value.max(ENTRY),
                };
                self.count(field, counts)?;
                self.kept += match (in_request, field) {
                    (true, NAMESPACE | KEYS) | (false, NEXT | CURRENT) => 0,
                    (true, UIDS | FLOORS) => value as usize,
                    // A byte of a packed column may be a number of eight.
                    _ => 8 * value as usize,
                };
                if !in_request && matches!(field, NEXT | CURRENT) {
                    self.left_within = value;
                    return Ok(TAG);
                }
                Ok(match value {
                    0 => TAG,
                    more => At::Skip(more),
                })
            }
        }
    }

    fn count(&mut self, field: u64, n: u64) -> Result<(), Status> {
        let counted = &mut self.counted[field.min(FIELDS as u64 - 1) as usize];
        *counted += n;
        self.kept += ENTRY_KEPT;
        if *counted <= ROOM {
            return Ok(());
        }
        Err(too_many(&format!(", of keys of at most {KEY_MAX} bytes")))
    }
}

fn too_many(more: &str) -> Status {
    let text = format!("one request takes at most {ITEMS_MAX} items{more}; split it");
    RpcError::new(Reason::LimitExceeded, text).into()
}

fn malformed() -> Status {
    let text = "malformed request: not a message of sequence.proto";
    RpcError::new(Reason::Invalid, text).into()
}

#[cfg(test)]
mod tests;
