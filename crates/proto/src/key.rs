//! The key of a call, owned.

use std::fmt;

use bytes::Bytes;
use seqsvr_core::key::KeyRef;

/// A uid or a key, owned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyBuf {
    /// A uid of a dense namespace; in a keyed one, the key of its decimal text.
    Uid(u64),
    /// 1 to 128 bytes, in a keyed namespace.
    Key(Bytes),
}

impl KeyBuf {
    /// Reads a decimal u64 as a uid, anything else as a key.
    pub fn parse(text: &str) -> KeyBuf {
        match text.parse() {
            // `parse` accepts a leading plus sign; such a text is not a decimal as people write it.
            Ok(uid) if text.bytes().all(|b| b.is_ascii_digit()) => KeyBuf::Uid(uid),
            _ => KeyBuf::from(text),
        }
    }

    /// Returns the form from which core computes sections.
    pub fn as_ref(&self) -> KeyRef<'_> {
        match self {
            KeyBuf::Uid(uid) => KeyRef::Uid(*uid),
            KeyBuf::Key(key) => KeyRef::Key(key),
        }
    }
}

impl From<KeyRef<'_>> for KeyBuf {
    /// Copies the key, so that it keeps no buffer of a whole message.
    fn from(key: KeyRef<'_>) -> KeyBuf {
        match key {
            KeyRef::Uid(uid) => KeyBuf::Uid(uid),
            KeyRef::Key(key) => KeyBuf::from(key),
        }
    }
}

impl From<u64> for KeyBuf {
    fn from(uid: u64) -> KeyBuf {
        KeyBuf::Uid(uid)
    }
}

impl From<&str> for KeyBuf {
    fn from(key: &str) -> KeyBuf {
        KeyBuf::Key(Bytes::copy_from_slice(key.as_bytes()))
    }
}

impl From<String> for KeyBuf {
    fn from(key: String) -> KeyBuf {
        KeyBuf::Key(key.into())
    }
}

impl From<&[u8]> for KeyBuf {
    fn from(key: &[u8]) -> KeyBuf {
        KeyBuf::Key(Bytes::copy_from_slice(key))
    }
}

impl From<Vec<u8>> for KeyBuf {
    fn from(key: Vec<u8>) -> KeyBuf {
        KeyBuf::Key(key.into())
    }
}

impl From<Bytes> for KeyBuf {
    fn from(key: Bytes) -> KeyBuf {
        KeyBuf::Key(key)
    }
}

impl fmt::Display for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyBuf::Uid(uid) => uid.fmt(f),
            KeyBuf::Key(key) => String::from_utf8_lossy(key).fmt(f),
        }
    }
}

/// Splits the keys of a request into its columns: uids, and keys.
pub fn key_columns(keys: impl ExactSizeIterator<Item = KeyBuf>) -> (Vec<u64>, Vec<Bytes>) {
    let (mut uids, mut bytes) = (Vec::new(), Vec::new());
    let mut keys = keys.peekable();
    // Almost always all keys are of one kind.
    match keys.peek() {
        Some(KeyBuf::Uid(_)) => uids.reserve_exact(keys.len()),
        _ => bytes.reserve_exact(keys.len()),
    }
    for key in keys {
        match key {
            KeyBuf::Uid(uid) => uids.push(uid),
            KeyBuf::Key(key) => bytes.push(key),
        }
    }
    (uids, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_parse_reads_only_decimal_u64_as_uid() {
        assert_eq!(KeyBuf::parse("42"), KeyBuf::Uid(42));
        assert_eq!(KeyBuf::parse("18446744073709551615"), KeyBuf::Uid(u64::MAX));
        for key in ["18446744073709551616", "+42", "-1", "4 2", "alice", ""] {
            assert_eq!(KeyBuf::parse(key), KeyBuf::from(key), "{key:?}");
        }
    }
}
