//! Values of fields, as JSON and queries write them.

use std::fmt;

use bytes::Bytes;
use seqsvr_proto::limits::ITEMS_MAX;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Unexpected, Visitor};

/// How numbers are written in an answer: as numbers, or as text, which JavaScript reads whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::http) enum Format {
    #[default]
    Number,
    String,
}

/// A number, or its decimal text.
///
/// A number with a fraction part is rejected, even `1.0`: its text may have been rounded to the
/// number of another key.
#[derive(Clone, Copy)]
pub(super) struct Number(pub(super) u64);

impl From<Number> for u64 {
    fn from(Number(number): Number) -> u64 {
        number
    }
}

impl Number {
    /// Returns a count of numbers; one that does not fit is above every limit.
    pub(super) fn count(self) -> u32 {
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

/// True or false, as a boolean or as text. An empty text is true, as in `?strict`.
#[derive(Clone, Copy, Default)]
pub(super) struct Flag(pub(super) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Flag, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Flag;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false")
            }

            fn visit_bool<E: Error>(self, flag: bool) -> Result<Flag, E> {
                Ok(Flag(flag))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Flag, E> {
                match text {
                    "" | "true" | "1" => Ok(Flag(true)),
                    "false" | "0" => Ok(Flag(false)),
                    _ => Err(E::custom(format_args!(
                        "{text:?} is neither true nor false"
                    ))),
                }
            }
        }
        from.deserialize_any(Reads)
    }
}

/// A key: text in JSON, any bytes in a query.
pub(super) struct Key(pub(super) Bytes);

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

/// The bytes of a key that is not text.
pub(super) struct Base64(pub(super) Bytes);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Base64, D::Error> {
        use base64::Engine as _;
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text.as_bytes());
        let bytes = bytes.map_err(|error| Error::custom(format_args!("not base64: {error}")))?;
        Ok(Base64(bytes.into()))
    }
}

/// A list of at most [`ITEMS_MAX`] items.
pub(super) struct Items<T>(pub(super) Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Items<T> {
        Items(Vec::new())
    }
}

impl Items<Number> {
    pub(super) fn numbers(self) -> Vec<u64> {
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
