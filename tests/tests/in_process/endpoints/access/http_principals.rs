//! Every HTTP path of an AllocSvr with a file of principals, requested with each right alone.
//!
//! Attack: a request without an identity, with a wrong one, or with that of the request before it
//! on the connection.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::join_all;
use seqsvr_access::Secret;
use seqsvr_core::key::KeyRef;
use seqsvr_gateway::http::{self as routes, ROUTE_RULES};
use seqsvr_gateway::{HTTP_ANSWER_WITHOUT_TLS, HttpOptions, HttpServer};
use seqsvr_net::tls::CaTransport;
use seqsvr_test_support::in_process::any_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::http::{FORM, HttpAnswer, HttpCaller, JSON, alloc_operator_routes};
use super::principal_cluster::{PrincipalCluster, RIGHTS};
use super::*;

// Indexes of rights.
const NONE: usize = 0;
const NEXT: usize = 1;
const CURRENT: usize = 2;
const RAISE: usize = 3;
const STATUS: usize = 5;
const METRICS: usize = 6;
/// Names: granted, existing but not granted, and missing.
const NAMES: [&str; 3] = ["orders", "other", "never"];
/// Uid of the tags, the one of which numbers are taken, and the one that is raised.
const UIDS: [u64; 3] = [0, 1, 2];

/// All paths, each with the right that it needs; None: it answers strangers too.
const PATHS: [(&str, Option<usize>); 20] = [
    ("/v1/next", Some(NEXT)),
    ("/v1/next-many", Some(NEXT)),
    ("/v1/current", Some(CURRENT)),
    ("/v1/current-many", Some(CURRENT)),
    ("/v1/raise-to", Some(RAISE)),
    ("/api/segment/get/{key}", Some(NEXT)),
    ("/tinyid/id/nextId", Some(NEXT)),
    ("/tinyid/id/nextIdSimple", Some(NEXT)),
    ("/tinyid/id/nextSegmentId", Some(NEXT)),
    ("/tinyid/id/nextSegmentIdSimple", Some(NEXT)),
    ("/v1/cluster", Some(STATUS)),
    ("/v1/slots", Some(STATUS)),
    ("/v1/route", Some(STATUS)),
    ("/metrics", Some(METRICS)),
    ("/", None),
    ("/page.css", None),
    ("/page.js", None),
    ("/v1/openapi.json", None),
    ("/healthz", None),
    ("/readyz", None),
];

/// A request without the lines that show who sends it.
#[derive(Clone, Debug)]
struct Sent {
    method: &'static str,
    target: String,
    kind: &'static str,
    body: String,
}

impl Sent {
    fn get(target: impl Into<String>) -> Sent {
        Sent {
            method: "GET",
            target: target.into(),
            kind: "",
            body: String::new(),
        }
    }

    fn post(target: &str, kind: &'static str, body: impl Into<String>) -> Sent {
        Sent {
            method: "POST",
            target: target.to_owned(),
            kind,
            body: body.into(),
        }
    }

    /// Returns its bytes, with these values of `authorization`.
    fn with(&self, authorization: &[&str]) -> String {
        let Sent {
            method,
            target,
            kind,
            body,
        } = self;
        let mut text = format!("{method} {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n");
        for value in authorization {
            text += &format!("authorization: {value}\r\n");
        }
        if *method == "POST" {
            text += &format!("content-type: {kind}\r\ncontent-length: {}\r\n", body.len());
        }
        text + "\r\n" + body
    }

    /// Returns the request with one more field.
    fn with_field(&self, field: &str) -> Sent {
        let mut sent = self.clone();
        let text = match sent.kind {
            FORM => &mut sent.body,
            _ => &mut sent.target,
        };
        text.push('&');
        text.push_str(field);
        sent
    }
}

