//! The fields of the requests, in JSON or in a query, and the calls that they become.

use bytes::Bytes;
use seqsvr_proto::v1::{
    CurrentManyRequest, CurrentRequest, NextManyRequest, NextRequest, RaiseToRequest,
    current_request, next_request, raise_to_request,
};
use serde::{Deserialize, Deserializer};

use super::fields::{Base64Field, BoolField, KeyField, ListField, NumberField, NumberFormat};

/// Options of the response that a request sets.
pub(super) struct ResponseOptions {
    /// Timeout in milliseconds; None: the timeout of the service.
    pub(super) timeout_ms: Option<u64>,
    /// Format of numbers; None: the format in the query, or the default.
    pub(super) format: Option<NumberFormat>,
}

/// The fields of one kind of request.
pub(super) trait ApiRequest: serde::de::DeserializeOwned + Send + 'static {
    /// The message of the call that the fields become.
    type Message: Send;

    /// Returns the options of the response.
    fn response_options(&self) -> ResponseOptions;

    /// Makes the message of the call.
    ///
    /// # Errors
    /// The fields contradict each other.
    fn into_message(self) -> Result<Self::Message, &'static str>;
}

/// The error of a request that does not name its key in exactly one of three ways.
const SINGLE_KEY_ERROR: &str = "name one key: uid, key or key_base64";
/// The error of a request that does not name its keys in exactly one of three ways.
const KEY_LIST_ERROR: &str = "name the keys in one way: uids, keys or keys_base64";

/// The fields of `/v1/next`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NextFields {
    #[serde(default)]
    namespace: String,
    #[serde(default, deserialize_with = "deserialize_present")]
    uid: Option<NumberField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    key: Option<KeyField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    key_base64: Option<Base64Field>,
    #[serde(default, deserialize_with = "deserialize_present")]
    count: Option<NumberField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    floor: Option<NumberField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    epoch: Option<NumberField>,
    #[serde(default)]
    strict: BoolField,
    #[serde(default, deserialize_with = "deserialize_present")]
    timeout_ms: Option<NumberField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    format: Option<NumberFormat>,
}

/// The fields of `/v1/next-many`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NextManyFields {
    #[serde(default)]
    namespace: String,
    #[serde(default, deserialize_with = "deserialize_present")]
    uids: Option<ListField<NumberField>>,
    #[serde(default, deserialize_with = "deserialize_present")]
    keys: Option<ListField<KeyField>>,
    #[serde(default, deserialize_with = "deserialize_present")]
    keys_base64: Option<ListField<Base64Field>>,
    #[serde(default)]
    counts: ListField<NumberField>,
    #[serde(default)]
    floors: ListField<NumberField>,
    #[serde(default)]
    epochs: ListField<NumberField>,
    #[serde(default)]
    strict: BoolField,
    #[serde(default, deserialize_with = "deserialize_present")]
    timeout_ms: Option<NumberField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    format: Option<NumberFormat>,
}

/// The fields of `/v1/current`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CurrentFields {
    #[serde(default)]
    namespace: String,
    #[serde(default, deserialize_with = "deserialize_present")]
    uid: Option<NumberField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    key: Option<KeyField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    key_base64: Option<Base64Field>,
    #[serde(default, deserialize_with = "deserialize_present")]
    epoch: Option<NumberField>,
    #[serde(default)]
    strict: BoolField,
    #[serde(default, deserialize_with = "deserialize_present")]
    timeout_ms: Option<NumberField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    format: Option<NumberFormat>,
}

/// The fields of `/v1/current-many`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CurrentManyFields {
    #[serde(default)]
    namespace: String,
    #[serde(default, deserialize_with = "deserialize_present")]
    uids: Option<ListField<NumberField>>,
    #[serde(default, deserialize_with = "deserialize_present")]
    keys: Option<ListField<KeyField>>,
    #[serde(default, deserialize_with = "deserialize_present")]
    keys_base64: Option<ListField<Base64Field>>,
    #[serde(default)]
    epochs: ListField<NumberField>,
    #[serde(default)]
    strict: BoolField,
    #[serde(default, deserialize_with = "deserialize_present")]
    timeout_ms: Option<NumberField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    format: Option<NumberFormat>,
}

/// The fields of `/v1/raise-to`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RaiseToFields {
    #[serde(default)]
    namespace: String,
    #[serde(default, deserialize_with = "deserialize_present")]
    uid: Option<NumberField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    key: Option<KeyField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    key_base64: Option<Base64Field>,
    value: NumberField,
    #[serde(default, deserialize_with = "deserialize_present")]
    epoch: Option<NumberField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    timeout_ms: Option<NumberField>,
    #[serde(default, deserialize_with = "deserialize_present")]
    format: Option<NumberFormat>,
}

/// Deserializes a field that is present.
///
/// `openapi.json` gives no field the type `null`: a field without a value is left out, so that
/// exactly one of `uid`, `key` and `key_base64` is present.
fn deserialize_present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// The query of a request whose other fields are in its body.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FormatFields {
    #[serde(default, deserialize_with = "deserialize_present")]
    pub(super) format: Option<NumberFormat>,
}

impl ApiRequest for NextFields {
    type Message = NextRequest;

