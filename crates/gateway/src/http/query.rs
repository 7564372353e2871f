//! Parser of the fields in the query of a request, or in the body of a form.
//!
//! A value is text, or the bytes of a key. A list is a field that is given several times, or once
//! with commas between its values.

use std::borrow::Cow;

use percent_encoding::percent_decode;
use serde::de::value::{Error, MapAccessDeserializer, SeqDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;

/// Parses fields from `a=1&b=2`.
///
/// # Errors
/// A field is unknown, missing or invalid, or it is repeated although it is not a list.
pub(super) fn parse_fields<'de, T: Deserialize<'de>>(query: &'de str) -> Result<T, Error> {
    T::deserialize(MapAccessDeserializer::new(QueryFields {
        rest: query,
        next: None,
        lists: Vec::new(),
    }))
}

/// Returns the decoded values of all fields of this name.
pub(super) fn find_values<'a>(query: &'a str, name: &'a str) -> impl Iterator<Item = Cow<'a, str>> {
    let found = split_pairs(query).filter(move |(found, _)| found == name);
    found.map(|(_, value)| match value.decode() {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    })
}

fn split_pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, QueryValue<'_>)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(split_pair)
}

fn split_pair(pair: &str) -> (Cow<'_, str>, QueryValue<'_>) {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let name = percent_decode(name.as_bytes()).decode_utf8_lossy();
    (name, QueryValue(value))
}

/// The fields of a query, read from its front.
struct QueryFields<'de> {
    rest: &'de str,
    /// The field whose name was read last.
    next: Option<(Cow<'de, str>, QueryValue<'de>)>,
    /// Lists that were read. Each took all its later pairs with it.
    lists: Vec<Cow<'de, str>>,
}

impl<'de> MapAccess<'de> for QueryFields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        while !self.rest.is_empty() {
            let (pair, rest) = self.rest.split_once('&').unwrap_or((self.rest, ""));
            self.rest = rest;
            let (name, value) = split_pair(pair);
            if pair.is_empty() || self.lists.contains(&name) {
                continue;
            }
            let key = seed.deserialize(name.clone().into_deserializer())?;
            self.next = Some((name, value));
            return Ok(Some(key));
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let next = self.next.take();
        let (name, value) = next.ok_or_else(|| Error::custom("a value without a name"))?;
        let field = QueryField {
            fields: self,
            name: name.clone(),
            value,
        };
        seed.deserialize(field)
            .map_err(|error| Error::custom(format_args!("{name}: {error}")))
    }
}

/// The value of a field, and the text behind it: the other values of a list are there.
struct QueryField<'a, 'de> {
    fields: &'a mut QueryFields<'de>,
    name: Cow<'de, str>,
    value: QueryValue<'de>,
}

impl<'de> Deserializer<'de> for QueryField<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.value.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let more = split_pairs(self.fields.rest).filter(|(name, _)| *name == self.name);
        let all = std::iter::once(self.value).chain(more.map(|(_, value)| value));
        let read = visitor.visit_seq(SeqDeserializer::new(all.flat_map(QueryValue::split_list)))?;
        self.fields.lists.push(self.name);
        Ok(read)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct tuple tuple_struct map struct identifier ignored_any
    }
}

/// A value that is not decoded yet: an escaped comma belongs to a key.
#[derive(Clone, Copy)]
struct QueryValue<'a>(&'a str);

impl<'a> QueryValue<'a> {
    /// Returns the values between its commas.
    fn split_list(self) -> impl Iterator<Item = QueryValue<'a>> {
        self.0.split(',').map(QueryValue)
    }

    fn decode(self) -> Cow<'a, [u8]> {
        if !self.0.contains(['+', '%']) {
            return Cow::Borrowed(self.0.as_bytes());
        }
        let spaced = self.0.replace('+', " ");
        Cow::Owned(percent_decode(spaced.as_bytes()).collect())
    }
}

impl<'de> IntoDeserializer<'de, Error> for QueryValue<'de> {
    type Deserializer = QueryValue<'de>;

    fn into_deserializer(self) -> QueryValue<'de> {
        self
    }
}

impl<'de> Deserializer<'de> for QueryValue<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.decode() {
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

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text = String::from_utf8_lossy(&self.decode()).into_owned();
        visitor.visit_enum(text.into_deserializer())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(SeqDeserializer::new(self.split_list()))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct TestFields<'a> {
        one: Option<String>,
        flag: Option<String>,
        #[serde(borrow)]
        many: Vec<Cow<'a, str>>,
    }

    #[test]
    fn parse_fields_reads_queries_of_browsers_and_curl() {
        let read = |text| parse_fields::<TestFields<'_>>(text);
        let all = read("one=a%20b%2Bc+d&flag&many=x,y%2Cz,").unwrap();
        let many = ["x", "y,z", ""].map(Cow::from).to_vec();
        let one = Some("a b+c d".to_owned());
        assert_eq!(
            all,
            TestFields {
                one,
                flag: Some(String::new()),
                many
            }
        );
        assert_eq!(read("&&").unwrap(), TestFields::default());
        let many = ["x", "y", "z,"].map(Cow::from).to_vec();
        let several = read("many=x&flag&many=y,z%2C&&").unwrap();
        assert_eq!((several.many, several.flag), (many, Some(String::new())));
        let many = ["", ""].map(Cow::from).to_vec();
        assert_eq!(read("many=&%6dany").unwrap().many, many);
        for bad in ["two=1", "one=1&one=2", "one=%ff", "many=1&flag&flag"] {
            read(bad).unwrap_err();
        }
        let values = |query| find_values(query, "b").collect::<Vec<_>>();
        assert_eq!(values("a=1&b=%32&%62=3&b&bb=4"), ["2", "3", ""]);
        assert_eq!(values("a=1"), [""; 0]);
    }
}