/// Returns the requests for a path, for a namespace with this name.
fn requests_for(path: &str, name: &str) -> Vec<Sent> {
    let both = |fields: &[(&str, &str, &str)]| {
        let query: Vec<_> = fields.iter().map(|(k, v, _)| format!("{k}={v}")).collect();
        let query = query.join("&");
        let json: Vec<_> = fields
            .iter()
            .map(|(k, _, json)| format!("\"{k}\":{json}"))
            .collect();
        let posts = [
            Sent::post(path, JSON, format!("{{{}}}", json.join(","))),
            Sent::post(path, FORM, query.clone()),
        ];
        let get = Sent::get(format!("{path}?{query}"));
        std::iter::once(get).chain(posts).collect::<Vec<_>>()
    };
    let quoted = format!("\"{name}\"");
    let namespace = ("namespace", name, &*quoted);
    let tag = |more: &str| {
        let fields = format!("bizType={name}{more}");
        let get = Sent::get(format!("{path}?{fields}"));
        [get, Sent::post(path, FORM, fields)]
    };
    match path {
        "/v1/next" | "/v1/current" => both(&[namespace, ("uid", "1", "1")]),
        "/v1/next-many" | "/v1/current-many" => both(&[namespace, ("uids", "1", "[1]")]),
        "/v1/raise-to" => {
            let all = both(&[namespace, ("uid", "2", "2"), ("value", "1", "1")]);
            all.into_iter()
                .filter(|sent| sent.method != "GET")
                .collect()
        }
        "/api/segment/get/{key}" => {
            let target = path.replace("{key}", name);
            vec![Sent::get(&target), Sent::post(&target, FORM, "")]
        }
        "/tinyid/id/nextId" | "/tinyid/id/nextIdSimple" => {
            [tag(""), tag("&batchSize=2"), tag("&batchSize=0")].concat()
        }
        "/tinyid/id/nextSegmentId" | "/tinyid/id/nextSegmentIdSimple" => tag("").to_vec(),
        "/v1/route" => vec![Sent::get(format!("{path}?uid=1&namespace={name}"))],
        _ => vec![Sent::get(path)],
    }
}

fn is_tinyid(path: &str) -> bool {
    path.starts_with("/tinyid/")
}

/// Asserts that a request has no identity, in the form of its path.
fn assert_refused(path: &str, answer: &HttpAnswer) {
    let is_refused = match path {
        _ if is_tinyid(path) && path.ends_with("Simple") => answer.body.is_empty(),
        _ if is_tinyid(path) => {
            answer.body == r#"{"data":null,"code":5,"message":"token is error"}"#
        }
        _ => answer.status == 401 && answer.head.contains("\r\nwww-authenticate: Bearer\r\n"),
    };
    let form = match path {
        _ if is_tinyid(path) || path.starts_with("/api/") => "\r\nx-seqsvr-error: ",
        _ => "content-type: application/json\r\n",
    };
    assert!(
        is_refused && answer.head.contains(form),
        "{path}: {answer:?}"
    );
}

