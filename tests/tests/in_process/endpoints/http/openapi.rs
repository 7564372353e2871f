//! The OpenAPI document matches the server: every path of it is requested, in each way it names.
//!
//! Compares answers and errors with the schemas and bounds of the document.

use std::collections::BTreeSet;

use seqsvr_test_support::in_process::{InProcessCluster, LEASE};
use serde_json::{Map, Value};

use super::{FORM, HttpCaller, JSON, open_endpoint};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openapi_document_matches_the_answers() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut http = HttpCaller::connect(endpoint.local_addr()).await;
    let document = http.get("/v1/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    let documented_paths: BTreeSet<_> = paths.keys().map(String::as_str).collect();
    let all =
        ["current", "current-many", "next", "next-many", "raise-to"].map(|p| format!("/v1/{p}"));
    assert_eq!(documented_paths, all.iter().map(String::as_str).collect());

    for (path, methods) in paths {
        if path == "/v1/raise-to" {
            assert!(methods["get"].is_null());
        } else {
            check_get(&document, &mut http, path, &methods["get"]).await;
        }
        let body = &methods["post"]["requestBody"]["content"][JSON];
        let schema = resolve_reference(&document, &body["schema"]);
        check_schema(&document, schema, &body["example"]).unwrap();
        let response = http.post(path, JSON, &body["example"].to_string()).await;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        let answer = &resolve_reference(&document, &methods["post"]["responses"]["200"])["content"]
            [JSON]["schema"];
        check_schema(&document, answer, &response.json())
            .unwrap_or_else(|why| panic!("{path}: {why}"));
        let names: BTreeSet<String> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        let response = http.post(path, JSON, r#"{"nonsense":1}"#).await;
        assert_eq!(names, error_fields(&response.body), "{path}");
    }
    // An error in an item of a batch is one, and no answer.
    let many = &document["components"]["schemas"]["NextMany"];
    let response = http.get("/v1/next-many?keys=alice,").await.json();
    assert!(response["items"][1]["error"].is_object(), "{response}");
    check_schema(&document, many, &response).unwrap();
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Checks the answers to a `GET` with the examples of the document, and the fields that it takes.
async fn check_get(document: &Value, http: &mut HttpCaller, path: &str, get: &Value) {
    let parameters = get["parameters"].as_array().unwrap();
    let parameters: Vec<&Value> = parameters
        .iter()
        .map(|p| resolve_reference(document, p))
        .collect();
    let examples = parameters.iter().filter(|p| !p["example"].is_null());
    let query: Vec<String> = examples
        .flat_map(|p| match &p["example"] {
            Value::Object(fields) => fields.clone().into_iter().collect(),
            other => vec![(parameter_name(p).to_owned(), other.clone())],
        })
        .map(|(name, example)| format!("{name}={}", to_query_text(&example)))
        .collect();
    let query = query.join("&");
    for format in ["", "&format=string"] {
        let response = http.get(&format!("{path}?{query}{format}")).await;
        assert_eq!(response.status, 200, "{path}?{query}{format}: {response:?}");
        let schema =
            &resolve_reference(document, &get["responses"]["200"])["content"][JSON]["schema"];
        check_schema(document, schema, &response.json())
            .unwrap_or_else(|why| panic!("{path}: {why}"));
    }
    let failed = &resolve_reference(document, &get["responses"]["400"])["content"][JSON]["schema"];
    let names: BTreeSet<String> = parameters
        .iter()
        .flat_map(|p| parameter_fields(document, p))
        .collect();
    let response = http.get(&format!("{path}?nonsense=1")).await;
    check_schema(document, failed, &response.json()).unwrap();
    assert_eq!(names, error_fields(&response.body), "{path}");
}

/// Each bound of a number, of a list and of a key is the server's: a value at the bound is
/// accepted, one past it is rejected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openapi_bounds_are_those_of_the_server() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut http = HttpCaller::connect(endpoint.local_addr()).await;
    let document = http.get("/v1/openapi.json").await.json();
    let mut bounds = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let body = &methods["post"]["requestBody"]["content"][JSON];
        let schema = resolve_reference(&document, &body["schema"]);
        let mut base = body["example"].clone();
        base.as_object_mut().unwrap().remove("count");
        for (field, of) in schema["properties"].as_object().unwrap() {
            let of = resolve_reference(&document, of);
            let mut values: Vec<(Value, bool)> = vec![(Value::Null, false)];
            if let Some(integer) = of["oneOf"].get(0).filter(|of| of["type"] == "integer") {
                let [least, most] = ["minimum", "maximum"].map(|at| integer[at].as_u64().unwrap());
                let past = [least.checked_sub(1), most.checked_add(1)];
                let past = past.into_iter().flatten().map(|n| (n, false));
                for (n, fine) in past.chain([(least, true), (most, true)]) {
                    values.extend([(n.into(), fine), (n.to_string().into(), fine)]);
                    values.push((format!("{n:030}").into(), fine));
                }
                values.push(((u128::from(most) + 1).to_string().into(), false));
                values.extend(["", "-1", "+1", "1.5", "0x1"].map(|text| (text.into(), false)));
            }
            if field == "strict" {
                let texts = of["oneOf"][1]["enum"].as_array().unwrap();
                values.extend(texts.iter().map(|text| (text.clone(), true)));
                values.extend([true.into(), false.into()].map(|flag| (flag, true)));
                values.extend(["maybe".into(), 1.into()].map(|flag| (flag, false)));
            }
            if of["type"] == "array" {
                let item: Value = match field.as_str() {
                    "keys" => "k".into(),
                    "keys_base64" => "aw==".into(),
                    _ => 1.into(),
                };
                let most = of["maxItems"].as_u64().unwrap() as usize;
                values.push((vec![item.clone(); most + 1].into(), false));
                values.push((vec![item; 1].into(), true));
                values.push((Value::Array(Vec::new()), of["minItems"].is_null()));
            }
            if field == "key" {
                let most = of["maxLength"].as_u64().unwrap() as usize;
                assert_eq!(of["minLength"], 1);
                values.extend([
                    ("k".repeat(most).into(), true),
                    ("k".repeat(most + 1).into(), false),
                ]);
                values.push(("".into(), false));
            }
            if field == "key_base64" {
                let bytes = |n: usize| "////".repeat(n / 3) + ["", "/w==", "//8="][n % 3];
                values.extend([0, 129].map(|n| (bytes(n).into(), false)));
                values.extend([1, 2, 3, 126, 127, 128].map(|n| (bytes(n).into(), true)));
                values
                    .extend(["a", "aw", "aw=", "ax==", "a-==", " aw=="].map(|b| (b.into(), false)));
            }
            for (value, fine) in values {
                let mut body = base.clone();
                let keys = ["uid", "key", "key_base64", "uids", "keys", "keys_base64"];
                if keys.contains(&field.as_str()) {
                    body.as_object_mut()
                        .unwrap()
                        .retain(|name, _| !keys.contains(&name.as_str()));
                    body.as_object_mut().unwrap().remove("counts");
                }
                body[field] = value;
                let response = http.post(path, JSON, &body.to_string()).await;
                // The namespace's limits and the key's number are judged by the server. On a busy
                // machine a request within bounds may also be late (503, 504).
                let beyond = ["not below the max_uid", "floor", "above", "entries for"];
                let beyond = beyond.iter().any(|text| response.body.contains(text));
                let is_fine = matches!(response.status, 200 | 409 | 503 | 504)
                    || response.status == 422 && beyond;
                let text: String = body.to_string().chars().take(200).collect();
                assert_eq!(
                    is_fine, fine,
                    "{path} {text}: {} {:.300}",
                    response.status, response.body
                );
                assert!(
                    fine || matches!(response.status, 400 | 422),
                    "{path} {text}: {response:?}"
                );
                let fits_document = check_schema(&document, schema, &body).is_ok();
                assert!(
                    fits_document || !fine,
                    "{path} {text} is served, but does not fit the document"
                );
                bounds += 1;
            }
        }
    }
    assert!(bounds > 200, "{bounds}");
    // More than one way to name keys, or none, in each kind of request.
    for (path, both) in [
        ("/v1/next", r#"{"uid":1,"key":"a"}"#),
        ("/v1/next", r#"{"key":"a","key_base64":"aw=="}"#),
        ("/v1/next", "{}"),
        ("/v1/next-many", r#"{"uids":[1],"keys":["a"]}"#),
        ("/v1/next-many", r#"{"uids":[],"keys":["a"]}"#),
        ("/v1/next-many", "{}"),
        ("/v1/current", "{}"),
        ("/v1/current-many", r#"{"keys":[],"keys_base64":[]}"#),
        ("/v1/raise-to", r#"{"value":1}"#),
    ] {
        let response = http.post(path, JSON, both).await;
        assert!(
            response.status == 422 && response.body.contains("exactly one of"),
            "{path} {both}: {response:?}"
        );
    }
    // A field of the query is read even if the body has the same one.
    for query in ["?format=hex", "?nonsense", "?format=number&format=number"] {
        let path = format!("/v1/next{query}");
        let response = http
            .post(&path, JSON, r#"{"uid":1,"format":"string"}"#)
            .await;
        assert_eq!(response.status, 400, "{query}: {response:?}");
    }
    // A list is written once with commas, or as several parameters.
    let [commas, several] = ["uids=7,8&counts=2,1", "uids=7&counts=2&uids=8&counts=1"];
    for (kind, fields) in [
        ("query", commas),
        ("query", several),
        ("form", commas),
        ("form", several),
    ] {
        let response = match kind {
            "query" => http.get(&format!("/v1/next-many?{fields}")).await,
            _ => http.post("/v1/next-many", FORM, fields).await,
        };
        assert_eq!(response.status, 200, "{kind} {fields}: {response:?}");
        assert_eq!(
            response.json()["items"].as_array().unwrap().len(),
            2,
            "{response:?}"
        );
    }
    let response = http.get("/v1/current-many?uids=7,8").await.json();
    let values = [
        &response["items"][0]["value"],
        &response["items"][1]["value"],
    ];
    assert_eq!(values, [8, 4], "{response}");
    // A 405 names the allowed methods.
    for (method, path, methods) in [
        ("DELETE", "next", "GET, POST"),
        ("GET", "raise-to", "POST"),
        ("PUT", "raise-to", "POST"),
    ] {
        http.send(&format!(
            "{method} /v1/{path} HTTP/1.1\r\nhost: localhost\r\n\r\n"
        ))
        .await;
        let response = http.read_answer().await;
        let allow = format!("allow: {methods}\r\n");
        assert!(
            response.status == 405 && response.head.contains(&allow),
            "{response:?}"
        );
    }
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Proves that the test above can fail.
#[test]
fn openapi_mismatch_is_detected() {
    let document = serde_json::json!({"components": {"schemas": {"N": {"type": "integer"}}}});
    let schema = serde_json::json!({
        "type": "object", "additionalProperties": false, "required": ["a"],
        "properties": {
            "a": {"oneOf": [{"$ref": "#/components/schemas/N"}, {"type": "string", "pattern": "^[0-9]{1,20}$"}]},
            "b": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
        },
    });
    for (value, fit) in [
        (r#"{"a":1}"#, true),
        (r#"{"a":"1","b":["x"]}"#, true),
        ("{}", false),
        (r#"{"a":true}"#, false),
        (r#"{"a":"x"}"#, false),
        (r#"{"a":1,"c":1}"#, false),
        (r#"{"a":1,"b":["y"]}"#, false),
        ("[]", false),
    ] {
        let value = serde_json::from_str(value).unwrap();
        assert_eq!(
            check_schema(&document, &schema, &value).is_ok(),
            fit,
            "{value}"
        );
    }
}

/// Returns the fields that an error names.
fn error_fields(error: &str) -> BTreeSet<String> {
    let (_, names) = error
        .split_once("expected one of ")
        .unwrap_or_else(|| panic!("{error}"));
    names
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn parameter_name(parameter: &Value) -> &str {
    parameter["name"].as_str().unwrap()
}

/// Returns the fields of a query that a parameter represents: its own, or those of an object.
fn parameter_fields(document: &Value, parameter: &Value) -> Vec<String> {
    let schema = resolve_reference(document, &parameter["schema"]);
    match schema["type"].as_str() {
        Some("object") => {
            let ways = schema["oneOf"].as_array().unwrap().iter();
            ways.flat_map(|way| way["properties"].as_object().unwrap().keys().cloned())
                .collect()
        }
        _ => vec![parameter_name(parameter).to_owned()],
    }
}

/// Returns an example as it is written in a query.
fn to_query_text(example: &Value) -> String {
    match example {
        Value::Array(list) => list.iter().map(to_query_text).collect::<Vec<_>>().join(","),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Resolves a reference.
fn resolve_reference<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(at) => document
            .pointer(at.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("no {at}")),
        None => value,
    }
}

/// Checks a value against a schema, as far as the document uses schemas.
fn check_schema(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = resolve_reference(document, schema);
    if schema["type"] == "object" && schema["oneOf"].is_array() {
        // Lists the present fields; the properties below check their values.
        let object = value.as_object().ok_or(format!("{value} is no object"))?;
        let ways = schema["oneOf"].as_array().into_iter().flatten();
        let fit = ways.filter(|way| {
            let mut required = way["required"].as_array().into_iter().flatten();
            required.all(|name| object.contains_key(name.as_str().unwrap()))
        });
        if fit.count() != 1 {
            return Err(format!("{value} names not one of {schema}"));
        }
    } else if let Some(of) = schema["oneOf"].as_array() {
        let fit = of
            .iter()
            .filter(|one| check_schema(document, one, value).is_ok())
            .count();
        return (fit == 1)
            .then_some(())
            .ok_or(format!("{value} is {fit} of {schema}"));
    }
    let right = match schema["type"].as_str() {
        Some("integer") => value.as_u64().is_some_and(|n| {
            n >= schema["minimum"].as_u64().unwrap_or(0)
                && n <= schema["maximum"].as_u64().unwrap_or(u64::MAX)
        }),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.as_str().is_some_and(|text| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let numeric = schema["pattern"]
                .as_str()
                .is_some_and(|p| p.contains("[0-9]{"));
            let listed = schema["enum"]
                .as_array()
                .is_none_or(|all| all.contains(value));
            listed && (!numeric || digits)
        }),
        Some("array") => {
            for item in value.as_array().ok_or(format!("{value} is no list"))? {
                check_schema(document, &schema["items"], item)?;
            }
            true
        }
        Some("object") => {
            let none = Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&none);
            let object = value.as_object().ok_or(format!("{value} is no object"))?;
            for (name, value) in object {
                let property = properties.get(name).ok_or(format!("{name} is not known"))?;
                check_schema(document, property, value)?;
            }
            let required = schema["required"].as_array().into_iter().flatten();
            let mut required = required.map(|name| name.as_str().unwrap());
            required.all(|name| object.contains_key(name))
        }
        other => return Err(format!("a schema of type {other:?}")),
    };
    right
        .then_some(())
        .ok_or(format!("{value} is not {schema}"))
}
