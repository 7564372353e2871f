//! The fields of the requests, in JSON or in a query, and the calls that they become.

use bytes::Bytes;
use seqsvr_proto::key::KeyBuf;
use seqsvr_proto::v1::{
    CurrentManyRequest, CurrentRequest, NextManyRequest, NextRequest, RaiseToRequest,
};
use serde::Deserialize;

use super::fields::{
    Base64Field, BoolField, KeyField, ListField, NumberField, NumberFormat, OptionalField,
};

/// Options of the response that a request sets.
pub(super) struct ResponseOptions {
    /// Timeout in milliseconds; None: the timeout of the service.
    pub(super) timeout_ms: Option<u64>,
    /// Format of numbers; None: the format in the query, or the default.
    pub(super) format: Option<NumberFormat>,
}

impl ResponseOptions {
    fn new(
        timeout_ms: OptionalField<NumberField>,
        format: OptionalField<NumberFormat>,
    ) -> ResponseOptions {
        ResponseOptions {
            timeout_ms: timeout_ms.0.map(u64::from),
            format: format.0,
        }
    }
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
const SINGLE_KEY_ERROR: &str = "the request must have exactly one of uid, key and key_base64";
/// The error of a request that does not name its keys in exactly one of three ways.
const KEY_LIST_ERROR: &str = "the request must have exactly one of uids, keys and keys_base64";

/// The fields of `/v1/next`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NextFields {
    namespace: String,
    uid: OptionalField<NumberField>,
    key: OptionalField<KeyField>,
    key_base64: OptionalField<Base64Field>,
    count: OptionalField<NumberField>,
    floor: OptionalField<NumberField>,
    epoch: OptionalField<NumberField>,
    strict: BoolField,
    timeout_ms: OptionalField<NumberField>,
    format: OptionalField<NumberFormat>,
}

/// The fields of `/v1/next-many`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NextManyFields {
    namespace: String,
    uids: OptionalField<ListField<NumberField>>,
    keys: OptionalField<ListField<KeyField>>,
    keys_base64: OptionalField<ListField<Base64Field>>,
    counts: ListField<NumberField>,
    floors: ListField<NumberField>,
    epochs: ListField<NumberField>,
    strict: BoolField,
    timeout_ms: OptionalField<NumberField>,
    format: OptionalField<NumberFormat>,
}

/// The fields of `/v1/current`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CurrentFields {
    namespace: String,
    uid: OptionalField<NumberField>,
    key: OptionalField<KeyField>,
    key_base64: OptionalField<Base64Field>,
    epoch: OptionalField<NumberField>,
    strict: BoolField,
    timeout_ms: OptionalField<NumberField>,
    format: OptionalField<NumberFormat>,
}

/// The fields of `/v1/current-many`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CurrentManyFields {
    namespace: String,
    uids: OptionalField<ListField<NumberField>>,
    keys: OptionalField<ListField<KeyField>>,
    keys_base64: OptionalField<ListField<Base64Field>>,
    epochs: ListField<NumberField>,
    strict: BoolField,
    timeout_ms: OptionalField<NumberField>,
    format: OptionalField<NumberFormat>,
}

/// The fields of `/v1/raise-to`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RaiseToFields {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: OptionalField<NumberField>,
    #[serde(default)]
    key: OptionalField<KeyField>,
    #[serde(default)]
    key_base64: OptionalField<Base64Field>,
    value: NumberField,
    #[serde(default)]
    epoch: OptionalField<NumberField>,
    #[serde(default)]
    timeout_ms: OptionalField<NumberField>,
    #[serde(default)]
    format: OptionalField<NumberFormat>,
}

/// The query of a request whose other fields are in its body.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FormatFields {
    pub(super) format: OptionalField<NumberFormat>,
}

impl ApiRequest for NextFields {
    type Message = NextRequest;

    fn response_options(&self) -> ResponseOptions {
        ResponseOptions::new(self.timeout_ms, self.format)
    }

    fn into_message(self) -> Result<NextRequest, &'static str> {
        Ok(NextRequest {
            namespace: self.namespace,
            key_kind: Some(single_key(self.uid, self.key, self.key_base64)?.into()),
            count: self.count.0.map(NumberField::to_count),
            floor: self.floor.0.map(u64::from),
            epoch: self.epoch.0.map(u64::from),
            strict: self.strict.0,
            ..NextRequest::default()
        })
    }
}

impl ApiRequest for NextManyFields {
    type Message = NextManyRequest;

    fn response_options(&self) -> ResponseOptions {
        ResponseOptions::new(self.timeout_ms, self.format)
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
        ResponseOptions::new(self.timeout_ms, self.format)
    }

    fn into_message(self) -> Result<CurrentRequest, &'static str> {
        Ok(CurrentRequest {
            namespace: self.namespace,
            key_kind: Some(single_key(self.uid, self.key, self.key_base64)?.into()),
            epoch: self.epoch.0.map(u64::from),
            strict: self.strict.0,
            ..CurrentRequest::default()
        })
    }
}

impl ApiRequest for CurrentManyFields {
    type Message = CurrentManyRequest;

    fn response_options(&self) -> ResponseOptions {
        ResponseOptions::new(self.timeout_ms, self.format)
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
        ResponseOptions::new(self.timeout_ms, self.format)
    }

    fn into_message(self) -> Result<RaiseToRequest, &'static str> {
        Ok(RaiseToRequest {
            namespace: self.namespace,
            key_kind: Some(single_key(self.uid, self.key, self.key_base64)?.into()),
            value: self.value.into(),
            epoch: self.epoch.0.map(u64::from),
            ..RaiseToRequest::default()
        })
    }
}

/// Returns the key of a request that names it in exactly one way.
fn single_key(
    uid: OptionalField<NumberField>,
    key: OptionalField<KeyField>,
    base64: OptionalField<Base64Field>,
) -> Result<KeyBuf, &'static str> {
    match (uid.0, key.0, base64.0) {
        (Some(NumberField(uid)), None, None) => Ok(KeyBuf::Uid(uid)),
        (None, Some(KeyField(key)), None) | (None, None, Some(Base64Field(key))) => {
            Ok(KeyBuf::Key(key))
        }
        _ => Err(SINGLE_KEY_ERROR),
    }
}

/// Returns the uids and the keys of a request that names its keys in exactly one way.
fn key_lists(
    uids: OptionalField<ListField<NumberField>>,
    keys: OptionalField<ListField<KeyField>>,
    base64: OptionalField<ListField<Base64Field>>,
) -> Result<(Vec<u64>, Vec<Bytes>), &'static str> {
    match (uids.0, keys.0, base64.0) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_without_a_value_are_left_out() {
        let fields: NextFields = serde_json::from_str(r#"{"uid":7}"#).unwrap();
        let message = fields.into_message().unwrap();
        assert_eq!(
            message.key_kind,
            Some(seqsvr_proto::v1::next_request::KeyKind::Uid(7))
        );
        assert_eq!(
            (message.count, message.floor, message.epoch),
            (None, None, None)
        );
        for name in ["uid", "key", "key_base64", "count", "timeout_ms", "format"] {
            let text = format!(r#"{{"{name}":null}}"#);
            assert!(serde_json::from_str::<NextFields>(&text).is_err(), "{text}");
        }
        let without_value = serde_json::from_str::<RaiseToFields>(r#"{"uid":7}"#).err();
        assert!(without_value.is_some_and(|error| error.to_string().contains("value")));
    }
}