/// Returns whether the caller of a request has no right to it, by the form of its path.
fn is_denied(path: &str, answer: &HttpAnswer) -> bool {
    let says_so = [&answer.head, &answer.body]
        .iter()
        .any(|text| text.contains("has not the right"));
    let is_denied = match path {
        _ if is_tinyid(path) => says_so && answer.status == 200,
        _ => answer.status == 403,
    };
    assert_eq!(is_denied, says_so, "{path}: {answer:?}");
    if is_denied {
        let data = ["\"first\"", "\"last\"", "[", "{\"maxId\""];
        let has_numbers = data.iter().any(|data| answer.body.contains(data));
        assert!(!has_numbers, "{path}: {answer:?}");
    } else {
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    is_denied
}

/// Returns what an answer says, without times and without the name that its request has.
fn comparable(answer: &HttpAnswer, name: &str) -> String {
    let head = answer
        .head
        .lines()
        .filter(|line| !line.starts_with("date:"));
    let head: Vec<_> = head
        .filter(|line| !line.starts_with("content-length:"))
        .collect();
    let body = match answer.body.split_once("\"timestamp\":") {
        Some((begin, rest)) => format!("{begin}{}", rest.split_once(',').unwrap().1),
        None => answer.body.clone(),
    };
    format!("{} {}", head.join("\n"), body.replace(name, "NAME"))
}

/// A cluster with principals, one for each of [`RIGHTS`], and the HTTP endpoint under TLS of the
/// AllocSvr that owns uid 1 of `orders`, so that its numbers are given from memory.
struct HttpCluster {
    principals: PrincipalCluster,
    endpoint: HttpServer,
}

impl HttpCluster {
    async fn start() -> HttpCluster {
        let principals = PrincipalCluster::start().await;
        let secured = &principals.secured;
        let table = secured.client_of("admin").routes().await.unwrap();
        let orders = table.namespace(NAMES[0]).unwrap();
        let (_, slot) = table.locate(orders, KeyRef::Uid(1)).unwrap();
        let owner = table.route(slot).unwrap().owner.as_ref().unwrap();
        let is_owner = |alloc: &&AllocServer| alloc.local_addr().to_string() == owner.address;
        let alloc = secured.allocs.iter().find(is_owner).unwrap();
        let all = routes::number_routes(alloc.sequence())
            .merge(routes::dashboard_routes(
                alloc.sequence(),
                alloc.admin(),
                alloc.transport(),
            ))
            .merge(alloc_operator_routes(alloc));
        let own = TlsDir::read(&secured.dir.path().join("alloc-a1")).unwrap();
        let transport = TlsTransport::new(Arc::new(TcpTransport), Arc::new(own))
            .with_optional_certificates()
            .for_endpoint(HTTP_ANSWER_WITHOUT_TLS);
        let options = HttpOptions::new(any_port());
        let endpoint = HttpServer::start(options, &transport, all).await.unwrap();
        let cluster = HttpCluster {
            principals,
            endpoint,
        };
        // From now on the next numbers are in memory.
        let mut operator = cluster.certified("admin", "alice").await;
        for name in &NAMES[..2] {
            let sent = Sent::get(format!("/v1/next?namespace={name}&uid=1"));
            let answer = operator.exchange(&sent).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        cluster
    }

    async fn connect_over(&self, transport: Arc<dyn Transport>) -> Requester {
        let address = self.endpoint.local_addr().to_string();
        Requester {
            caller: HttpCaller::over(transport.connect(address).await.unwrap()),
            authorization: Vec::new(),
        }
    }

    async fn certified(&self, role: &str, name: &str) -> Requester {
        let (ca, dir) = (
            &self.principals.secured.ca,
            self.principals.secured.dir.path(),
        );
        self.connect_over(write_certificate(ca, dir, role, name))
            .await
    }

    /// Connects without a certificate; requests have these values of `authorization`.
    async fn with_values(&self, values: &[&str]) -> Requester {
        let ca = self.principals.secured.dir.path().join("alloc-a1/ca.pem");
        let requester = self.connect_over(CaTransport::from_file(&ca).unwrap());
        requester.await.showing(values)
    }

    fn bearer(&self, principal: usize) -> String {
        self.principals.bearer(principal)
    }

    /// Returns a connection of each principal by its token, and one by its certificate; also one of
    /// a client without a principal.
    async fn principals(&self) -> Vec<(usize, Requester)> {
        let mut all = vec![(NONE, self.certified("client", "unlisted").await)];
        for right in 0..RIGHTS.len() {
            all.push((right, self.with_values(&[&self.bearer(right)]).await));
            let name = format!("p{right}");
            all.push((right, self.certified("client", &name).await));
        }
        all
    }

    async fn shutdown(self) {
        self.endpoint.shutdown().await;
        self.principals.secured.shutdown().await;
    }
}

/// A connection, and what its requests show.
struct Requester {
    caller: HttpCaller,
    authorization: Vec<String>,
}

impl Requester {
    fn showing(self, values: &[&str]) -> Requester {
        let authorization = values.iter().map(|value| (*value).to_owned()).collect();
        Requester {
            authorization,
            ..self
        }
    }

    async fn exchange(&mut self, sent: &Sent) -> HttpAnswer {
        let values: Vec<&str> = self.authorization.iter().map(String::as_str).collect();
        self.caller.send(&sent.with(&values)).await;
        self.caller.read_answer().await
    }

    /// Returns the last numbers of all uids of the namespaces that exist.
    async fn last_numbers(&mut self) -> Vec<serde_json::Value> {
        let mut all = Vec::new();
        for name in &NAMES[..2] {
            let uids = UIDS.map(|uid| uid.to_string()).join(",");
            let sent = format!("/v1/current-many?namespace={name}&uids={uids}");
            let answer = self.exchange(&Sent::get(sent)).await;
            all.push(answer.json()["items"].clone());
        }
        all
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_path_is_open_to_its_right_only() {
    let cluster = HttpCluster::start().await;
    let mut principals = cluster.principals().await;
    let mut operator = cluster.certified("admin", "alice").await;
    let mut server = cluster.certified("alloc", "a9").await;
    let mut stranger = cluster.with_values(&[]).await;
    // A row that the server has more, or less, needs a decision here.
    let rows: BTreeSet<_> = ROUTE_RULES.iter().map(|rule| rule.path).collect();
    assert_eq!(rows, PATHS.iter().map(|(path, _)| *path).collect());
    for (path, needed) in PATHS {
        let has_name = matches!(needed, Some(NEXT | CURRENT | RAISE));
        for sent in requests_for(path, NAMES[0]) {
            let before = operator.last_numbers().await;
            let answer = stranger.exchange(&sent).await;
            match needed {
                Some(_) => assert_refused(path, &answer),
                None => assert_eq!(answer.status, 200, "{sent:?}: {answer:?}"),
            }
            for (right, requester) in &mut principals {
                if needed.is_some_and(|needed| needed != *right) {
                    let answer = requester.exchange(&sent).await;
                    let who = format!("{} sends {sent:?}: {answer:?}", RIGHTS[*right]);
                    assert!(is_denied(path, &answer), "{who}");
                }
            }
            assert_eq!(operator.last_numbers().await, before, "{sent:?}");
            for (right, requester) in &mut principals {
                if needed.is_none_or(|needed| needed == *right) {
                    let answer = requester.exchange(&sent).await;
                    assert!(!is_denied(path, &answer), "{sent:?}: {answer:?}");
                }
            }
            // Roles of servers and operators count as without the file.
            for requester in [&mut operator, &mut server] {
                let answer = requester.exchange(&sent).await;
                assert!(!is_denied(path, &answer), "{sent:?}: {answer:?}");
            }
        }
        // A namespace that is not granted, and one that does not exist.
        if has_name {
            let before = operator.last_numbers().await;
            let [others, missing] = [NAMES[1], NAMES[2]].map(|name| requests_for(path, name));
            for (others, missing) in others.iter().zip(&missing) {
                for (_, requester) in &mut principals {
                    let [one, other] = [
                        requester.exchange(others).await,
                        requester.exchange(missing).await,
                    ];
                    assert!(is_denied(path, &one), "{others:?}: {one:?}");
                    assert_eq!(
                        comparable(&one, NAMES[1]),
                        comparable(&other, NAMES[2]),
                        "{path}"
                    );
                }
            }
            assert_eq!(operator.last_numbers().await, before, "{path}");
        }
    }
    // A path without a row exists for no caller.
    for requester in [&mut stranger, &mut operator] {
        for path in ["/v1/other", "/metrics/", "/page.html"] {
            let answer = requester.exchange(&Sent::get(path)).await;
            assert_eq!(answer.status, 404, "{path}: {answer:?}");
        }
    }
    cluster.shutdown().await;
}

/// Schedule: a proxy passes on the requests of many callers by one connection, with its own
/// certificate; it has checked one of two values, and the server judges by the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_with_a_wrong_identity_is_refused_everywhere() {
    let cluster = HttpCluster::start().await;
    let right = cluster.bearer(NEXT);
    let wrong = format!("Bearer {}", Secret::generate().unwrap().expose());
    let basic = right.replace("Bearer", "Basic");
    let values: [&[&str]; 6] = [
        &[&wrong],
        &[&right, &right],
        &[&right, &wrong],
        &[&wrong, &right],
        &[&basic],
        &[""],
    ];
    let mut refused = Vec::new();
    for values in values {
        refused.push(cluster.with_values(values).await);
        refused.push(cluster.certified("client", "p1").await.showing(values));
        refused.push(cluster.certified("admin", "alice").await.showing(values));
    }
    let mut operator = cluster.certified("admin", "alice").await;
    let before = operator.last_numbers().await;
    let began = Instant::now();
    let all = join_all(refused.iter_mut().map(async |requester| {
        let mut requests = 0;
        for (path, _) in PATHS {
            // The connection stays usable.
            let sent = requests_for(path, NAMES[0]).swap_remove(0);
            assert_refused(path, &requester.exchange(&sent).await);
            requests += 1;
        }
        requests
    }));
    let requests = all.await[0];
    let least = Duration::from_secs(requests);
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    assert_eq!(operator.last_numbers().await, before);
    cluster.shutdown().await;
}

/// Tinyid's clients show their token in a field.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_of_tinyid_is_judged_as_one_value() {
    let cluster = HttpCluster::start().await;
    let [right, none] = [NEXT, NONE].map(|principal| {
        let token = cluster.principals.tokens[principal].expose();
        format!("token={token}")
    });
    let wrong = format!("token={}", Secret::generate().unwrap().expose());
    let paths = PATHS.map(|(path, _)| path);
    let paths: Vec<_> = paths.into_iter().filter(|path| is_tinyid(path)).collect();
    assert_eq!(paths.len(), 4);
    let mut operator = cluster.certified("admin", "alice").await;
    let mut stranger = cluster.with_values(&[]).await;
    for path in &paths {
        for sent in requests_for(path, NAMES[0]) {
            // The token counts before the certificate.
            for requester in [&mut stranger, &mut operator] {
                let answer = requester.exchange(&sent.with_field(&right)).await;
                assert!(!is_denied(path, &answer), "{sent:?}: {answer:?}");
                let answer = requester.exchange(&sent.with_field(&none)).await;
                assert!(is_denied(path, &answer), "{sent:?}: {answer:?}");
            }
        }
    }
    let before = operator.last_numbers().await;
    let bearer = cluster.bearer(NEXT);
    let mut refused = Vec::new();
    for path in &paths {
        let in_query = |sent: &Sent| Sent {
            target: format!("{}?{right}", sent.target),
            ..sent.clone()
        };
        let requests = requests_for(path, NAMES[0]);
        let get = &requests[0];
        let post = &requests[1];
        for sent in [get, post] {
            let twice = sent.with_field(&right).with_field(&right);
            refused.push((*path, "", twice));
            refused.push((*path, "", sent.with_field(&right).with_field("token=")));
            refused.push((*path, "", sent.with_field(&wrong)));
            refused.push((*path, "", sent.with_field("token=")));
            refused.push((*path, "", sent.with_field("token=0f673adf")));
            refused.push((*path, &*bearer, sent.with_field(&right)));
            refused.push((*path, &*bearer, sent.with_field("token=")));
        }
        refused.push((*path, "", in_query(post).with_field(&right)));
        refused.push((*path, &*bearer, in_query(post)));
    }
    join_all(refused.iter().map(async |(path, bearer, sent)| {
        let values: Vec<&str> = [*bearer].into_iter().filter(|b| !b.is_empty()).collect();
        for requester in [
            cluster.with_values(&values).await,
            cluster.certified("client", "p1").await.showing(&values),
        ] {
            let (mut requester, began) = (requester, Instant::now());
            let answer = requester.exchange(sent).await;
            assert_refused(path, &answer);
            let waited = began.elapsed();
            assert!(waited >= Duration::from_secs(1), "{sent:?}: {waited:?}");
        }
    }))
    .await;
    assert_eq!(operator.last_numbers().await, before);
    cluster.shutdown().await;
}

/// Schedule: the server keeps the identity of a request for the next one of the connection, or
/// takes it from a part of the next one that has arrived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_of_a_pipeline_is_judged_by_its_own_token() {
    const CONNECTIONS: usize = 96;
    let cluster = HttpCluster::start().await;
    let [may, may_not] = [NEXT, CURRENT].map(|principal| cluster.bearer(principal));
    let wrong = format!("Bearer {}", Secret::generate().unwrap().expose());
    let get = Sent::get("/v1/next?namespace=orders&uid=1");
    let post = Sent::post("/v1/next", FORM, "namespace=orders&uid=1");
    // The first and the last need no call of the service, and the second of each kind does.
    let parts = [
        (get.with(&[&may]), 200),
        (get.with(&[]), 401),
        (post.with(&[&may]), 200),
        (post.with(&[]), 401),
        (get.with(&[&may_not]), 403),
        (get.with(&[&wrong]), 401),
        (get.with(&[&may]), 200),
    ];
    let mut ends = vec![0];
    for (part, _) in &parts {
        ends.push(ends[ends.len() - 1] + part.len());
    }
    let pipeline = parts.iter().map(|(part, _)| &**part).collect::<String>();
    // A request that is refused before its body has arrived is the last of its connection.
    let body_of_refused = ends[4] - post.body.len()..ends[4];
    let checked = (0..CONNECTIONS).map(async |first| {
        let mut requester = cluster.with_values(&[]).await;
        let mut taken = 0;
        for cut in (first..pipeline.len()).step_by(CONNECTIONS) {
            requester.caller.send(&pipeline[..cut]).await;
            let mut statuses = Vec::new();
            if body_of_refused.contains(&cut) {
                for (_, status) in &parts[..4] {
                    let answer = requester.caller.read_answer().await;
                    assert_eq!(answer.status, *status, "cut at {cut}");
                }
                assert_eq!(requester.caller.read_to_end().await, "", "cut at {cut}");
                requester = cluster.with_values(&[]).await;
                taken += 2;
                continue;
            }
            // The rest arrives after the answers to what is complete.
            for _ in ends[1..].iter().filter(|end| **end <= cut) {
                statuses.push(requester.caller.read_answer().await.status);
            }
            requester.caller.send(&pipeline[cut..]).await;
            while statuses.len() < parts.len() {
                statuses.push(requester.caller.read_answer().await.status);
            }
            let expected = parts.iter().map(|(_, status)| *status);
            assert_eq!(statuses, expected.collect::<Vec<u16>>(), "cut at {cut}");
            taken += 3;
        }
        taken
    });
    let taken: u64 = join_all(checked).await.into_iter().sum();
    assert!(taken > 2 * pipeline.len() as u64, "{taken}");
    let mut operator = cluster.certified("admin", "alice").await;
    let orders = &operator.last_numbers().await[0];
    assert_eq!(orders[1]["value"], 1 + taken, "{orders}");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_see_the_page_and_one_word_of_health() {
    let cluster = HttpCluster::start().await;
    let mut stranger = cluster.with_values(&[]).await;
    let mut with_status = cluster.with_values(&[&cluster.bearer(STATUS)]).await;
    let mut with_metrics = cluster.with_values(&[&cluster.bearer(METRICS)]).await;
    for path in ["/healthz", "/readyz"] {
        let sent = Sent::get(path);
        for requester in [&mut stranger, &mut with_metrics] {
            let answer = requester.exchange(&sent).await;
            assert_eq!((answer.status, &*answer.body), (200, "ok\n"), "{path}");
        }
        let answer = with_status.exchange(&sent).await;
        assert!(answer.body.starts_with("ok: process\n"), "{answer:?}");
    }

    // A refusal reads no body, and keeps the connection if the body is there.
    let take = Sent::post("/v1/next", JSON, r#"{"uid":1}"#);
    for _ in 0..2 {
        assert_refused("/v1/next", &stranger.exchange(&take).await);
        let answer = stranger.exchange(&Sent::get("/page.js")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let promised = "POST /v1/next HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 10000\r\nexpect: 100-continue\r\n\r\n";
    stranger.caller.send(promised).await;
    assert_refused("/v1/next", &stranger.caller.read_answer().await);

    // A caller without TLS learns what this port speaks.
    let mut plain = TcpStream::connect(cluster.endpoint.local_addr())
        .await
        .unwrap();
    let request = Sent::get("/").with(&[]);
    plain.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(TEST_TIMEOUT, plain.read_to_end(&mut answer)).await;
    read.unwrap().unwrap();
    assert_eq!(answer, HTTP_ANSWER_WITHOUT_TLS);

    // Without principals, the certificate that the handshake requires is enough.
    let store = &cluster.principals.secured.store;
    let own = cluster.principals.secured.dir.path().join("alloc-a1");
    let own = Arc::new(TlsDir::read(&own).unwrap());
    let transport =
        TlsTransport::new(Arc::new(TcpTransport), own).for_endpoint(HTTP_ANSWER_WITHOUT_TLS);
    let paths = routes::operator_routes(store.clone(), Access::by_role());
    let options = HttpOptions::new(any_port());
    let endpoint = HttpServer::start(options, &transport, paths).await.unwrap();
    for role in Role::ALL {
        let (ca, dir) = (
            &cluster.principals.secured.ca,
            cluster.principals.secured.dir.path(),
        );
        let transport = write_certificate(ca, dir, role.name(), "caller");
        let address = endpoint.local_addr().to_string();
        let mut requester = Requester {
            caller: HttpCaller::over(transport.connect(address).await.unwrap()),
            // No token is read.
            authorization: vec!["Bearer x".to_owned()],
        };
        let metrics = requester.exchange(&Sent::get("/metrics")).await;
        assert_eq!(metrics.status, 200, "{metrics:?}");
        let health = requester.exchange(&Sent::get("/healthz")).await;
        assert_eq!(health.body, "ok: process\n");
    }
    endpoint.shutdown().await;
    cluster.shutdown().await;
}

/// Returns a Chromium with a Node.js that controls it.
fn find_chromium() -> Option<String> {
    let is_there = |program: &str| {
        let run = std::process::Command::new(program)
            .arg("--version")
            .output();
        run.is_ok_and(|run| run.status.success())
    };
    let named = std::env::var("SEQSVR_CHROMIUM").ok();
    let mut all = named.into_iter().chain(["chromium".to_owned()]);
    all.find(|program| is_there(program))
        .filter(|_| is_there("node"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_has_a_field_for_a_token() {
    let Some(chromium) = find_chromium() else {
        return println!("SKIPPED: no chromium (Debian: chromium; SEQSVR_CHROMIUM), or no node");
    };
    let cluster = HttpCluster::start().await;
    let url = format!("https://{}/", cluster.endpoint.local_addr());
    let wrong = Secret::generate().unwrap();
    let [wrong, next, status] = [
        &wrong,
        &cluster.principals.tokens[NEXT],
        &cluster.principals.tokens[STATUS],
    ]
    .map(Secret::expose);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/page.cjs");
    let mut node = tokio::process::Command::new("node");
    node.args([script, "identify", &chromium, &url, wrong, next, status]);
    let ran = timeout(2 * TEST_TIMEOUT, node.output()).await;
    let ran = ran.unwrap().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    cluster.shutdown().await;
}
