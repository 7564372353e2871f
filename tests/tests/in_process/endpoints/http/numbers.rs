//! Numbers as JSON: the answers and the errors.
//!
//! Compares whole answers for each way to write a request.

use seqsvr_test_support::in_process::{InProcessCluster, LEASE, create_namespace, dense_namespace};
use serde_json::json;

use super::{FORM, HttpCaller, JSON, open_endpoint};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_numbers_are_answered_as_json() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    create_namespace(&allocs, &dense_namespace("orders", 1_000, 1_000, 10_000)).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut http = HttpCaller::connect(endpoint.local_addr()).await;
    for (path, answer) in [
        (
            "/v1/current?key=alice",
            r#"{"kind":"never","value":0,"epoch":1}"#,
        ),
        ("/v1/next?key=alice", r#"{"first":1,"last":1,"epoch":1}"#),
        (
            "/v1/next?key=alice&count=5",
            r#"{"first":2,"last":6,"epoch":1}"#,
        ),
        (
            "/v1/current?key=alice",
            r#"{"kind":"exact","value":6,"epoch":1}"#,
        ),
        (
            "/v1/next?uid=42&floor=0&epoch=1&strict",
            r#"{"first":1,"last":1,"epoch":1}"#,
        ),
        (
            "/v1/next?namespace=orders&uid=7&timeout_ms=4000",
            r#"{"first":1,"last":1,"epoch":1}"#,
        ),
        // The same bytes, in every encoding.
        (
            "/v1/next?key=a%20%2C+%ff",
            r#"{"first":1,"last":1,"epoch":1}"#,
        ),
        (
            "/v1/next?key_base64=YSAsIP8=",
            r#"{"first":2,"last":2,"epoch":1}"#,
        ),
        (
            "/v1/next-many?keys=alice,b%2Cc&counts=1,2",
            r#"{"items":[{"first":7,"last":7,"epoch":1},{"first":1,"last":2,"epoch":1}]}"#,
        ),
        (
            "/v1/current-many?namespace=orders&uids=7,8",
            r#"{"items":[{"kind":"exact","value":1,"epoch":1},{"kind":"never","value":0,"epoch":1}]}"#,
        ),
    ] {
        let response = http.get(path).await;
        assert!(response.body.starts_with(answer), "{path}: {response:?}");
    }
    for (body, answer) in [
        // Greater than the integers that JavaScript reads exactly.
        (
            "uid=42&value=9007199254740993&format=string",
            r#"{"error":{"code":"OUT_OF_RANGE","reason":"JUMP_TOO_LARGE""#,
        ),
        (
            "uid=42&value=100&format=string",
            r#"{"value":"100","epoch":"1"}"#,
        ),
    ] {
        let response = http.post("/v1/raise-to", FORM, body).await;
        assert!(response.body.starts_with(answer), "{body}: {response:?}");
    }
    let response = http.get("/v1/next?uid=42&format=string").await;
    assert_eq!(
        response.json(),
        json!({"first": "101", "last": "101", "epoch": "1"})
    );
    for (kind, body, answer) in [
        (
            JSON,
            json!({"uid": 42}),
            json!({"first": 102, "last": 102, "epoch": 1}),
        ),
        (
            "text/plain",
            json!({"uid": "42"}),
            json!({"first": 103, "last": 103, "epoch": 1}),
        ),
        // The content type that curl sets for every body.
        (
            FORM,
            json!({"key": "alice"}),
            json!({"first": 8, "last": 8, "epoch": 1}),
        ),
        (
            JSON,
            json!({"key_base64": "YSAsIP8=", "format": "string"}),
            json!({"first": "3", "last": "3", "epoch": "1"}),
        ),
    ] {
        let response = http.post("/v1/next", kind, &body.to_string()).await;
        assert_eq!(response.json(), answer, "{body}: {response:?}");
    }
    let form = http
        .post("/v1/next?format=string", FORM, "uid=42&count=2")
        .await;
    assert_eq!(
        form.json(),
        json!({"first": "104", "last": "105", "epoch": "1"})
    );
    // One bad item hides no other.
    let body = json!({"namespace": "orders", "uids": [7, 1_000_000, "8"], "counts": [1, 1, 3]});
    let response = http.post("/v1/next-many", JSON, &body.to_string()).await;
    let items = &response.json()["items"];
    assert_eq!(items[0], json!({"first": 2, "last": 2, "epoch": 1}));
    assert_eq!(
        items[1]["error"]["code"], "INVALID_ARGUMENT",
        "{response:?}"
    );
    assert_eq!(items[2], json!({"first": 1, "last": 3, "epoch": 1}));
    // The maximum of a batch, and one more.
    let most: Vec<u64> = (0..10_000).collect();
    let response = http
        .post("/v1/next-many", JSON, &json!({"uids": most}).to_string())
        .await;
    assert_eq!(response.json()["items"].as_array().unwrap().len(), 10_000);
    let more: Vec<u64> = (0..10_001).collect();
    let response = http
        .post("/v1/next-many", JSON, &json!({"uids": more}).to_string())
        .await;
    assert!(
        response.status == 400 && response.body.contains("a list of at most 10000"),
        "{response:?}"
    );
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Checks that an answer from memory and one of a call are the same. A request with a timeout is
/// always a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_number_is_the_same_from_memory_and_from_a_call() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut http = HttpCaller::connect(endpoint.local_addr()).await;
    let headers = |head: &str| -> Vec<String> {
        let all = head.lines().filter(|line| !line.starts_with("date: "));
        all.map(str::to_owned).collect()
    };
    let mut next = 1_u64;
    for (query, count, quoted) in [
        ("uid=1", 1, ""),
        ("uid=1&count=3", 3, ""),
        ("uid=1&format=string", 1, "\""),
        ("uid=1&namespace=default&count=2&format=string", 2, "\""),
    ] {
        let mut heads = Vec::new();
        for way in ["", "&timeout_ms=5000"] {
            let answer = http.get(&format!("/v1/next?{query}{way}")).await;
            let (first, last) = (next, next + count - 1);
            let expected = format!(
                "{{\"first\":{quoted}{first}{quoted},\"last\":{quoted}{last}{quoted},\"epoch\":{quoted}1{quoted}}}\n"
            );
            assert_eq!(answer.body, expected, "{query}{way}");
            heads.push(headers(&answer.head));
            next += count;
        }
        let length = |line: &String| !line.starts_with("content-length: ");
        heads.iter_mut().for_each(|lines| lines.retain(length));
        assert_eq!(heads[0], heads[1], "{query}");
    }
    // An error has the same text, and takes no number.
    for query in [
        "uid=1&count=0",
        "uid=1&count=99999999999",
        "key=",
        "uid=1&namespace=none",
    ] {
        let response = http.get(&format!("/v1/next?{query}")).await;
        let called = http.get(&format!("/v1/next?{query}&timeout_ms=5000")).await;
        assert!(
            (400..500).contains(&response.status),
            "{query}: {response:?}"
        );
        assert_eq!(
            (response.status, response.body),
            (called.status, called.body),
            "{query}"
        );
    }
    assert!(
        http.get("/v1/current?uid=1")
            .await
            .body
            .contains(&format!("\"value\":{}", next - 1))
    );
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_bad_input_returns_advice_and_takes_no_number() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut http = HttpCaller::connect(endpoint.local_addr()).await;
    let long = format!("/v1/next?key={}", "k".repeat(129));
    for (path, status, expected) in [
        ("/v1/next", 422, "exactly one of uid, key and key_base64"),
        ("/v1/next?uid=1&key=a", 422, "exactly one of uid, key"),
        (
            "/v1/next?uid=1&cuont=2",
            400,
            "unknown field `cuont`, expected one of `namespace`",
        ),
        ("/v1/next?uid=1&uid=2", 400, "duplicate field `uid`"),
        ("/v1/next?uid=-1", 400, "uid: invalid value"),
        ("/v1/next?uid=-1", 400, "a whole number from 0 to 2^64-1"),
        ("/v1/next?uid=1&count=-1", 400, "count: invalid value"),
        ("/v1/next?uid=1.5", 400, "a whole number"),
        ("/v1/next?uid=18446744073709551616", 400, "a whole number"),
        ("/v1/next?uid=", 400, "a whole number"),
        (
            "/v1/next?uid=1&count=0",
            422,
            "count must be 1 to 100000, not 0",
        ),
        (
            "/v1/next?uid=1&count=100001",
            422,
            "count must be 1 to 100000",
        ),
        (
            "/v1/next?uid=1&count=99999999999",
            422,
            "count must be 1 to 100000",
        ),
        ("/v1/next?uid=1&strict=maybe", 400, "neither true nor false"),
        (
            "/v1/next?uid=1&format=hex",
            400,
            "unknown variant `hex`, expected `number` or `string`",
        ),
        (
            "/v1/next?uid=1&timeout_ms=0",
            400,
            "timeout_ms is 1 to 60000",
        ),
        ("/v1/next?uid=3&floor=5", 422, "floor"),
        ("/v1/next?uid=99999999999", 422, "uid"),
        (
            "/v1/next?namespace=nosuch&uid=1",
            404,
            "seqsvr namespace create",
        ),
        ("/v1/next?namespace=default&key=a", 422, "uid"),
        (&long, 422, "a key has 1 to 128 bytes"),
        ("/v1/next?key=", 422, "a key has 1 to 128 bytes, not 0"),
        ("/v1/next?key_base64=!", 400, "not base64"),
        (
            "/v1/next-many?uids=1&keys=a",
            422,
            "exactly one of uids, keys",
        ),
        ("/v1/next-many?uids=1,2&counts=1", 422, "count"),
        ("/v1/raise-to?uid=1&value=5", 405, "use POST"),
        ("/v1/nothing", 404, "see /v1/openapi.json"),
    ] {
        let answer = http.get(path).await;
        let error = &answer.json()["error"];
        let message = error["message"].as_str().unwrap();
        assert!(
            answer.status == status && message.contains(expected),
            "{path}: {answer:?}"
        );
        assert!(error["code"].is_string() && error["reason"].is_string());
    }
    for (body, expected) in [
        ("{", "EOF while parsing"),
        ("[]", "neither an object of JSON nor a form"),
        (
            r#"{"uid":-1}"#,
            "uid: invalid type: integer `-1`, expected a whole number",
        ),
        (r#"{"uid":1,"count":"x"}"#, "count: invalid value"),
        (r#"{"uid":1} {}"#, "trailing characters"),
        (r#"{"uid":1,"nonsense":1}"#, "unknown field `nonsense`"),
        (r#"{"key":5}"#, "a key as text"),
        ("\u{0}", "neither an object"),
    ] {
        let answer = http.post("/v1/next", JSON, body).await;
        assert!(
            answer.status == 400 && answer.body.contains(expected),
            "{body}: {answer:?}"
        );
    }
    for (body, status, expected) in [
        (r#"{"uid":1}"#, 400, "missing field `value`"),
        (
            r#"{"uid":1,"value":0}"#,
            422,
            "RaiseTo takes a number from 1",
        ),
    ] {
        let answer = http.post("/v1/raise-to", JSON, body).await;
        assert!(
            answer.status == status && answer.body.contains(expected),
            "{body}: {answer:?}"
        );
    }
    let both = http.post("/v1/next?count=2", JSON, r#"{"uid":1}"#).await;
    assert!(
        both.body
            .contains("unknown field `count`, expected `format`"),
        "{both:?}"
    );
    // Methods whose answer no caller sees, or that mean something else.
    for method in ["HEAD", "DELETE", "PUT", "OPTIONS"] {
        let mut http = HttpCaller::connect(endpoint.local_addr()).await;
        http.send(&format!(
            "{method} /v1/next?uid=1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        ))
        .await;
        let response = http.read_to_end().await;
        assert!(response.starts_with("HTTP/1.1 405 "), "{response}");
    }
    // A page of another site, and of another port of this machine.
    for path in [
        "/v1/next?uid=1",
        "/v1/cluster",
        "/api/segment/get/default",
        "/tinyid/id/nextId?bizType=default",
    ] {
        for header in [
            "sec-fetch-site: cross-site",
            "sec-fetch-site: same-site",
            "origin: http://127.0.0.1:3000",
            "origin: null",
        ] {
            http.send(&format!(
                "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:7780\r\n{header}\r\n\r\n"
            ))
            .await;
            let response = http.read_answer().await;
            assert_eq!(response.status, 403, "{path} {header}: {response:?}");
        }
    }
    for key in ["uid=1", "uid=0"] {
        let untouched = http.get(&format!("/v1/current?{key}")).await;
        assert_eq!(untouched.json()["kind"], "never", "{untouched:?}");
    }
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Every AllocSvr answers for every key, and pipelined requests are answered in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_endpoint_of_any_alloc_answers_for_every_key() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    let endpoints = [
        open_endpoint(&allocs[0]).await,
        open_endpoint(&allocs[1]).await,
    ];
    const KEYS: u64 = 40;
    let mut https = Vec::new();
    for endpoint in &endpoints {
        https.push(HttpCaller::connect(endpoint.local_addr()).await);
    }
    for round in 0..10 {
        for http in &mut https {
            let pipelined: String = (0..KEYS)
                .map(|key| format!("GET /v1/next?uid={key} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
                .collect();
            http.send(&pipelined).await;
        }
        let mut firsts = vec![Vec::new(); KEYS as usize];
        for http in &mut https {
            for of in &mut firsts {
                let response = http.read_answer().await;
                of.push(
                    response.json()["first"]
                        .as_u64()
                        .unwrap_or_else(|| panic!("{response:?}")),
                );
            }
        }
        for mut of in firsts {
            of.sort_unstable();
            assert_eq!(of, [2 * round + 1, 2 * round + 2]);
        }
    }
    for endpoint in &endpoints {
        endpoint.shutdown().await;
    }
    cluster.stop(&allocs).await;
}
