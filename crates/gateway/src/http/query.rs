//! What stands behind the `?` of a request, or in the body of a form, as fields.
//!
//! A value is text, or the bytes of a key; a list has commas between its values.

use std::borrow::Cow;

use percent_encoding::percent_decode;
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Reads fields from `a=1&b=2`.
///
/// # Errors
/// A field that is unknown, missing, given twice, or not what it should be.
pub(super) fn read<'de, T: Deserialize<'de>>(query: &'de str) -> Result<T, Error> {
    T::deserialize(MapDeserializer::new(pairs(query)))
}

/// The decoded value of the first field of this name.
pub(super) fn value<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let (_, value) = pairs(query).find(|(found, _)| found == name)?;
    Some(match value.decoded() {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    })
}

fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Value<'_>)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = percent_decode(name.as_bytes()).decode_utf8_lossy();
        (name, Value(value))
    })
}

/// Not decoded yet: a comma that is escaped belongs to a key.
#[derive(Clone, Copy)]
struct Value<'a>(&'a str);

impl<'a> Value<'a> {
    fn decoded(self) -> Cow<'a, [u8]> {
        if !self.0.contains(['+', '%']) {
            return Cow::Borrowed(self.0.as_bytes());
        }
        let spaced = self.0.replace('+', " ");
        Cow::Owned(percent_decode(spaced.as_bytes()).collect())
    }
}

impl<'de> IntoDeserializer<'de, Error> for Value<'de> {
    type Deserializer = Value<'de>;

    fn into_deserializer(self) -> Value<'de> {
        self
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.decoded() {
            Cow::Borrowed(bytes) => match str::from_utf8(bytes) {
                Ok(text) => visitor.visit_borrowed_str(text),
                Err(_) => visitor.visit_borrowed_bytes(bytes),
            },
            Cow::Owned(bytes) => match String::from_utf8(bytes) {
                Ok(text) => visitor.visit_string(text),
                Err(error) => visitor.visit_byte_buf(error.into_bytes()),
            },
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            "" | "true" | "1" => visitor.visit_bool(true),
            "false" | "0" => visitor.visit_bool(false),
            _ => Err(serde::de::Error::custom(format_args!(
                "{:?} is neither true nor false",
                self.0
            ))),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text = String::from_utf8_lossy(&self.decoded()).into_owned();
        visitor.visit_enum(text.into_deserializer())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let values = self.0.split(',').map(Value);
        visitor.visit_seq(SeqDeserializer::new(values))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Fields<'a> {
        one: Option<String>,
        flag: bool,
        #[serde(borrow)]
        many: Vec<Cow<'a, str>>,
    }

    #[test]
    fn fields_are_read_as_browsers_and_curl_write_them() {
        let read = |text| read::<Fields<'_>>(text);
        let all = read("one=a%20b%2Bc+d&flag&many=x,y%2Cz,").unwrap();
        let many = ["x", "y,z", ""].map(Cow::from).to_vec();
        let one = Some("a b+c d".to_owned());
        assert_eq!(
            all,
            Fields {
                one,
                flag: true,
                many
            }
        );
        assert_eq!(read("&&").unwrap(), Fields::default());
        assert!(!read("flag=false").unwrap().flag);
        for bad in ["two=1", "one=1&one=2", "flag=yes", "one=%ff"] {
            read(bad).unwrap_err();
        }
        assert_eq!(value("a=1&b=%32", "b").unwrap(), "2");
        assert_eq!(value("a=1", "b"), None);
    }
}
