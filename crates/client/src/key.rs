//! The key for which a caller requests numbers.

use std::fmt;

use bytes::Bytes;
use seqsvr_core::ids::Uid;
use seqsvr_core::routing_table::KeyRef;

/// A uid or a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A uid of a dense namespace; in a keyed one, the key of its decimal text.
    Uid(u64),
    /// 1 to 128 bytes, in a keyed namespace.
    Key(Bytes),
}

impl Key {
    /// Reads a decimal u64 as a uid, anything else as a key.
    pub fn parse(text: &str) -> Key {
        match text.parse() {
            // `parse` accepts a leading plus sign; such a text is not a decimal as people write it.
            Ok(uid) if text.bytes().all(|b| b.is_ascii_digit()) => Key::Uid(uid),
            _ => Key::from(text),
        }
    }

    /// Returns the form from which core computes sections.
    pub fn as_ref(&self) -> KeyRef<'_> {
        match self {
            Key::Uid(uid) => KeyRef::Uid(Uid(*uid)),
            Key::Key(key) => KeyRef::Key(key),
        }
    }
}

impl From<u64> for Key {
    fn from(uid: u64) -> Key {
        Key::Uid(uid)
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Key {
        Key::Key(Bytes::copy_from_slice(key.as_bytes()))
    }
}

impl From<String> for Key {
    fn from(key: String) -> Key {
        Key::Key(key.into())
    }
}

impl From<&[u8]> for Key {
    fn from(key: &[u8]) -> Key {
        Key::Key(Bytes::copy_from_slice(key))
    }
}

impl From<Vec<u8>> for Key {
    fn from(key: Vec<u8>) -> Key {
        Key::Key(key.into())
    }
}

impl From<Bytes> for Key {
    fn from(key: Bytes) -> Key {
        Key::Key(key)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Uid(uid) => uid.fmt(f),
            Key::Key(key) => String::from_utf8_lossy(key).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_parse_reads_only_decimal_u64_as_uid() {
        assert_eq!(Key::parse("42"), Key::Uid(42));
        assert_eq!(Key::parse("18446744073709551615"), Key::Uid(u64::MAX));
        for key in ["18446744073709551616", "+42", "-1", "4 2", "alice", ""] {
            assert_eq!(Key::parse(key), Key::from(key), "{key:?}");
        }
    }
}
