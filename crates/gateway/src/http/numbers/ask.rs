//! What a request asks for: fields of JSON, or of a query, and the calls that they become.

use bytes::Bytes;
use seqsvr_proto::v1::{
    CurrentManyRequest, CurrentRequest, NextManyRequest, NextRequest, RaiseToRequest,
    current_request, next_request, raise_to_request,
};

use super::field::{Base64, Format, Items, Key, Number};

/// How long the caller waits, milliseconds, and how numbers are written in the answer; None: as usual, or as the
/// query says.
pub(super) type How = (Option<u64>, Option<Format>);

/// Fields of one kind of request.
pub(super) trait Ask: serde::de::DeserializeOwned + Send + 'static {
    /// The call.
    type Call: Send;

    /// How it is to be answered.
    fn how(&self) -> How;

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
            strict: self.strict,
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
            strict: self.strict,
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
            strict: self.strict,
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
            strict: self.strict,
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
