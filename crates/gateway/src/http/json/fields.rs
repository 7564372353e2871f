//! Values of fields, as JSON and queries write them, and the format of numbers in answers.

use std::fmt;

use bytes::Bytes;
use seqsvr_proto::limits::ITEMS_MAX;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Unexpected, Visitor};

/// The format of numbers in an answer: numbers, or text, which JavaScript reads without rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::http) enum NumberFormat {
    #[default]
    Number,
    String,
}

/// A number, or its decimal text.
///
/// A number with a fraction part is rejected, even `1.0`: its text may have been rounded to the
/// number of another key.
#[derive(Clone, Copy)]
pub(super) struct NumberField(pub(super) u64);

impl From<NumberField> for u64 {
    fn from(NumberField(number): NumberField) -> u64 {
        number
    }
}

impl NumberField {
    /// Returns the count of numbers. A count that does not fit becomes the largest, which is above
    /// every limit.
    pub(super) fn to_count(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<'de> Deserialize<'de> for NumberField {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<NumberField, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = NumberField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 to 2^64-1, or its text")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<NumberField, E> {
                Ok(NumberField(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<NumberField, E> {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                let number = text.parse().ok().filter(|_| digits).map(NumberField);
                number.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(NumberVisitor)
    }
}

/// True or false, as a boolean or as text. An empty text is true, as in `?strict`.
#[derive(Clone, Copy, Default)]
pub(super) struct BoolField(pub(super) bool);

impl<'de> Deserialize<'de> for BoolField {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<BoolField, D::Error> {
        struct BoolVisitor;
        impl Visitor<'_> for BoolVisitor {
            type Value = BoolField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false")
            }

            fn visit_bool<E: Error>(self, flag: bool) -> Result<BoolField, E> {
                Ok(BoolField(flag))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<BoolField, E> {
                match text {
                    "" | "true" | "1" => Ok(BoolField(true)),
                    "false" | "0" => Ok(BoolField(false)),
                    _ => Err(E::custom(format_args!(
                        "{text:?} is neither true nor false"
                    ))),
                }
            }
        }
        from.deserialize_any(BoolVisitor)
    }
}

/// A key: text in JSON, any bytes in a query.
pub(super) struct KeyField(pub(super) Bytes);

impl<'de> Deserialize<'de> for KeyField {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<KeyField, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = KeyField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key as text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<KeyField, E> {
                self.visit_bytes(text.as_bytes())
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<KeyField, E> {
                Ok(KeyField(Bytes::copy_from_slice(bytes)))
            }
        }
        from.deserialize_any(KeyVisitor)
    }
}

/// The bytes of a key that is not text.
pub(super) struct Base64Field(pub(super) Bytes);

impl<'de> Deserialize<'de> for Base64Field {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Base64Field, D::Error> {
        use base64::Engine as _;
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text.as_bytes());
        let bytes = bytes.map_err(|error| Error::custom(format_args!("not base64: {error}")))?;
        Ok(Base64Field(bytes.into()))
    }
}

/// A field that a request may leave out.
///
/// `openapi.json` gives no field the type `null`: a field without a value is left out, so that
/// exactly one of `uid`, `key` and `key_base64` is present.
#[derive(Clone, Copy)]
pub(super) struct OptionalField<T>(pub(super) Option<T>);

impl<T> Default for OptionalField<T> {
    fn default() -> OptionalField<T> {
        OptionalField(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OptionalField<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<OptionalField<T>, D::Error> {
        T::deserialize(from).map(|value| OptionalField(Some(value)))
    }
}

/// A list of at most [`ITEMS_MAX`] items.
pub(super) struct ListField<T>(pub(super) Vec<T>);

impl<T> Default for ListField<T> {
    fn default() -> ListField<T> {
        ListField(Vec::new())
    }
}

impl ListField<NumberField> {
    /// Returns the values of a list of numbers.
    pub(super) fn into_numbers(self) -> Vec<u64> {
        self.0.into_iter().map(u64::from).collect()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ListField<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ListField<T>, D::Error> {
        struct ListVisitor<T>(Vec<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = ListField<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {ITEMS_MAX}")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                mut self,
                mut seq: A,
            ) -> Result<ListField<T>, A::Error> {
                while let Some(item) = seq.next_element()? {
                    if self.0.len() == ITEMS_MAX {
                        return Err(A::Error::invalid_length(ITEMS_MAX + 1, &self));
                    }
                    self.0.push(item);
                }
                Ok(ListField(self.0))
            }
        }
        from.deserialize_seq(ListVisitor(Vec::new()))
    }
}
