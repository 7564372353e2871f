//! The paths of Leaf and Tinyid, byte for byte (docs/http.md).
//!
//! Compares whole answers with the texts of the original servers.

use seqsvr_core::namespace::Spec;
use seqsvr_core::progression::Progression;
use seqsvr_gateway::HttpOptions;

use super::{Answer, FORM, Http, open, open_with};
use crate::harness::{Cluster, D, any, create, dense};

const TEXT: &str = "content-type: text/plain;charset=UTF-8\r\n";
const JSON: &str = "content-type: application/json;charset=UTF-8\r\n";

impl Answer {
    /// Returns the body without its time.
    fn timeless(&self) -> String {
        let Some((_, rest)) = self.body.split_once("\"timestamp\":") else {
            return self.body.clone();
        };
        let (time, rest) = rest.split_once(',').unwrap();
        assert_eq!(time.len(), 13, "milliseconds: {self:?}");
        format!("{{\"timestamp\":T,{rest}")
    }
}

fn odd() -> Spec {
    Spec {
        progression: Progression {
            start: 1,
            stride: 2,
            offset: 1,
        },
        ..dense("odd", 1_000, 1_000, 100)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaf_is_answered_byte_for_byte() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    create(&allocs, &dense("leaf-segment-test", 1_000, 1_000, 100)).await;
    let door = open(&allocs[0]).await;
    let mut http = Http::connect(door.local_addr()).await;
    for n in 1..=300 {
        let told = http.get("/api/segment/get/leaf-segment-test").await;
        assert_eq!((told.status, &*told.body), (200, &*n.to_string()));
        assert!(told.head.contains(TEXT), "{told:?}");
    }
    let told = http
        .post("/api/segment/get/leaf%2Dsegment-test", FORM, "")
        .await;
    assert_eq!(told.body, "301");
    let told = http.get("/api/segment/get/leaf-segment-test/").await;
    assert_eq!(told.body, "302");
    let exception = "com.sankuai.inf.leaf.server.exception.LeafServerException";
    for (path, status, body) in [
        (
            "/api/segment/get/nosuch",
            500,
            format!("{{\"timestamp\":T,\"status\":500,\"error\":\"Internal Server Error\",\"exception\":\"{exception}\",\"message\":\"Result{{id=-2, status=EXCEPTION}}\",\"path\":\"/api/segment/get/nosuch\"}}"),
        ),
        (
            "/api/segment/get/",
            404,
            "{\"timestamp\":T,\"status\":404,\"error\":\"Not Found\",\"message\":\"No message available\",\"path\":\"/api/segment/get/\"}".to_owned(),
        ),
    ] {
        let told = http.get(path).await;
        assert_eq!((told.status, told.timeless()), (status, body), "{told:?}");
        assert!(told.head.contains(JSON), "{told:?}");
    }
    let why = http.get("/api/segment/get/nosuch").await;
    assert!(
        why.head.contains("x-seqsvr-error: there is no namespace"),
        "{why:?}"
    );
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tinyid_is_answered_byte_for_byte() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    create(&allocs, &odd()).await;
    let door = open_with(&allocs[0], HttpOptions::new(any()), Some("0f673adf")).await;
    let mut http = Http::connect(door.local_addr()).await;
    let refused = r#"{"data":null,"code":5,"message":"token is error"}"#;
    let mistyped = |text: &str| {
        format!(
            "{{\"timestamp\":T,\"status\":400,\"error\":\"Bad Request\",\"exception\":\"org.springframework.web.method.annotation.MethodArgumentTypeMismatchException\",\"message\":\"Failed to convert value of type 'java.lang.String' to required type 'java.lang.Integer'; nested exception is java.lang.NumberFormatException: For input string: \\\"{text}\\\"\",\"path\":\"/tinyid/id/nextId\"}}"
        )
    };
    let (word, huge) = (mistyped("x"), mistyped("2147483648"));
    for (asked, kind, body) in [
        (
            "nextId?bizType=odd&token=0f673adf",
            JSON,
            r#"{"data":[1],"code":200,"message":""}"#,
        ),
        (
            "nextId?bizType=odd&token=0f673adf&batchSize=3",
            JSON,
            r#"{"data":[3,5,7],"code":200,"message":""}"#,
        ),
        (
            "nextId?bizType=odd&token=0f673adf&batchSize=",
            JSON,
            r#"{"data":[9],"code":200,"message":""}"#,
        ),
        (
            "nextId?bizType=odd&token=0f673adf&format=string",
            JSON,
            r#"{"data":["11"],"code":200,"message":""}"#,
        ),
        ("nextIdSimple?bizType=odd&token=0f673adf", TEXT, "13"),
        (
            "nextIdSimple?bizType=odd&token=0f673adf&batchSize=3",
            TEXT,
            "15,17,19",
        ),
        // The following requests take no number.
        (
            "nextId?bizType=odd&token=0f673adf&batchSize=0",
            JSON,
            r#"{"data":[],"code":200,"message":""}"#,
        ),
        (
            "nextId?bizType=odd&token=0f673adf&batchSize=-2147483648",
            JSON,
            r#"{"data":[],"code":200,"message":""}"#,
        ),
        (
            "nextIdSimple?bizType=odd&token=0f673adf&batchSize=0",
            TEXT,
            "",
        ),
        (
            "nextIdSimple?bizType=odd&token=0f673adf&batchSize=-1",
            TEXT,
            "",
        ),
        ("nextId?bizType=odd&token=0f673adf&batchSize=x", JSON, &word),
        (
            "nextId?bizType=odd&token=0f673adf&batchSize=2147483648",
            JSON,
            &huge,
        ),
        ("nextId?bizType=odd&token=wrong", JSON, refused),
        ("nextId?bizType=odd", JSON, refused),
        ("nextId?token=0f673adf", JSON, refused),
        ("nextIdSimple?bizType=odd&token=wrong", TEXT, ""),
        ("nextSegmentId?bizType=odd&token=wrong", JSON, refused),
        ("nextSegmentIdSimple?bizType=odd", TEXT, ""),
        (
            "nextId?bizType=nosuch&token=0f673adf",
            JSON,
            r#"{"data":null,"code":6,"message":"error query segmentId: can not find biztype:nosuch"}"#,
        ),
        ("nextIdSimple?bizType=nosuch&token=0f673adf", TEXT, ""),
        (
            "nextSegmentId?bizType=nosuch&token=0f673adf",
            JSON,
            r#"{"data":null,"code":6,"message":"can not find biztype:nosuch"}"#,
        ),
        (
            "nextId?bizType=nosuch&token=0f673adf&batchSize=0",
            JSON,
            r#"{"data":null,"code":6,"message":"error query segmentId: can not find biztype:nosuch"}"#,
        ),
        (
            "nextSegmentIdSimple?bizType=nosuch&token=0f673adf",
            TEXT,
            "",
        ),
        // A segment is as long as the namespace's step.
        (
            "nextSegmentId?bizType=odd&token=0f673adf",
            JSON,
            r#"{"data":{"maxId":219,"loadingId":59,"currentId":20,"delta":2,"remainder":1},"code":200,"message":""}"#,
        ),
        (
            "nextSegmentIdSimple?bizType=odd&token=0f673adf",
            TEXT,
            "220,259,419,2,1",
        ),
    ] {
        let told = http.get(&format!("/tinyid/id/{asked}")).await;
        assert_eq!(told.timeless(), body, "{asked}");
        let status = if body.contains("\"status\":400") {
            400
        } else {
            200
        };
        assert!(
            told.status == status && told.head.contains(kind),
            "{asked}: {told:?}"
        );
    }
    // As its client sends it: by POST, with a query or a form.
    let by_query = "/tinyid/id/nextIdSimple?bizType=odd&token=0f673adf";
    assert_eq!(http.post(by_query, FORM, "").await.body, "421");
    let by_form = "bizType=odd&token=0f673adf&batchSize=2";
    let told = http.post("/tinyid/id/nextIdSimple", FORM, by_form).await;
    assert_eq!(told.body, "423,425");
    // A value above the namespace's limit is an error. A value above the original's bound counts as
    // the bound.
    let most = "batchSize=2147483647&token=0f673adf";
    let told = http
        .get(&format!("/tinyid/id/nextId?bizType=odd&{most}"))
        .await;
    assert!(
        told.body
            .starts_with(r#"{"data":null,"code":6,"message":"error query segmentId: "#),
        "{told:?}"
    );
    let told = http
        .get(&format!("/tinyid/id/nextId?bizType=default&{most}"))
        .await;
    assert_eq!(numbers(&told), (1..=100_000).collect::<Vec<_>>());
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

fn numbers(answer: &Answer) -> Vec<u64> {
    let all = answer.json()["data"].as_array().cloned();
    let all = all.unwrap_or_else(|| panic!("{answer:?}"));
    all.iter().map(|n| n.as_u64().unwrap()).collect()
}

/// The original client's use of its segments.
struct TinyidClient {
    current: i64,
    max: i64,
    delta: i64,
}

impl TinyidClient {
    fn new(simple: &str) -> TinyidClient {
        let fields: Vec<i64> = simple.split(',').map(|n| n.parse().unwrap()).collect();
        let [mut current, _, max, delta, remainder] = fields[..] else {
            panic!("{simple}");
        };
        if current % delta != remainder {
            while current % delta != remainder {
                current += 1;
            }
            current -= delta;
        }
        TinyidClient {
            current,
            max,
            delta,
        }
    }

    fn next(&mut self) -> Option<i64> {
        self.current += self.delta;
        (self.current <= self.max).then_some(self.current)
    }
}

/// Numbers of clients that take segments, and of callers that take single numbers, never overlap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_of_tinyid_never_overlap() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    create(&allocs, &odd()).await;
    let door = open(&allocs[0]).await;
    let mut http = Http::connect(door.local_addr()).await;
    let mut all = Vec::new();
    for _ in 0..20 {
        let segment = http.get("/tinyid/id/nextSegmentIdSimple?bizType=odd").await;
        let mut client = TinyidClient::new(&segment.body);
        all.extend(std::iter::from_fn(|| client.next()));
        let single = http.get("/tinyid/id/nextId?bizType=odd&batchSize=7").await;
        all.extend(numbers(&single).iter().map(|n| *n as i64));
        let leaf = http.get("/api/segment/get/odd").await;
        all.push(leaf.body.parse().unwrap());
    }
    let expected: Vec<i64> = (0..20 * 108).map(|n| 2 * n + 1).collect();
    assert_eq!(all, expected);
    door.shutdown().await;
    cluster.stop(&allocs).await;
}
