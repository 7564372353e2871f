//! What a request asks for: fields of JSON, or of a query, and the calls that they become.

use std::fmt;

use bytes::Bytes;
use seqsvr_proto::limits::ITEMS_MAX;
use seqsvr_proto::v1::{
    CurrentManyRequest, CurrentRequest, NextManyRequest, NextRequest, RaiseToRequest,
    current_request, next_request, raise_to_request,
};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Unexpected, Visitor};

/// Fields of one kind of request.
pub(super) trait Ask: serde::de::DeserializeOwned + Send {
    /// The call.
    type Call: Send;

    /// How long the caller waits, milliseconds; None: the default.
    fn timeout_ms(&self) -> Option<u64>;

    /// How numbers are written in the answer; None: as the query says.
    fn format(&self) -> Option<Format>;

    /// The call that it is.
    ///
    /// # Errors
    /// Fields that do not go together.
    fn call(self) -> Result<Self::Call, &'static str>;
}

/// One key, named in one of three ways.
const ONE_KEY: &str = "name one key: uid, key or key_base64";
const KEYS: &str = "name the keys in one way: uids, keys or keys_base64";

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Next {
    #[serde(default)]
    namespace: String,
    uid: Option<Number>,
    key: Option<Key>,
    key_base64: Option<Base64>,
    count: Option<Number>,
    floor: Option<Number>,
    epoch: Option<Number>,
    #[serde(default)]
    strict: bool,
    timeout_ms: Option<Number>,
    format: Option<Format>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NextMany {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uids: Items<Number>,
    #[serde(default)]
    keys: Items<Key>,
    #[serde(default)]
    keys_base64: Items<Base64>,
    #[serde(default)]
    counts: Items<Number>,
    #[serde(default)]
    floors: Items<Number>,
    #[serde(default)]
    epochs: Items<Number>,
    #[serde(default)]
    strict: bool,
    timeout_ms: Option<Number>,
    format: Option<Format>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Current {
    #[serde(default)]
    namespace: String,
    uid: Option<Number>,
    key: Option<Key>,
    key_base64: Option<Base64>,
    epoch: Option<Number>,
    #[serde(default)]
    strict: bool,
    timeout_ms: Option<Number>,
    format: Option<Format>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CurrentMany {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uids: Items<Number>,
    #[serde(default)]
    keys: Items<Key>,
    #[serde(default)]
    keys_base64: Items<Base64>,
    #[serde(default)]
    epochs: Items<Number>,
    #[serde(default)]
    strict: bool,
    timeout_ms: Option<Number>,
    format: Option<Format>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RaiseTo {
    #[serde(default)]
    namespace: String,
    uid: Option<Number>,
    key: Option<Key>,
    key_base64: Option<Base64>,
    value: Number,
    epoch: Option<Number>,
    timeout_ms: Option<Number>,
    format: Option<Format>,
}

/// The query of a request whose fields stand in its body.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnlyFormat {
    pub(super) format: Option<Format>,
}

impl Ask for Next {
    type Call = NextRequest;

    fn timeout_ms(&self) -> Option<u64> {
        self.timeout_ms.map(u64::from)
    }

    fn format(&self) -> Option<Format> {
        self.format
    }

    fn call(self) -> Result<NextRequest, &'static str> {
        Ok(NextRequest {
            namespace: self.namespace,
            key_kind: Some(match one(self.uid, self.key, self.key_base64)? {
                One::Uid(uid) => next_request::KeyKind::Uid(uid),
                One::Key(key) => next_request::KeyKind::Key(key),
            }),
            count: self.count.map(Number::count),
            floor: self.floor.map(u64::from),
            epoch: self.epoch.map(u64::from),
            strict: self.strict,
            ..NextRequest::default()
        })
    }
}

impl Ask for NextMany {
    type Call = NextManyRequest;

    fn timeout_ms(&self) -> Option<u64> {
        self.timeout_ms.map(u64::from)
    }

    fn format(&self) -> Option<Format> {
        self.format
    }

    fn call(self) -> Result<NextManyRequest, &'static str> {
        let (uids, keys) = many(self.uids, self.keys, self.keys_base64)?;
        Ok(NextManyRequest {
            namespace: self.namespace,
            uids,
            keys,
            counts: self.counts.0.into_iter().map(Number::count).collect(),
            floors: self.floors.numbers(),
            epochs: self.epochs.numbers(),
            strict: self.strict,
            ..NextManyRequest::default()
        })
    }
}

impl Ask for Current {
    type Call = CurrentRequest;

    fn timeout_ms(&self) -> Option<u64> {
        self.timeout_ms.map(u64::from)
    }

    fn format(&self) -> Option<Format> {
        self.format
    }

    fn call(self) -> Result<CurrentRequest, &'static str> {
        Ok(CurrentRequest {
            namespace: self.namespace,
            key_kind: Some(match one(self.uid, self.key, self.key_base64)? {
                One::Uid(uid) => current_request::KeyKind::Uid(uid),
                One::Key(key) => current_request::KeyKind::Key(key),
            }),
            epoch: self.epoch.map(u64::from),
            strict: self.strict,
            ..CurrentRequest::default()
        })
    }
}

