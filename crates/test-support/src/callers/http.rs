//! JSON over HTTP, with hyper's client, which reuses connections and opens new ones.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use seqsvr_check::CallAnswer;
use seqsvr_client::Key;
use serde_json::{Value, json};

use super::attempt::{AttemptResult, retry_all};
use super::test_call::{TestCall, next_answer};
use crate::test_keys::TestKey;

pub(super) struct HttpClient {
    client: Client<HttpConnector, Full<Bytes>>,
    port: u16,
}

impl HttpClient {
    pub(super) fn new(port: u16) -> HttpClient {
        let client = Client::builder(TokioExecutor::new()).build_http();
        HttpClient { client, port }
    }

    pub(super) async fn call(&self, call: TestCall, items: &[&TestKey]) -> Vec<AttemptResult> {
        let namespace = items[0].namespace;
        let (path, body) = match (call, items) {
            (TestCall::Next(count), [one]) => (
                "next",
                json!({"count": count, key_field(one): key_value(one)}),
            ),
            (TestCall::Next(count), _) => (
                "next-many",
                json!({"counts": vec![count; items.len()], keys_field(items): key_values(items)}),
            ),
            (TestCall::Current, [one]) => ("current", json!({key_field(one): key_value(one)})),
            (TestCall::Current, _) => (
                "current-many",
                json!({keys_field(items): key_values(items)}),
            ),
            (TestCall::RaiseTo(to), _) => (
                "raise-to",
                json!({"value": to, key_field(items[0]): key_value(items[0])}),
            ),
        };
        let mut body = body;
        body["namespace"] = namespace.into();
        let answer = match self.post_json(path, &body).await {
            Ok(answer) => answer,
            Err(text) => return retry_all(items, &text),
        };
        match answer["items"].as_array() {
            Some(all) => {
                let each = all.iter().zip(items);
                each.map(|(answer, item)| read_item(call, answer, item))
                    .collect()
            }
            None => items
                .iter()
                .map(|item| read_item(call, &answer, item))
                .collect(),
        }
    }

    async fn post_json(&self, path: &str, body: &Value) -> Result<Value, String> {
        let uri = format!("http://127.0.0.1:{}/v1/{path}", self.port);
        let request = hyper::Request::post(uri).body(Full::from(body.to_string()));
        let request = request.map_err(|e| e.to_string())?;
        let response = self
            .client
            .request(request)
            .await
            .map_err(|e| format!("{e:?}"))?;
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(|e| e.to_string())?;
        serde_json::from_slice(&body.to_bytes()).map_err(|e| e.to_string())
    }
}

/// Reads the result of one item.
fn read_item(call: TestCall, answer: &Value, test_key: &TestKey) -> AttemptResult {
    let error = &answer["error"];
    if error.is_object() {
        let text = error["message"].to_string();
        let code = error["code"].as_str().expect("a code");
        return match code {
            "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "RESOURCE_EXHAUSTED" | "CANCELLED" => {
                AttemptResult::Retry(text)
            }
            _ => AttemptResult::Done(Err(text)),
        };
    }
    let number = |name: &str| {
        answer[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no {name}: {answer}"))
    };
    let answer = match (call, answer["kind"].as_str()) {
        (TestCall::Next(_), _) => next_answer(number("first"), number("last"), test_key),
        (TestCall::RaiseTo(value), _) => CallAnswer::RaiseTo {
            requested: value,
            to: number("value"),
        },
        (TestCall::Current, Some("exact")) => CallAnswer::Exact(number("value")),
        (TestCall::Current, Some("never")) => CallAnswer::Never,
        (TestCall::Current, Some("at_most")) => CallAnswer::AtMost(number("value")),
        (TestCall::Current, kind) => panic!("a number of kind {kind:?}"),
    };
    AttemptResult::Done(Ok((Some(number("epoch")), answer)))
}

fn key_field(test_key: &TestKey) -> &'static str {
    match test_key.key {
        Key::Uid(_) => "uid",
        Key::Key(_) => "key",
    }
}

fn keys_field(test_keys: &[&TestKey]) -> &'static str {
    match test_keys[0].key {
        Key::Uid(_) => "uids",
        Key::Key(_) => "keys",
    }
}

fn key_value(test_key: &TestKey) -> Value {
    match &test_key.key {
        Key::Uid(uid) => (*uid).into(),
        Key::Key(key) => str::from_utf8(key).expect("a key of letters").into(),
    }
}

fn key_values(test_keys: &[&TestKey]) -> Value {
    test_keys
        .iter()
        .map(|test_key| key_value(test_key))
        .collect()
}
