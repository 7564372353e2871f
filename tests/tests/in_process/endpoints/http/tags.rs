//! The paths of Leaf and Tinyid, byte for byte (docs/guide/http.md).
//!
//! Compares whole answers with the texts of the original servers.

use seqsvr_core::namespace::NamespaceSpec;
use seqsvr_core::progression::Progression;
use seqsvr_test_support::in_process::{InProcessCluster, LEASE, create_namespace, dense_namespace};

use super::{FORM, HttpAnswer, HttpCaller, open_endpoint};

const TEXT: &str = "content-type: text/plain;charset=UTF-8\r\n";
const JSON: &str = "content-type: application/json;charset=UTF-8\r\n";

impl HttpAnswer {
    /// Returns the body without its time.
    fn body_without_time(&self) -> String {
        let Some((_, rest)) = self.body.split_once("\"timestamp\":") else {
            return self.body.clone();
        };
        let (time, rest) = rest.split_once(',').unwrap();
        assert_eq!(time.len(), 13, "milliseconds: {self:?}");
        format!("{{\"timestamp\":T,{rest}")
    }
}

fn odd_namespace() -> NamespaceSpec {
    NamespaceSpec {
        progression: Progression {
            start: 1,
            stride: 2,
            offset: 1,
        },
        ..dense_namespace("odd", 1_000, 1_000, 100)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaf_answers_match_byte_for_byte() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    create_namespace(
        &allocs,
        &dense_namespace("leaf-segment-test", 1_000, 1_000, 100),
    )
    .await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut http = HttpCaller::connect(endpoint.local_addr()).await;
    for n in 1..=300 {
        let response = http.get("/api/segment/get/leaf-segment-test").await;
        assert_eq!((response.status, &*response.body), (200, &*n.to_string()));
        assert!(response.head.contains(TEXT), "{response:?}");
    }
    let response = http
        .post("/api/segment/get/leaf%2Dsegment-test", FORM, "")
        .await;
    assert_eq!(response.body, "301");
    let response = http.get("/api/segment/get/leaf-segment-test/").await;
    assert_eq!(response.body, "302");
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
        let response = http.get(path).await;
        assert_eq!((response.status, response.body_without_time()), (status, body), "{response:?}");
        assert!(response.head.contains(JSON), "{response:?}");
    }
    let why = http.get("/api/segment/get/nosuch").await;
    assert!(
        why.head.contains("x-seqsvr-error: there is no namespace"),
        "{why:?}"
    );
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tinyid_answers_match_byte_for_byte() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    create_namespace(&allocs, &odd_namespace()).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut http = HttpCaller::connect(endpoint.local_addr()).await;
    let token_error = r#"{"data":null,"code":5,"message":"token is error"}"#;
    let mistyped = |text: &str| {
        format!(
            "{{\"timestamp\":T,\"status\":400,\"error\":\"Bad Request\",\"exception\":\"org.springframework.web.method.annotation.MethodArgumentTypeMismatchException\",\"message\":\"Failed to convert value of type 'java.lang.String' to required type 'java.lang.Integer'; nested exception is java.lang.NumberFormatException: For input string: \\\"{text}\\\"\",\"path\":\"/tinyid/id/nextId\"}}"
        )
    };
    let (word, huge) = (mistyped("x"), mistyped("2147483648"));
    for (request_path, kind, body) in [
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
        ("nextId?token=0f673adf", JSON, token_error),
        ("nextIdSimple?token=0f673adf", TEXT, ""),
        ("nextSegmentId?token=0f673adf", JSON, token_error),
        ("nextSegmentIdSimple?token=0f673adf", TEXT, ""),
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
        let response = http.get(&format!("/tinyid/id/{request_path}")).await;
        assert_eq!(response.body_without_time(), body, "{request_path}");
        let status = if body.contains("\"status\":400") {
            400
        } else {
            200
        };
        assert!(
            response.status == status && response.head.contains(kind),
            "{request_path}: {response:?}"
        );
    }
    // As its client sends it: by POST, with a query or a form.
    let by_query = "/tinyid/id/nextIdSimple?bizType=odd&token=0f673adf";
    assert_eq!(http.post(by_query, FORM, "").await.body, "421");
    let by_form = "bizType=odd&token=0f673adf&batchSize=2";
    let response = http.post("/tinyid/id/nextIdSimple", FORM, by_form).await;
    assert_eq!(response.body, "423,425");
    // A value above the namespace's limit is an error. A value above the original's bound counts as
    // the bound.
    let most = "batchSize=2147483647&token=0f673adf";
    let response = http
        .get(&format!("/tinyid/id/nextId?bizType=odd&{most}"))
        .await;
    assert!(
        response
            .body
            .starts_with(r#"{"data":null,"code":6,"message":"error query segmentId: "#),
        "{response:?}"
    );
    let response = http
        .get(&format!("/tinyid/id/nextId?bizType=default&{most}"))
        .await;
    assert_eq!(answer_numbers(&response), (1..=100_000).collect::<Vec<_>>());
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tinyid_endpoint_without_principals_ignores_the_token() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    create_namespace(&allocs, &odd_namespace()).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut http = HttpCaller::connect(endpoint.local_addr()).await;
    for (token, number) in [("", "1"), ("&token=", "3"), ("&token=any", "5")] {
        let path = format!("/tinyid/id/nextIdSimple?bizType=odd{token}");
        assert_eq!(http.get(&path).await.body, number, "{path}");
    }
    let response = http.get("/tinyid/id/nextId?token=any").await;
    assert!(response.body.contains("\"code\":5"), "{response:?}");
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

fn answer_numbers(answer: &HttpAnswer) -> Vec<u64> {
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
async fn tinyid_segments_never_overlap() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    create_namespace(&allocs, &odd_namespace()).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut http = HttpCaller::connect(endpoint.local_addr()).await;
    let mut all = Vec::new();
    for _ in 0..20 {
        let segment = http.get("/tinyid/id/nextSegmentIdSimple?bizType=odd").await;
        let mut client = TinyidClient::new(&segment.body);
        all.extend(std::iter::from_fn(|| client.next()));
        let single = http.get("/tinyid/id/nextId?bizType=odd&batchSize=7").await;
        all.extend(answer_numbers(&single).iter().map(|n| *n as i64));
        let leaf = http.get("/api/segment/get/odd").await;
        all.push(leaf.body.parse().unwrap());
    }
    let expected: Vec<i64> = (0..20 * 108).map(|n| 2 * n + 1).collect();
    assert_eq!(all, expected);
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}
