//! The namespace and key that the key of a Redis command names.

use std::hash::{Hash, Hasher};

use bytes::Bytes;
use seqsvr_core::geometry::KEY_MAX;
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::{DEFAULT_KEYED_NAMESPACE, NAME_MAX};
use seqsvr_proto::key::KeyBuf;

/// Prefix of a key that names its namespace.
const NAMESPACE_PREFIX: u8 = b'@';

/// The key of a command: its namespace, and the key in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RedisKey<'a> {
    /// None: `keys`. (An empty text instead of None would be slower: its pointer is dangling, and
    /// the comparison of such texts took a tenth of a command's time.)
    pub(super) namespace: Option<&'a str>,
    pub(super) key: KeyRef<'a>,
}

/// Hashes the bytes of the key, in one step if it names no namespace: as a derived `Hash` does it,
/// in five, this was most of what it cost to find a key among those of a batch.
impl Hash for RedisKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if let Some(namespace) = self.namespace {
            state.write(namespace.as_bytes());
        }
        match self.key {
            KeyRef::Uid(uid) => state.write_u64(uid),
            KeyRef::Key(key) => state.write(key),
        }
    }
}

impl<'a> RedisKey<'a> {
    /// Reads `@namespace/key`, or a key of `keys`, byte for byte.
    ///
    /// # Errors
    /// The text of the reply: the namespace's name is empty, too long or not text.
    pub(super) fn parse(key: &'a [u8]) -> Result<RedisKey<'a>, &'static str> {
        let plain = RedisKey {
            namespace: None,
            key: KeyRef::Key(key),
        };
        let Some((&NAMESPACE_PREFIX, rest)) = key.split_first() else {
            return Ok(plain);
        };
        let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
            return Ok(plain);
        };
        let (namespace, key) = (&rest[..slash], &rest[slash + 1..]);
        let namespace = str::from_utf8(namespace)
            .ok()
            .filter(|name| (1..=NAME_MAX).contains(&name.len()))
            .ok_or("ERR @namespace/key: the name of a namespace is 1 to 64 of a-z A-Z 0-9 _ . -")?;
        // Each sequence has one form, so that equal keys compare as equal.
        if namespace == DEFAULT_KEYED_NAMESPACE {
            return Ok(RedisKey {
                key: KeyRef::Key(key),
                ..plain
            });
        }
        Ok(RedisKey {
            namespace: Some(namespace),
            key: parse_uid(key).map_or(KeyRef::Key(key), KeyRef::Uid),
        })
    }

    /// Returns the key as a part of `data`, in which it lies.
    pub(super) fn to_key_buf(self, data: &Bytes) -> KeyBuf {
        match self.key {
            KeyRef::Uid(uid) => KeyBuf::Uid(uid),
            KeyRef::Key(key) => KeyBuf::Key(data.slice_ref(key)),
        }
    }
}

/// Parses a key and checks its length.
///
/// # Errors
/// The text of the reply.
pub(super) fn parse_key(key: &[u8]) -> Result<RedisKey<'_>, String> {
    let parsed = RedisKey::parse(key)?;
    match parsed.key {
        KeyRef::Key([]) => Err("ERR an empty key: a key has 1 to 128 bytes".into()),
        KeyRef::Key(key) if key.len() > KEY_MAX => Err(format!(
            "ERR a key of {} bytes: a key has 1 to {KEY_MAX} bytes",
            key.len()
        )),
        _ => Ok(parsed),
    }
}

/// Returns the number whose decimal text this is.
fn parse_uid(text: &[u8]) -> Option<u64> {
    let is_decimal = matches!(text, [b'0'] | [b'1'..=b'9', ..]) && text.len() <= 20;
    let text = str::from_utf8(text).ok().filter(|_| is_decimal)?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_key_names_its_namespace() {
        for (key, namespace, expected) in [
            ("user:1", "", KeyRef::Key(b"user:1")),
            ("42", "", KeyRef::Key(b"42")),
            ("@none", "", KeyRef::Key(b"@none")),
            ("@keys/42", "", KeyRef::Key(b"42")),
            ("@default/42", "default", KeyRef::Uid(42)),
            ("@orders/42", "orders", KeyRef::Uid(42)),
            ("@orders/0", "orders", KeyRef::Uid(0)),
            ("@orders/042", "orders", KeyRef::Key(b"042")),
            (
                "@orders/18446744073709551616",
                "orders",
                KeyRef::Key(b"18446744073709551616"),
            ),
            ("@orders/a/b", "orders", KeyRef::Key(b"a/b")),
            ("@orders/", "orders", KeyRef::Key(b"")),
        ] {
            let parsed = RedisKey::parse(key.as_bytes()).unwrap();
            let expected = (Some(namespace).filter(|name| !name.is_empty()), expected);
            assert_eq!((parsed.namespace, parsed.key), expected, "{key}");
        }
        let named = |bytes: usize| format!("@{}/1", "n".repeat(bytes)).into_bytes();
        RedisKey::parse(&named(NAME_MAX)).unwrap();
        for bad in [&b"@/1"[..], b"@\xff/1", &named(NAME_MAX + 1)] {
            RedisKey::parse(bad).unwrap_err();
        }
    }
}
