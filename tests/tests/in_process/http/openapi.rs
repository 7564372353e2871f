//! The document of the contract says what is answered: every path of it is asked, in each way it names.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Http, JSON, open};
use crate::harness::{Cluster, D};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_openapi_document_is_true() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    let door = open(&allocs[0]).await;
    let mut http = Http::connect(door.local_addr()).await;
    let document = http.get("/v1/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    let asked: BTreeSet<_> = paths.keys().map(String::as_str).collect();
    let all =
        ["current", "current-many", "next", "next-many", "raise-to"].map(|p| format!("/v1/{p}"));
    assert_eq!(asked, all.iter().map(String::as_str).collect());

    for (path, methods) in paths {
        let get = &methods["get"];
        let parameters = get["parameters"].as_array().unwrap();
        let parameters: Vec<&Value> = parameters.iter().map(|p| found(&document, p)).collect();
        let examples = parameters.iter().filter(|p| !p["example"].is_null());
        let query: Vec<String> = examples
            .map(|p| format!("{}={}", name(p), plain(&p["example"])))
            .collect();
        let query = query.join("&");
        for format in ["", "&format=string"] {
            let told = http.get(&format!("{path}?{query}{format}")).await;
            assert_eq!(told.status, 200, "{path}?{query}{format}: {told:?}");
            let schema = &found(&document, &get["responses"]["200"])["content"][JSON]["schema"];
            fits(&document, schema, &told.json()).unwrap_or_else(|why| panic!("{path}: {why}"));
        }
        let failed = &found(&document, &get["responses"]["default"])["content"][JSON]["schema"];
        let names: BTreeSet<String> = parameters.iter().map(|p| name(p).to_owned()).collect();
        let told = http.get(&format!("{path}?nonsense=1")).await;
        fits(&document, failed, &told.json()).unwrap();
        assert_eq!(names, fields(&told.body), "{path}");

        let body = &methods["post"]["requestBody"]["content"][JSON];
        let schema = found(&document, &body["schema"]);
        fits(&document, schema, &body["example"]).unwrap();
        let told = http.post(path, JSON, &body["example"].to_string()).await;
        assert_eq!(told.status, 200, "{path}: {told:?}");
        let answer =
            &found(&document, &methods["post"]["responses"]["200"])["content"][JSON]["schema"];
        fits(&document, answer, &told.json()).unwrap_or_else(|why| panic!("{path}: {why}"));
        let names: BTreeSet<String> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        let told = http.post(path, JSON, r#"{"nonsense":1}"#).await;
        assert_eq!(names, fields(&told.body), "{path}");
    }
    // An error in a place of a batch is one, and no answer.
    let many = &document["components"]["schemas"]["NextMany"];
    let told = http.get("/v1/next-many?keys=alice,").await.json();
    assert!(told["items"][1]["error"].is_object(), "{told}");
    fits(&document, many, &told).unwrap();
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Or the test above would see nothing.
#[test]
fn what_does_not_fit_is_seen() {
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
        assert_eq!(fits(&document, &schema, &value).is_ok(), fit, "{value}");
    }
}

/// The fields that an error names.
fn fields(error: &str) -> BTreeSet<String> {
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

fn name(parameter: &Value) -> &str {
    parameter["name"].as_str().unwrap()
}

/// As it is written in a query.
fn plain(example: &Value) -> String {
    match example {
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(","),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What a reference refers to.
fn found<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(at) => document
            .pointer(at.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("no {at}")),
        None => value,
    }
}

/// Whether a value is what a schema says, as far as schemas go here.
fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = found(document, schema);
    if let Some(of) = schema["oneOf"].as_array() {
        let fit = of
            .iter()
            .filter(|one| fits(document, one, value).is_ok())
            .count();
        return (fit == 1)
            .then_some(())
            .ok_or(format!("{value} is {fit} of {schema}"));
    }
    let right = match schema["type"].as_str() {
        Some("integer") => value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.as_str().is_some_and(|text| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let listed = schema["enum"]
                .as_array()
                .is_none_or(|all| all.contains(value));
            listed && (schema["pattern"].is_null() || digits)
        }),
        Some("array") => {
            for item in value.as_array().ok_or(format!("{value} is no list"))? {
                fits(document, &schema["items"], item)?;
            }
            true
        }
        Some("object") => {
            let none = Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&none);
            let object = value.as_object().ok_or(format!("{value} is no object"))?;
            for (name, value) in object {
                let property = properties.get(name).ok_or(format!("{name} is not known"))?;
                fits(document, property, value)?;
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
