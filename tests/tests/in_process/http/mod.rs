//! The HTTP door: bytes in, bytes out, over sockets, in front of real AllocSvrs.

mod metrics;
mod openapi;
mod ready;
mod tags;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use seqsvr_alloc::Alloc;
use seqsvr_gateway::{HttpDoor, HttpOptions, http};
use seqsvr_proto::transport::Tcp;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Cluster, D, PATIENCE, any, create, dense, until};

/// A caller that sends bytes and reads answers.
struct Http {
    stream: TcpStream,
    read: Vec<u8>,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl Http {
    async fn connect(address: SocketAddr) -> Http {
        Http {
            stream: TcpStream::connect(address).await.unwrap(),
            read: Vec::new(),
        }
    }

    async fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
    }

    async fn answer(&mut self) -> Answer {
        let answer = async {
            loop {
                if let Some(answer) = self.whole() {
                    return answer;
                }
                let n = self.stream.read_buf(&mut self.read).await.unwrap();
                let read = String::from_utf8_lossy(&self.read);
                assert!(n > 0, "closed after {read:?}");
            }
        };
        tokio::time::timeout(PATIENCE, answer)
            .await
            .expect("an answer")
    }

    /// The first answer, if it has come whole.
    fn whole(&mut self) -> Option<Answer> {
        let end = self.read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8(self.read[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
        let length = lines.find_map(|line| line.strip_prefix("content-length: "));
        let whole = end + length.map_or(0, |n| n.parse().unwrap());
        if self.read.len() < whole {
            return None;
        }
        let body = String::from_utf8(self.read[end..whole].to_vec()).unwrap();
        self.read.drain(..whole);
        Some(Answer { status, head, body })
    }

    async fn get(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"))
            .await;
        self.answer().await
    }

    async fn post(&mut self, path: &str, kind: &str, body: &str) -> Answer {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await;
        self.answer().await
    }

    /// What comes until the other end closes.
    async fn rest(mut self) -> String {
        let read = self.stream.read_to_end(&mut self.read);
        let read = tokio::time::timeout(PATIENCE, read).await.expect("an end");
        read.unwrap();
        String::from_utf8_lossy(&self.read).into_owned()
    }
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

async fn open(alloc: &Alloc) -> HttpDoor {
    open_with(alloc, HttpOptions::new(any()), None).await
}

async fn open_with(alloc: &Alloc, options: HttpOptions, token: Option<&str>) -> HttpDoor {
    let routes = http::numbers(alloc.sequence(), token.map(str::to_owned));
    HttpDoor::open(options, &Tcp, routes).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_answered_as_json() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    create(&allocs, &dense("orders", 1_000, 1_000, 10_000)).await;
    let door = open(&allocs[0]).await;
    let mut http = Http::connect(door.local_addr()).await;
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
        // The same bytes, however they are written.
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
        // More than JavaScript reads of a number.
        (
            "/v1/raise-to?uid=42&value=9007199254740993&format=string",
            r#"{"error":{"code":"OUT_OF_RANGE","reason":"ABOVE_BOUND""#,
        ),
        (
            "/v1/raise-to?uid=42&value=100&format=string",
            r#"{"value":"100","epoch":"1"}"#,
        ),
        (
            "/v1/next?uid=42&format=string",
            r#"{"first":"101","last":"101","epoch":"1"}"#,
        ),
    ] {
        let told = http.get(path).await;
        assert!(told.body.starts_with(answer), "{path}: {told:?}");
        assert!(told.head.contains("cache-control: no-store"), "{told:?}");
    }
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
        // What curl calls every body.
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
        let told = http.post("/v1/next", kind, &body.to_string()).await;
        assert_eq!(told.json(), answer, "{body}: {told:?}");
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
    let told = http.post("/v1/next-many", JSON, &body.to_string()).await;
    let items = &told.json()["items"];
    assert_eq!(items[0], json!({"first": 2, "last": 2, "epoch": 1}));
    assert_eq!(items[1]["error"]["code"], "INVALID_ARGUMENT", "{told:?}");
    assert_eq!(items[2], json!({"first": 1, "last": 3, "epoch": 1}));
    // As many as a batch may have, and one more.
    let most: Vec<u64> = (0..10_000).collect();
    let told = http
        .post("/v1/next-many", JSON, &json!({"uids": most}).to_string())
        .await;
    assert_eq!(told.json()["items"].as_array().unwrap().len(), 10_000);
    let more: Vec<u64> = (0..10_001).collect();
    let told = http
        .post("/v1/next-many", JSON, &json!({"uids": more}).to_string())
        .await;
    assert!(
        told.status == 400 && told.body.contains("a list of at most 10000"),
        "{told:?}"
    );
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_told_what_to_do_and_takes_nothing() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    let door = open(&allocs[0]).await;
    let mut http = Http::connect(door.local_addr()).await;
    let long = format!("/v1/next?key={}", "k".repeat(129));
    for (path, status, told) in [
        ("/v1/next", 400, "name one key: uid, key or key_base64"),
        ("/v1/next?uid=1&key=a", 400, "name one key"),
        (
            "/v1/next?uid=1&cuont=2",
            400,
            "unknown field `cuont`, expected one of `namespace`",
        ),
        ("/v1/next?uid=1&uid=2", 400, "duplicate field `uid`"),
        ("/v1/next?uid=-1", 400, "a whole number from 0 to 2^64-1"),
        ("/v1/next?uid=1.5", 400, "a whole number"),
        ("/v1/next?uid=18446744073709551616", 400, "a whole number"),
        ("/v1/next?uid=", 400, "a whole number"),
        (
            "/v1/next?uid=1&count=0",
            400,
            "count must be 1 to 100000, not 0",
        ),
        (
            "/v1/next?uid=1&count=100001",
            400,
            "count must be 1 to 100000",
        ),
        (
            "/v1/next?uid=1&count=99999999999",
            400,
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
        ("/v1/next?uid=3&floor=5", 400, "floor"),
        ("/v1/next?uid=99999999999", 400, "uid"),
        (
            "/v1/next?namespace=nosuch&uid=1",
            404,
            "seqsvr namespace create",
        ),
        ("/v1/next?namespace=default&key=a", 400, "uid"),
        (&long, 400, "a key has 1 to 128 bytes"),
        ("/v1/next?key=", 400, "a key has 1 to 128 bytes, not 0"),
        ("/v1/next?key_base64=!", 400, "not base64"),
        (
            "/v1/next-many?uids=1&keys=a",
            400,
            "name the keys in one way",
        ),
        ("/v1/next-many?uids=1,2&counts=1", 400, "count"),
        ("/v1/raise-to?uid=1", 400, "missing field `value`"),
        (
            "/v1/raise-to?uid=1&value=0",
            400,
            "RaiseTo takes a number from 1",
        ),
        ("/v1/nothing", 404, "/v1/openapi.json tells what there is"),
    ] {
        let answer = http.get(path).await;
        let error = &answer.json()["error"];
        let message = error["message"].as_str().unwrap();
        assert!(
            answer.status == status && message.contains(told),
            "{path}: {answer:?}"
        );
        assert!(error["code"].is_string() && error["reason"].is_string());
    }
    for (body, told) in [
        ("{", "EOF while parsing"),
        ("[]", "neither an object of JSON nor a form"),
        (r#"{"uid":-1}"#, "a whole number"),
        (r#"{"uid":1,"nonsense":1}"#, "unknown field `nonsense`"),
        (r#"{"key":5}"#, "a key as text"),
        ("\u{0}", "neither an object"),
    ] {
        let answer = http.post("/v1/next", JSON, body).await;
        assert!(
            answer.status == 400 && answer.body.contains(told),
            "{body}: {answer:?}"
        );
    }
    let both = http.post("/v1/next?count=2", JSON, r#"{"uid":1}"#).await;
    assert!(
        both.body
            .contains("unknown field `count`, expected `format`"),
        "{both:?}"
    );
    // Methods that would take what nobody sees, or mean something else.
    for method in ["HEAD", "DELETE", "PUT", "OPTIONS"] {
        let mut http = Http::connect(door.local_addr()).await;
        http.send(&format!(
            "{method} /v1/next?uid=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        ))
        .await;
        let told = http.rest().await;
        assert!(told.starts_with("HTTP/1.1 405 "), "{told}");
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
            let told = http.answer().await;
            assert_eq!(told.status, 403, "{path} {header}: {told:?}");
        }
    }
    for key in ["uid=1", "uid=0"] {
        let untouched = http.get(&format!("/v1/current?{key}")).await;
        assert_eq!(untouched.json()["kind"], "never", "{untouched:?}");
    }
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_door_is_bounded_and_closes_in_order() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    let options = HttpOptions {
        connections_max: 3,
        idle_max: Duration::from_secs(3),
        ..HttpOptions::new(any())
    };
    let door = open_with(&allocs[0], options, None).await;
    let at = door.local_addr();
    let mut http = Http::connect(at).await;
    assert_eq!(http.get("/v1/next?uid=1").await.status, 200);
    // One that says nothing and one that stops in a head; a fourth is one too many.
    let silent = Http::connect(at).await;
    let mut half = Http::connect(at).await;
    half.send("GET /v1/next?uid=1 HT").await;
    until("a refusal", async || {
        let told = Http::connect(at).await.rest().await;
        (told.starts_with("HTTP/1.1 503 ") && told.ends_with("or wait")).then_some(())
    })
    .await;
    let began = Instant::now();
    assert_eq!(silent.rest().await, "");
    half.rest().await;
    // Idle after an answer.
    assert_eq!(http.rest().await, "");
    assert!(began.elapsed() < Duration::from_secs(15));

    // Larger than may be: by what it says, or by what comes.
    for (head, body) in [
        ("content-length: 100000", String::new()),
        (
            "transfer-encoding: chunked",
            format!("5000\r\n{}\r\n", " ".repeat(0x5000)),
        ),
    ] {
        let mut large = Http::connect(at).await;
        large
            .send(&format!(
                "POST /v1/next HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n{body}"
            ))
            .await;
        let told = large.answer().await;
        assert_eq!(told.status, 413, "{head}: {told:?}");
    }
    // One that sends no more is still answered.
    let mut half = Http::connect(at).await;
    half.send("GET /v1/next?uid=9&strict HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    half.stream.shutdown().await.unwrap();
    let told = half.rest().await;
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    let mut head = Http::connect(at).await;
    head.send(&format!(
        "GET /v1/next?key={} HTTP/1.1\r\nhost: x\r\n\r\n",
        "k".repeat(70_000)
    ))
    .await;
    let told = head.answer().await;
    assert!(matches!(told.status, 414 | 431), "{told:?}");
    let mut other = Http::connect(at).await;
    other.send("*1\r\n$4\r\nPING\r\n").await;
    let told = other.rest().await;
    assert!(told.starts_with("HTTP/1.1 400 "), "{told}");

    // A door that closes answers what it has begun to receive.
    let mut last = Http::connect(at).await;
    assert_eq!(last.get("/v1/next?uid=1").await.status, 200);
    last.send("POST /v1/next HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{\"uid\"")
        .await;
    let mut idle = Http::connect(at).await;
    assert_eq!(idle.get("/v1/next?uid=1").await.status, 200);
    let closing = tokio::spawn(async move { door.shutdown().await });
    assert_eq!(idle.rest().await, "");
    last.send(":1}").await;
    let told = last.rest().await;
    assert!(
        told.starts_with("HTTP/1.1 200 ") && told.contains("\"first\":4"),
        "{told}"
    );
    closing.await.unwrap();
    TcpStream::connect(at).await.unwrap_err();
    cluster.stop(&allocs).await;
}

/// Requests whose bodies do not come hold nothing that others need.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_do_not_come_keep_nobody_out() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    let door = open(&allocs[0]).await;
    let mut silent = Vec::new();
    for n in 0..100 {
        let mut http = Http::connect(door.local_addr()).await;
        let length = match n % 2 {
            0 => "transfer-encoding: chunked",
            _ => "content-length: 4000000",
        };
        http.send(&format!(
            "POST /v1/next-many HTTP/1.1\r\nhost: x\r\n{length}\r\n\r\n"
        ))
        .await;
        silent.push(http);
    }
    let mut http = Http::connect(door.local_addr()).await;
    let keys: Vec<String> = (0..10_000).map(|n| format!("{n:0128}")).collect();
    let body = json!({ "keys": keys }).to_string();
    for _ in 0..3 {
        let told = http.post("/v1/next-many", JSON, &body).await;
        assert_eq!(told.status, 200, "{:.200}", told.body);
    }
    drop(silent);
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

/// A browser that was told that a stranger's name is this machine's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_door_answers_to_no_other_name() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    let options = HttpOptions {
        local_only: true,
        ..HttpOptions::new(any())
    };
    let door = open_with(&allocs[0], options, None).await;
    let mut http = Http::connect(door.local_addr()).await;
    for (host, status) in [
        ("localhost:7780", 200),
        ("127.0.0.1", 200),
        ("evil.example:7780", 403),
    ] {
        http.send(&format!(
            "GET /v1/next?uid=1 HTTP/1.1\r\nhost: {host}\r\n\r\n"
        ))
        .await;
        let told = http.answer().await;
        assert_eq!(told.status, status, "{host}: {told:?}");
    }
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Every AllocSvr answers for every key, and what is sent together is answered in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_allocsvr_answers_for_every_key() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1", "a2"]).await;
    let doors = [open(&allocs[0]).await, open(&allocs[1]).await];
    const KEYS: u64 = 40;
    let mut https = Vec::new();
    for door in &doors {
        https.push(Http::connect(door.local_addr()).await);
    }
    for round in 0..10 {
        for http in &mut https {
            let pipelined: String = (0..KEYS)
                .map(|key| format!("GET /v1/next?uid={key} HTTP/1.1\r\nhost: x\r\n\r\n"))
                .collect();
            http.send(&pipelined).await;
        }
        let mut firsts = vec![Vec::new(); KEYS as usize];
        for http in &mut https {
            for of in &mut firsts {
                let told = http.answer().await;
                of.push(
                    told.json()["first"]
                        .as_u64()
                        .unwrap_or_else(|| panic!("{told:?}")),
                );
            }
        }
        for mut of in firsts {
            of.sort_unstable();
            assert_eq!(of, [2 * round + 1, 2 * round + 2]);
        }
    }
    for door in &doors {
        door.shutdown().await;
    }
    cluster.stop(&allocs).await;
}
