//! The namespace and key that a Redis client's key means.

use seqsvr_core::namespace::KEYS;

/// Prefix of a key that names its namespace.
const AT: u8 = b'@';

/// A key and its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place<'a> {
    /// None: `keys`. (An empty text would point nowhere, and comparing it took a tenth of a
    /// command's time: a processor is slow to find that it need not read there.)
    pub(super) namespace: Option<&'a str>,
    pub(super) key: Key<'a>,
}

/// A uid, or the bytes of a key. A namespace of keys reads a uid as its decimal text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key<'a> {
    Uid(u64),
    Bytes(&'a [u8]),
}

impl<'a> Place<'a> {
    /// Reads `@namespace/key`, or a key of `keys`, byte for byte.
    ///
    /// # Errors
    /// The text of the answer: the namespace's name is not text.
    pub(super) fn of(key: &'a [u8]) -> Result<Place<'a>, &'static str> {
        let plain = Place {
            namespace: None,
            key: Key::Bytes(key),
        };
        let Some((&AT, rest)) = key.split_first() else {
            return Ok(plain);
        };
        let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
            return Ok(plain);
        };
        let (namespace, key) = (&rest[..slash], &rest[slash + 1..]);
        let namespace = str::from_utf8(namespace)
            .ok()
            .filter(|name| !name.is_empty())
            .ok_or("ERR @namespace/key: the name of a namespace is 1 to 64 of a-z A-Z 0-9 _ . -")?;
        // The same sequence has one place.
        if namespace == KEYS {
            return Ok(Place {
                key: Key::Bytes(key),
                ..plain
            });
        }
        Ok(Place {
            namespace: Some(namespace),
            key: uid(key).map_or(Key::Bytes(key), Key::Uid),
        })
    }
}

/// Returns the number whose decimal text this is.
fn uid(text: &[u8]) -> Option<u64> {
    let fits = matches!(text, [b'0'] | [b'1'..=b'9', ..]) && text.len() <= 20;
    let text = str::from_utf8(text).ok().filter(|_| fits)?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_their_namespaces() {
        for (key, namespace, expected) in [
            ("user:1", "", Key::Bytes(b"user:1")),
            ("42", "", Key::Bytes(b"42")),
            ("@none", "", Key::Bytes(b"@none")),
            ("@keys/42", "", Key::Bytes(b"42")),
            ("@default/42", "default", Key::Uid(42)),
            ("@orders/42", "orders", Key::Uid(42)),
            ("@orders/0", "orders", Key::Uid(0)),
            ("@orders/042", "orders", Key::Bytes(b"042")),
            (
                "@orders/18446744073709551616",
                "orders",
                Key::Bytes(b"18446744073709551616"),
            ),
            ("@orders/a/b", "orders", Key::Bytes(b"a/b")),
            ("@orders/", "orders", Key::Bytes(b"")),
        ] {
            let place = Place::of(key.as_bytes()).unwrap();
            let expected = (Some(namespace).filter(|name| !name.is_empty()), expected);
            assert_eq!((place.namespace, place.key), expected, "{key}");
        }
        for bad in [&b"@/1"[..], b"@\xff/1"] {
            Place::of(bad).unwrap_err();
        }
    }
}
