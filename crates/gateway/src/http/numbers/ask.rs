//! The fields of a request, in JSON or in a query, and the calls that they become.

use bytes::Bytes;
use seqsvr_proto::v1::{
    CurrentManyRequest, CurrentRequest, NextManyRequest, NextRequest, RaiseToRequest,
    current_request, next_request, raise_to_request,
};
use serde::{Deserialize, Deserializer};

use super::field::{Base64, Flag, Format, Items, Key, Number};

/// How long the caller waits, milliseconds, and how numbers are written in the answer; None: as
/// usual, or as the query says.
pub(super) type How = (Option<u64>, Option<Format>);

/// Fields of one kind of request.
pub(super) trait Ask: serde::de::DeserializeOwned + Send + 'static {
    /// The call that the fields become.
    type Call: Send;

    /// Returns how the request is to be answered.
    fn how(&self) -> How;

    /// Makes the call from the fields.
    ///
    /// # Errors
    /// The fields do not go together.
    fn call(self) -> Result<Self::Call, &'static str>;
}

/// The error text for a key that is not named in exactly one of three ways.
const ONE_KEY: &str = "name one key: uid, key or key_base64";
const KEYS: &str = "name the keys in one way: uids, keys or keys_base64";

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Next {
    #[serde(default)]
    namespace: String,
    #[serde(default, deserialize_with = "given")]
    uid: Option<Number>,
    #[serde(default, deserialize_with = "given")]
    key: Option<Key>,
    #[serde(default, deserialize_with = "given")]
    key_base64: Option<Base64>,
    #[serde(default, deserialize_with = "given")]
    count: Option<Number>,
    #[serde(default, deserialize_with = "given")]
    floor: Option<Number>,
    #[serde(default, deserialize_with = "given")]
    epoch: Option<Number>,
    #[serde(default)]
    strict: Flag,
    #[serde(default, deserialize_with = "given")]
    timeout_ms: Option<Number>,
    #[serde(default, deserialize_with = "given")]
    format: Option<Format>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NextMany {
    #[serde(default)]
    namespace: String,
    #[serde(default, deserialize_with = "given")]
    uids: Option<Items<Number>>,
    #[serde(default, deserialize_with = "given")]
    keys: Option<Items<Key>>,
    #[serde(default, deserialize_with = "given")]
    keys_base64: Option<Items<Base64>>,
    #[serde(default)]
    counts: Items<Number>,
    #[serde(default)]
    floors: Items<Number>,
    #[serde(default)]
    epochs: Items<Number>,
    #[serde(default)]
    strict: Flag,
    #[serde(default, deserialize_with = "given")]
    timeout_ms: Option<Number>,
    #[serde(default, deserialize_with = "given")]
    format: Option<Format>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Current {
    #[serde(default)]
    namespace: String,
    #[serde(default, deserialize_with = "given")]
    uid: Option<Number>,
    #[serde(default, deserialize_with = "given")]
    key: Option<Key>,
    #[serde(default, deserialize_with = "given")]
    key_base64: Option<Base64>,
    #[serde(default, deserialize_with = "given")]
    epoch: Option<Number>,
    #[serde(default)]
    strict: Flag,
    #[serde(default, deserialize_with = "given")]
    timeout_ms: Option<Number>,
    #[serde(default, deserialize_with = "given")]
    format: Option<Format>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CurrentMany {
    #[serde(default)]
    namespace: String,
    #[serde(default, deserialize_with = "given")]
    uids: Option<Items<Number>>,
    #[serde(default, deserialize_with = "given")]
    keys: Option<Items<Key>>,
    #[serde(default, deserialize_with = "given")]
    keys_base64: Option<Items<Base64>>,
    #[serde(default)]
    epochs: Items<Number>,
    #[serde(default)]
    strict: Flag,
    #[serde(default, deserialize_with = "given")]
    timeout_ms: Option<Number>,
    #[serde(default, deserialize_with = "given")]
    format: Option<Format>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RaiseTo {
    #[serde(default)]
    namespace: String,
    #[serde(default, deserialize_with = "given")]
    uid: Option<Number>,
    #[serde(default, deserialize_with = "given")]
    key: Option<Key>,
    #[serde(default, deserialize_with = "given")]
    key_base64: Option<Base64>,
    value: Number,
    #[serde(default, deserialize_with = "given")]
    epoch: Option<Number>,
    #[serde(default, deserialize_with = "given")]
    timeout_ms: Option<Number>,
    #[serde(default, deserialize_with = "given")]
    format: Option<Format>,
}

/// Reads a field that is present.
///
/// `openapi.json` gives no field the type `null`: a field without a value is left out, so that
/// exactly one of `uid`, `key` and `key_base64` is present.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// The query of a request whose fields stand in its body.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnlyFormat {
    #[serde(default, deserialize_with = "given")]
    pub(super) format: Option<Format>,
}

impl Ask for Next {
    type Call = NextRequest;

    fn how(&self) -> How {
        (self.timeout_ms.map(u64::from), self.format)
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
            strict: self.strict.0,
            ..NextRequest::default()
        })
    }
}

impl Ask for NextMany {
    type Call = NextManyRequest;

    fn how(&self) -> How {
        (self.timeout_ms.map(u64::from), self.format)
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
            strict: self.strict.0,
            ..NextManyRequest::default()
        })
    }
}

impl Ask for Current {
    type Call = CurrentRequest;

    fn how(&self) -> How {
        (self.timeout_ms.map(u64::from), self.format)
    }

    fn call(self) -> Result<CurrentRequest, &'static str> {
        Ok(CurrentRequest {
            namespace: self.namespace,
            key_kind: Some(match one(self.uid, self.key, self.key_base64)? {
                One::Uid(uid) => current_request::KeyKind::Uid(uid),
                One::Key(key) => current_request::KeyKind::Key(key),
            }),
            epoch: self.epoch.map(u64::from),
            strict: self.strict.0,
            ..CurrentRequest::default()
        })
    }
}

impl Ask for CurrentMany {
    type Call = CurrentManyRequest;

    fn how(&self) -> How {
        (self.timeout_ms.map(u64::from), self.format)
    }

    fn call(self) -> Result<CurrentManyRequest, &'static str> {
        let (uids, keys) = many(self.uids, self.keys, self.keys_base64)?;
        Ok(CurrentManyRequest {
            namespace: self.namespace,
            uids,
            keys,
            epochs: self.epochs.numbers(),
            strict: self.strict.0,
            ..CurrentManyRequest::default()
        })
    }
}

impl Ask for RaiseTo {
    type Call = RaiseToRequest;

    fn how(&self) -> How {
        (self.timeout_ms.map(u64::from), self.format)
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
    uids: Option<Items<Number>>,
    keys: Option<Items<Key>>,
    base64: Option<Items<Base64>>,
) -> Result<(Vec<u64>, Vec<Bytes>), &'static str> {
    match (uids, keys, base64) {
        (Some(uids), None, None) => Ok((uids.numbers(), Vec::new())),
        (None, Some(Items(keys)), None) => {
            Ok((Vec::new(), keys.into_iter().map(|Key(key)| key).collect()))
        }
        (None, None, Some(Items(keys))) => Ok((
            Vec::new(),
            keys.into_iter().map(|Base64(key)| key).collect(),
        )),
        _ => Err(KEYS),
    }
}