    fn response_options(&self) -> ResponseOptions {
        ResponseOptions {
            timeout_ms: self.timeout_ms.map(u64::from),
            format: self.format,
        }
    }

    fn into_message(self) -> Result<NextRequest, &'static str> {
        Ok(NextRequest {
            namespace: self.namespace,
            key_kind: Some(match single_key(self.uid, self.key, self.key_base64)? {
                SingleKey::Uid(uid) => next_request::KeyKind::Uid(uid),
                SingleKey::Key(key) => next_request::KeyKind::Key(key),
            }),
            count: self.count.map(NumberField::to_count),
            floor: self.floor.map(u64::from),
            epoch: self.epoch.map(u64::from),
            strict: self.strict.0,
            ..NextRequest::default()
        })
    }
}

impl ApiRequest for NextManyFields {
    type Message = NextManyRequest;

    fn response_options(&self) -> ResponseOptions {
        ResponseOptions {
            timeout_ms: self.timeout_ms.map(u64::from),
            format: self.format,
        }
    }

    fn into_message(self) -> Result<NextManyRequest, &'static str> {
        let (uids, keys) = key_lists(self.uids, self.keys, self.keys_base64)?;
        Ok(NextManyRequest {
            namespace: self.namespace,
            uids,
            keys,
            counts: self
                .counts
                .0
                .into_iter()
                .map(NumberField::to_count)
                .collect(),
            floors: self.floors.into_numbers(),
            epochs: self.epochs.into_numbers(),
            strict: self.strict.0,
            ..NextManyRequest::default()
        })
    }
}

impl ApiRequest for CurrentFields {
    type Message = CurrentRequest;

    fn response_options(&self) -> ResponseOptions {
        ResponseOptions {
            timeout_ms: self.timeout_ms.map(u64::from),
            format: self.format,
        }
    }

    fn into_message(self) -> Result<CurrentRequest, &'static str> {
        Ok(CurrentRequest {
            namespace: self.namespace,
            key_kind: Some(match single_key(self.uid, self.key, self.key_base64)? {
                SingleKey::Uid(uid) => current_request::KeyKind::Uid(uid),
                SingleKey::Key(key) => current_request::KeyKind::Key(key),
            }),
            epoch: self.epoch.map(u64::from),
            strict: self.strict.0,
            ..CurrentRequest::default()
        })
    }
}

impl ApiRequest for CurrentManyFields {
    type Message = CurrentManyRequest;

    fn response_options(&self) -> ResponseOptions {
        ResponseOptions {
            timeout_ms: self.timeout_ms.map(u64::from),
            format: self.format,
        }
    }

    fn into_message(self) -> Result<CurrentManyRequest, &'static str> {
        let (uids, keys) = key_lists(self.uids, self.keys, self.keys_base64)?;
        Ok(CurrentManyRequest {
            namespace: self.namespace,
            uids,
            keys,
            epochs: self.epochs.into_numbers(),
            strict: self.strict.0,
            ..CurrentManyRequest::default()
        })
    }
}

impl ApiRequest for RaiseToFields {
    type Message = RaiseToRequest;

    fn response_options(&self) -> ResponseOptions {
        ResponseOptions {
            timeout_ms: self.timeout_ms.map(u64::from),
            format: self.format,
        }
    }

    fn into_message(self) -> Result<RaiseToRequest, &'static str> {
        Ok(RaiseToRequest {
            namespace: self.namespace,
            key_kind: Some(match single_key(self.uid, self.key, self.key_base64)? {
                SingleKey::Uid(uid) => raise_to_request::KeyKind::Uid(uid),
                SingleKey::Key(key) => raise_to_request::KeyKind::Key(key),
            }),
            value: self.value.into(),
            epoch: self.epoch.map(u64::from),
            ..RaiseToRequest::default()
        })
    }
}

/// A uid or a key.
enum SingleKey {
    Uid(u64),
    Key(Bytes),
}

/// Returns the key of a request that names it in exactly one way.
fn single_key(
    uid: Option<NumberField>,
    key: Option<KeyField>,
    base64: Option<Base64Field>,
) -> Result<SingleKey, &'static str> {
    match (uid, key, base64) {
        (Some(NumberField(uid)), None, None) => Ok(SingleKey::Uid(uid)),
        (None, Some(KeyField(key)), None) | (None, None, Some(Base64Field(key))) => {
            Ok(SingleKey::Key(key))
        }
        _ => Err(SINGLE_KEY_ERROR),
    }
}

/// Returns the uids and the keys of a request that names its keys in exactly one way.
fn key_lists(
    uids: Option<ListField<NumberField>>,
    keys: Option<ListField<KeyField>>,
    base64: Option<ListField<Base64Field>>,
) -> Result<(Vec<u64>, Vec<Bytes>), &'static str> {
    match (uids, keys, base64) {
        (Some(uids), None, None) => Ok((uids.into_numbers(), Vec::new())),
        (None, Some(ListField(keys)), None) => Ok((
            Vec::new(),
            keys.into_iter().map(|KeyField(key)| key).collect(),
        )),
        (None, None, Some(ListField(keys))) => Ok((
            Vec::new(),
            keys.into_iter().map(|Base64Field(key)| key).collect(),
        )),
        _ => Err(KEY_LIST_ERROR),
    }
}