impl Ask for CurrentMany {
    type Call = CurrentManyRequest;

    fn timeout_ms(&self) -> Option<u64> {
        self.timeout_ms.map(u64::from)
    }

    fn format(&self) -> Option<Format> {
        self.format
    }

    fn call(self) -> Result<CurrentManyRequest, &'static str> {
        let (uids, keys) = many(self.uids, self.keys, self.keys_base64)?;
        Ok(CurrentManyRequest {
            namespace: self.namespace,
            uids,
            keys,
            epochs: self.epochs.numbers(),
            strict: self.strict,
            ..CurrentManyRequest::default()
        })
    }
}

impl Ask for RaiseTo {
    type Call = RaiseToRequest;

    fn timeout_ms(&self) -> Option<u64> {
        self.timeout_ms.map(u64::from)
    }

    fn format(&self) -> Option<Format> {
        self.format
    }

    fn call(self) -> Result<RaiseToRequest, &'static str> {
        Ok(RaiseToRequest {
            namespace: self.namespace,
            key_kind: Some(match one(self.uid, self.key, self.key_base64)? {
                One::Uid(uid) => raise_to_request::KeyKind::Uid(uid),
                One::Key(key) => raise_to_request::KeyKind::Key(key),
            }),
            value: self.value.into(),
            epoch: self.epoch.map(u64::from),
            ..RaiseToRequest::default()
        })
    }
}

enum One {
    Uid(u64),
    Key(Bytes),
}

fn one(uid: Option<Number>, key: Option<Key>, base64: Option<Base64>) -> Result<One, &'static str> {
    match (uid, key, base64) {
        (Some(Number(uid)), None, None) => Ok(One::Uid(uid)),
        (None, Some(Key(key)), None) | (None, None, Some(Base64(key))) => Ok(One::Key(key)),
        _ => Err(ONE_KEY),
    }
}

fn many(
    Items(uids): Items<Number>,
    Items(keys): Items<Key>,
    Items(base64): Items<Base64>,
) -> Result<(Vec<u64>, Vec<Bytes>), &'static str> {
    let ways = [uids.is_empty(), keys.is_empty(), base64.is_empty()];
    if ways.iter().filter(|empty| !**empty).count() > 1 {
        return Err(KEYS);
    }
    let keys = keys.into_iter().map(|Key(key)| key);
    let keys = keys.chain(base64.into_iter().map(|Base64(key)| key));
    Ok((uids.into_iter().map(u64::from).collect(), keys.collect()))
}

/// How numbers are written in an answer: as numbers, or as text, which JavaScript reads whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::http) enum Format {
    #[default]
    Number,
    String,
}

/// A number, or its decimal text.
#[derive(Clone, Copy)]
struct Number(u64);

impl From<Number> for u64 {
    fn from(Number(number): Number) -> u64 {
        number
    }
}

impl Number {
    /// Of numbers wanted; more than fits is more than is allowed.
    fn count(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 to 2^64-1, or its text")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                let number = text.parse().ok().filter(|_| digits).map(Number);
                number.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Reads)
    }
}

/// A key: text in JSON, any bytes in a query.
struct Key(Bytes);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Key, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key as text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Key, E> {
                self.visit_bytes(text.as_bytes())
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Key, E> {
                Ok(Key(Bytes::copy_from_slice(bytes)))
            }
        }
        from.deserialize_any(Reads)
    }
}

/// The bytes of a key that is no text.
struct Base64(Bytes);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Base64, D::Error> {
        use base64::Engine as _;
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text.as_bytes());
        let bytes = bytes.map_err(|error| Error::custom(format_args!("not base64: {error}")))?;
        Ok(Base64(bytes.into()))
    }
}

/// At most [`ITEMS_MAX`].
struct Items<T>(Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Items<T> {
        Items(Vec::new())
    }
}

impl Items<Number> {
    fn numbers(self) -> Vec<u64> {
        self.0.into_iter().map(u64::from).collect()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Items<T>, D::Error> {
        struct Reads<T>(Vec<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reads<T> {
            type Value = Items<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {ITEMS_MAX}")
            }

            fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Items<T>, A::Error> {
                while let Some(item) = seq.next_element()? {
                    if self.0.len() == ITEMS_MAX {
                        return Err(A::Error::invalid_length(ITEMS_MAX + 1, &self));
                    }
                    self.0.push(item);
                }
                Ok(Items(self.0))
            }
        }
        from.deserialize_seq(Reads(Vec::new()))
    }
}
