//! JSON over HTTP, with hyper's client, which reuses connections and opens new ones.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use seqsvr_check::Answer;
use seqsvr_client::Key;
use serde_json::{Value, json};

use super::{Tried, again};
use crate::caller::{Ask, next};
use crate::subject::Subject;

pub(super) struct Node {
    client: Client<HttpConnector, Full<Bytes>>,
    port: u16,
}

impl Node {
    pub(super) fn new(port: u16) -> Node {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Node { client, port }
    }

    pub(super) async fn ask(&self, ask: Ask, items: &[&Subject]) -> Vec<Tried> {
        let namespace = items[0].namespace;
        let (path, body) = match (ask, items) {
            (Ask::Next(count), [one]) => ("next", json!({"count": count, name(one): key(one)})),
            (Ask::Next(count), _) => (
                "next-many",
                json!({"counts": vec![count; items.len()], names(items): keys(items)}),
            ),
            (Ask::Current, [one]) => ("current", json!({name(one): key(one)})),
            (Ask::Current, _) => ("current-many", json!({names(items): keys(items)})),
            (Ask::RaiseTo(to), _) => (
                "raise-to",
                json!({"value": to, name(items[0]): key(items[0])}),
            ),
        };
        let mut body = body;
        body["namespace"] = namespace.into();
        let told = match self.post(path, &body).await {
            Ok(told) => told,
            Err(text) => return again(items, &text),
        };
        match told["items"].as_array() {
            Some(all) => {
                let each = all.iter().zip(items);
                each.map(|(told, item)| tried(ask, told, item)).collect()
            }
            None => items.iter().map(|item| tried(ask, &told, item)).collect(),
        }
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
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
fn tried(ask: Ask, told: &Value, subject: &Subject) -> Tried {
    let error = &told["error"];
    if error.is_object() {
        let text = error["message"].to_string();
        let code = error["code"].as_str().expect("a code");
        return match code {
            "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "RESOURCE_EXHAUSTED" | "CANCELLED" => {
                Tried::Again(text)
            }
            _ => Tried::Done(Err(text)),
        };
    }
    let number = |name: &str| {
        told[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no {name}: {told}"))
    };
    let answer = match (ask, told["kind"].as_str()) {
        (Ask::Next(_), _) => next(number("first"), number("last"), subject),
        (Ask::RaiseTo(asked), _) => Answer::RaiseTo {
            asked,
            to: number("value"),
        },
        (Ask::Current, Some("exact")) => Answer::Exact(number("value")),
        (Ask::Current, Some("never")) => Answer::Never,
        (Ask::Current, Some("at_most")) => Answer::AtMost(number("value")),
        (Ask::Current, kind) => panic!("a number of kind {kind:?}"),
    };
    Tried::Done(Ok((Some(number("epoch")), answer)))
}

fn name(subject: &Subject) -> &'static str {
    match subject.key {
        Key::Uid(_) => "uid",
        Key::Key(_) => "key",
    }
}

fn names(subjects: &[&Subject]) -> &'static str {
    match subjects[0].key {
        Key::Uid(_) => "uids",
        Key::Key(_) => "keys",
    }
}

fn key(subject: &Subject) -> Value {
    match &subject.key {
        Key::Uid(uid) => (*uid).into(),
        Key::Key(key) => str::from_utf8(key).expect("a key of letters").into(),
    }
}

fn keys(subjects: &[&Subject]) -> Value {
    subjects.iter().map(|subject| key(subject)).collect()
}
