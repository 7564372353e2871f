//! The name of a sequence as one token: namespace and uid or key, with `/` between.
//!
//! Keys are any bytes, and lines are text that is split at white space. So every byte that is not
//! plain printable ASCII is written `%XX`.
//!
//! Invariant: one sequence has exactly one token, so the checker may compare tokens and nothing
//! else (`is_token` rejects a second spelling).

use std::fmt;
use std::sync::Arc;

/// One sequence of one namespace; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceName(Arc<str>);

impl SequenceName {
    /// Names the sequence of a uid in a dense namespace.
    #[must_use]
    pub fn for_uid(namespace: &str, uid: u64) -> Self {
        Self::for_key(namespace, uid.to_string())
    }

    /// Names the sequence of a key in a keyed namespace.
    #[must_use]
    pub fn for_key(namespace: &str, key: impl AsRef<[u8]>) -> Self {
        let mut token = String::with_capacity(namespace.len() + 24);
        push_escaped(&mut token, namespace.as_bytes());
        token.push('/');
        push_escaped(&mut token, key.as_ref());
        Self(token.into())
    }

    /// Returns the token as a history has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps a token that `is_token` accepted or a `Sequence` made.
    pub(crate) fn from_token(token: &str) -> Self {
        Self(token.into())
    }
}

impl fmt::Display for SequenceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a byte is written as it is: `/` splits the token, `%` begins an escape, `#`
/// begins a comment line.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'/' | b'%' | b'#')
}

fn push_escaped(token: &mut String, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if is_plain(byte) {
            token.push(char::from(byte));
        } else {
            token.push('%');
            token.push(char::from(HEX[usize::from(byte >> 4)]));
            token.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Returns whether `text` is the one spelling of some sequence.
pub(crate) fn is_token(text: &str) -> bool {
    fn hex_digit(byte: u8) -> Option<u8> {
        match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'A'..=b'F' => Some(byte - b'A' + 10),
            _ => None,
        }
    }
    let mut slashes = 0;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'/' => slashes += 1,
            b'%' => {
                let (Some(high), Some(low)) = (
                    bytes.next().and_then(hex_digit),
                    bytes.next().and_then(hex_digit),
                ) else {
                    return false;
                };
                if is_plain(high << 4 | low) {
                    return false;
                }
            }
            _ if is_plain(byte) => {}
            _ => return false,
        }
    }
    slashes == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequence_token_is_readable_and_has_one_spelling() {
        assert_eq!(SequenceName::for_uid("default", 42).as_str(), "default/42");
        assert_eq!(
            SequenceName::for_key("keys", "a b/c%#").as_str(),
            "keys/a%20b%2Fc%25%23"
        );
        for bad in [
            "", "42", "a/b/c", "a/%41", "a/%2f", "a/%2", "a/ä", "a/%ZZ", "a/b#",
        ] {
            assert!(!is_token(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn sequence_tokens_of_different_sequences_differ(
            (ns1, key1) in (".{0,3}", proptest::collection::vec(any::<u8>(), 0..4)),
            (ns2, key2) in (".{0,3}", proptest::collection::vec(any::<u8>(), 0..4)),
        ) {
            let one = SequenceName::for_key(&ns1, &key1);
            let two = SequenceName::for_key(&ns2, &key2);
            prop_assert!(is_token(one.as_str()));
            prop_assert_eq!(one == two, (ns1, key1) == (ns2, key2));
        }
    }
}
