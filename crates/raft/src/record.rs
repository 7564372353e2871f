//! Records: the one way a value is written to disk or sent to a peer.
//!
//! `version u8 | length u32 | crc32 of those five bytes | body | crc32 of the body`, integers big
//! endian, body in bincode. Invariant: a reader never guesses. An unknown version, a bad checksum
//! or a length that was not written so is an error. Only a record whose *head* is right and whose
//! body is cut short reads as "end of file": a write torn by a power cut looks like that. With one
//! checksum behind the body only, a flipped bit in the length would look torn too. A log opened
//! after it would silently lose its acknowledged tail.

use std::io::{self, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Newest version this build reads and writes: its newest format level. A value is written under
/// the level that introduced its kind, so level 1 keeps its bytes. A build that does not know the
/// kind rejects the record by its version and does not misread it.
pub(crate) const VERSION_MAX: u8 = seqsvr_core::state::FORMAT_LEVEL_MAX as u8;
/// Longest body a record may have; entries and rows stay far below.
pub(crate) const BODY_MAX: usize = 16 << 20;
const HEADER_BYTES: usize = 9;
const TRAILER_BYTES: usize = 4;

/// Reason why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    /// Written by a newer build.
    #[error(
        "format version {0} is unknown to this build; the newest that it reads is {VERSION_MAX}"
    )]
    Version(u8),
    /// A checksum does not match.
    #[error("bad checksum")]
    Checksum,
    /// The bytes end inside the record.
    #[error("cut short")]
    Short,
    /// Right checksum, but not such a value.
    #[error("not a valid value: {0}")]
    Value(String),
}

impl From<RecordError> for io::Error {
    fn from(damage: RecordError) -> io::Error {
        let kind = match damage {
            RecordError::Short => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, damage)
    }
}

/// A value whose kind belongs to a format level.
pub(crate) trait HasFormatLevel {
    /// Returns the format level that introduced the value's kind.
    fn format_level(&self) -> u32 {
        1
    }
}

/// Encodes a value of level 1 as a record.
pub(crate) fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    encode_at_level(1, value)
}

/// Encodes a value of a given format level as a record.
pub(crate) fn encode_at_level<T: Serialize>(level: u32, value: &T) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER_BYTES];
    bincode::serde::encode_into_std_write(value, &mut bytes, bincode::config::standard())
        .map_err(io::Error::other)?;
    let length = bytes.len() - HEADER_BYTES;
    if length > BODY_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a value of {length} bytes is above the limit of {BODY_MAX}"),
        ));
    }
    bytes[0] = u8::try_from(level).map_err(io::Error::other)?;
    bytes[1..5].copy_from_slice(&(length as u32).to_be_bytes());
    let head = crc32fast::hash(&bytes[..5]);
    bytes[5..HEADER_BYTES].copy_from_slice(&head.to_be_bytes());
    let body = crc32fast::hash(&bytes[HEADER_BYTES..]);
    bytes.extend_from_slice(&body.to_be_bytes());
    Ok(bytes)
}

/// Decodes the value of a record that fills `bytes` exactly.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    let head = bytes
        .first_chunk::<HEADER_BYTES>()
        .ok_or(RecordError::Short)?;
    let length = check_header(head)?;
    let rest = &bytes[HEADER_BYTES..];
    if rest.len() < length + TRAILER_BYTES {
        return Err(RecordError::Short);
    }
    if rest.len() > length + TRAILER_BYTES {
        return Err(RecordError::Value(String::from("bytes follow it")));
    }
    let (body, tail) = rest.split_at(length);
    decode_body(body, tail)
}

/// Reads the value of the next record of a stream.
pub(crate) fn read_value<T: DeserializeOwned>(reader: &mut impl Read) -> io::Result<T> {
    let mut head = [0; HEADER_BYTES];
    reader.read_exact(&mut head)?;
    let length = check_header(&head)?;
    let mut rest = vec![0; length + TRAILER_BYTES];
    reader.read_exact(&mut rest)?;
    let (body, tail) = rest.split_at(length);
    Ok(decode_body(body, tail)?)
}

/// Returns the length of a body of `value`, in bytes.
pub(crate) fn encoded_len<T: Serialize>(value: &T) -> usize {
    let mut size = ByteCounter(0);
    // Counting cannot fail for our types; a wrong size would only misjudge a cache.
    let _ = bincode::serde::encode_into_std_write(value, &mut size, bincode::config::standard());
    size.0
}

/// Returns the version, if `text` has a [`RecordError::Version`] in it.
#[cfg(not(sim))]
pub(crate) fn parse_unknown_version(text: &str) -> Option<u8> {
    let (_, rest) = text.split_once("format version ")?;
    let (version, _) = rest.split_once(" is unknown to this build")?;
    version.parse().ok()
}

fn check_header(head: &[u8; HEADER_BYTES]) -> Result<usize, RecordError> {
    let crc = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    if crc32fast::hash(&head[..5]) != crc {
        return Err(RecordError::Checksum);
    }
    if !(1..=VERSION_MAX).contains(&head[0]) {
        return Err(RecordError::Version(head[0]));
    }
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > BODY_MAX {
        return Err(RecordError::Value(format!("it claims {length} bytes")));
    }
    Ok(length)
}

fn decode_body<T: DeserializeOwned>(body: &[u8], tail: &[u8]) -> Result<T, RecordError> {
    if crc32fast::hash(body).to_be_bytes() != tail {
        return Err(RecordError::Checksum);
    }
    let (value, used) = bincode::serde::decode_from_slice(body, bincode::config::standard())
        .map_err(|e| RecordError::Value(e.to_string()))?;
    if used != body.len() {
        return Err(RecordError::Value(String::from("bytes follow it")));
    }
    Ok(value)
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Value = (u64, String);

    #[test]
    fn record_with_flipped_bit_never_reads_as_torn() {
        let value: Value = (7, String::from("seven"));
        let good = encode(&value).unwrap();
        assert_eq!(decode::<Value>(&good), Ok(value));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let damage = decode::<Value>(&bad).unwrap_err();
            assert_ne!(damage, RecordError::Short, "bit {bit}");
            let error = read_value::<Value>(&mut &bad[..]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "bit {bit}");
        }
    }

    #[test]
    fn truncated_record_reads_as_torn() {
        let good = encode(&(7u64, String::from("seven"))).unwrap();
        for len in 0..good.len() {
            let error = read_value::<Value>(&mut &good[..len]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{len} bytes");
        }
    }

    #[test]
    fn record_of_newer_version_names_the_version() {
        let mut newer = encode(&7u64).unwrap();
        newer[0] = VERSION_MAX + 1;
        let head = crc32fast::hash(&newer[..5]);
        newer[5..9].copy_from_slice(&head.to_be_bytes());
        assert_eq!(
            decode::<u64>(&newer),
            Err(RecordError::Version(VERSION_MAX + 1))
        );
    }
}
