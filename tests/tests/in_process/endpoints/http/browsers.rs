//! Requests that a web page makes a browser send, and the headers that keep answers out of pages.
//!
//! Attack: a page of another site resolves its own name to this machine, or links to the endpoint.
//! Each test checks that no number was taken.

use std::net::SocketAddr;

use seqsvr_alloc::AllocServer;
use seqsvr_gateway::{HttpOptions, HttpServer, http};
use seqsvr_net::TcpTransport;
use seqsvr_test_support::in_process::{InProcessCluster, LEASE, any_port};

use super::{HttpAnswer, HttpCaller, alloc_operator_routes};

/// The headers of every answer.
const HEADERS: [&str; 4] = [
    "x-content-type-options: nosniff\r\n",
    "cache-control: no-store\r\n",
    "cross-origin-resource-policy: same-origin\r\n",
    "referrer-policy: no-referrer\r\n",
];
/// The content security policy of every answer that is no part of the page.
const POLICY: &str = "content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n";
/// Paths that take or raise numbers of the keys `uid=0` and `key=a`, with the query of each.
const NUMBER_PATHS: [&str; 8] = [
    "/v1/next?key=a",
    "/v1/next?key=a&timeout_ms=5000",
    "/v1/next-many?keys=a",
    "/api/segment/get/default",
    "/tinyid/id/nextId?bizType=default",
    "/tinyid/id/nextIdSimple?bizType=default",
    "/tinyid/id/nextSegmentId?bizType=default",
    "/tinyid/id/nextSegmentIdSimple?bizType=default",
];

/// Opens an endpoint with all paths of an AllocSvr.
async fn open_full_endpoint(alloc: &AllocServer, options: HttpOptions) -> HttpServer {
    let routes = http::number_routes(alloc.sequence())
        .merge(http::dashboard_routes(
            alloc.sequence(),
            alloc.admin(),
            alloc.transport(),
        ))
        .merge(alloc_operator_routes(alloc));
    HttpServer::start(options, &TcpTransport, routes)
        .await
        .unwrap()
}

/// Sends a request with these header lines on a connection of its own.
async fn send_request(at: SocketAddr, request: &str, headers: &[&str]) -> HttpAnswer {
    let mut http = HttpCaller::connect(at).await;
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    http.send(&format!("{request} HTTP/1.1\r\n{headers}\r\n"))
        .await;
    http.read_answer().await
}

/// Checks that no number of `uid=0` and `key=a` was taken.
async fn assert_untouched(at: SocketAddr) {
    for key in ["uid=0", "key=a"] {
        let path = format!("GET /v1/current?{key}");
        let answer = send_request(at, &path, &["host: localhost"]).await;
        assert_eq!(answer.json()["kind"], "never", "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_for_another_host_gets_421_on_every_path() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let options = HttpOptions {
        hosts: vec!["Seqsvr.Internal".parse().unwrap()],
        ..HttpOptions::new(any_port())
    };
    let endpoint = open_full_endpoint(&allocs[0], options).await;
    let at = endpoint.local_addr();
    let other_paths = ["/", "/v1/cluster", "/metrics", "/healthz", "/nothing"];
    for path in NUMBER_PATHS.into_iter().chain(other_paths) {
        let get = format!("GET {path}");
        for host in [
            "host: evil.example",
            "host: evil.example:7780",
            "host: 0.0.0.0:7780",
            "host: [::]:7780",
            "host: 10.0.0.5",
        ] {
            // Also with everything that other checks accept.
            let answer = send_request(at, &get, &[host, "authorization: Bearer x"]).await;
            assert_eq!(answer.status, 421, "{path} {host}: {answer:?}");
            assert!(answer.body.contains("--http-host"), "{answer:?}");
        }
        for headers in [
            &[][..],
            &["host: localhost", "host: localhost"],
            &["host: localhost", "host: evil.example"],
            &["host: "],
        ] {
            let answer = send_request(at, &get, headers).await;
            assert_eq!(answer.status, 400, "{path} {headers:?}: {answer:?}");
        }
        let absolute = format!("GET http://evil.example{path}");
        let answer = send_request(at, &absolute, &["host: localhost"]).await;
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
        let answer = send_request(at, &absolute, &["host: evil.example"]).await;
        assert_eq!(answer.status, 421, "{path}: {answer:?}");
    }
    let post = send_request(
        at,
        "POST /v1/raise-to?uid=0&value=9",
        &["host: evil.example"],
    )
    .await;
    assert_eq!(post.status, 421, "{post:?}");
    assert_untouched(at).await;
    for host in ["localhost", "127.0.0.1:1", "seqsvr.internal:7780"] {
        let answer = send_request(at, "GET /v1/next?uid=5", &[&format!("host: {host}")]).await;
        assert_eq!(answer.status, 200, "{host}: {answer:?}");
        let absolute = format!("GET http://{host}/metrics");
        let answer = send_request(at, &absolute, &[&format!("host: {host}")]).await;
        assert_eq!(answer.status, 200, "{host}: {answer:?}");
    }
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_of_another_site_takes_and_raises_no_number() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_full_endpoint(&allocs[0], HttpOptions::new(any_port())).await;
    let at = endpoint.local_addr();
    let own_origin = format!("origin: http://{at}");
    let own_host = format!("host: {at}");
    for path in NUMBER_PATHS {
        for header in [
            "referer: http://evil.example/",
            "user-agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/140",
            "sec-fetch-mode: no-cors",
            "purpose: prefetch",
            "sec-purpose: prefetch",
            &own_origin,
        ] {
            let answer = send_request(at, &format!("GET {path}"), &[&own_host, header]).await;
            assert_eq!(answer.status, 403, "{path} {header}: {answer:?}");
            assert!(answer.body.contains("by POST"), "{answer:?}");
        }
        for origin in ["origin: http://evil.example", "origin: null"] {
            for method in ["GET", "POST"] {
                let request = format!("{method} {path}");
                let headers = [&*own_host, origin, "authorization: Bearer x"];
                let answer = send_request(at, &request, &headers).await;
                assert_eq!(answer.status, 403, "{request} {origin}: {answer:?}");
            }
        }
    }
    for (request, headers, status) in [
        ("GET /v1/raise-to?uid=0&value=9", &[][..], 405),
        ("HEAD /v1/raise-to?uid=0&value=9", &[], 405),
        (
            "POST /v1/raise-to?uid=0&value=9",
            &["origin: http://evil.example"],
            403,
        ),
    ] {
        let mut all = vec![&*own_host, "connection: close"];
        all.extend_from_slice(headers);
        let headers: String = all.iter().map(|line| format!("{line}\r\n")).collect();
        let mut http = HttpCaller::connect(at).await;
        http.send(&format!("{request} HTTP/1.1\r\n{headers}\r\n"))
            .await;
        let answer = http.read_to_end().await;
        let begin = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&begin), "{request}: {answer}");
    }
    assert_untouched(at).await;
    // What a browser may do: post from a page of this endpoint, and read.
    let agent = "user-agent: Mozilla/5.0";
    let headers = [&*own_host, &own_origin, agent];
    for request in ["POST /v1/next?key=a", "GET /v1/current?key=a", "GET /"] {
        let answer = send_request(at, request, &headers).await;
        assert_eq!(answer.status, 200, "{request}: {answer:?}");
    }
    // Credentials, which a page of another site cannot add.
    let headers = [&*own_host, agent, "authorization: Bearer x"];
    let answer = send_request(at, "GET /v1/next?key=a", &headers).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_has_the_security_headers() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let options = HttpOptions {
        connections_max: 2,
        ..HttpOptions::new(any_port())
    };
    let endpoint = open_full_endpoint(&allocs[0], options).await;
    let mut http = HttpCaller::connect(endpoint.local_addr()).await;
    let host = "host: localhost\r\n";
    for (request, headers, status) in [
        ("GET /v1/next?key=a", host, 200),
        ("GET /v1/next?key=a&strict", host, 200),
        ("GET /v1/next-many?keys=a", host, 200),
        ("GET /v1/current?key=a", host, 200),
        ("GET /v1/current-many?keys=a", host, 200),
        ("POST /v1/raise-to?key=a&value=9", host, 200),
        ("GET /v1/openapi.json", host, 200),
        ("GET /v1/slots", host, 200),
        ("GET /v1/cluster", host, 200),
        ("GET /v1/route?uid=1", host, 200),
        ("GET /api/segment/get/default", host, 200),
        ("GET /tinyid/id/nextId?bizType=default", host, 200),
        ("GET /tinyid/id/nextIdSimple?bizType=default", host, 200),
        ("GET /tinyid/id/nextSegmentId?bizType=default", host, 200),
        (
            "GET /tinyid/id/nextSegmentIdSimple?bizType=default",
            host,
            200,
        ),
        ("GET /metrics", host, 200),
        ("GET /healthz", host, 200),
        ("GET /", host, 200),
        ("GET /page.css", host, 200),
        ("GET /page.js", host, 200),
        ("GET /v1/next?key=a&no=1", host, 400),
        ("GET /v1/next?key=a", "", 400),
        (
            "GET /v1/next?key=a",
            "host: localhost\r\norigin: null\r\n",
            403,
        ),
        ("GET /nothing", host, 404),
        ("GET /api/segment/get/", host, 404),
        ("DELETE /v1/next?key=a", host, 405),
        ("GET /v1/raise-to?key=a&value=9", host, 405),
        ("POST /metrics", host, 405),
        ("OPTIONS /v1/next", host, 405),
        ("GET /v1/next?key=a", "host: evil.example\r\n", 421),
        ("GET /v1/next?key=a&count=0", host, 422),
        ("GET /api/segment/get/nosuch", host, 500),
        ("GET /tinyid/id/nextId?bizType=nosuch", host, 200),
    ] {
        http.send(&format!("{request} HTTP/1.1\r\n{headers}\r\n"))
            .await;
        let answer = http.read_answer().await;
        assert_eq!(answer.status, status, "{request}: {answer:?}");
        let is_page = ["GET /", "GET /page.css", "GET /page.js"].contains(&request);
        check_headers(&answer.head, is_page, request);
    }
    // Ready or not.
    let ready = http.get("/readyz").await;
    check_headers(&ready.head, false, "/readyz");
    // One more connection than the limit.
    let _second = HttpCaller::connect(endpoint.local_addr()).await;
    let third = HttpCaller::connect(endpoint.local_addr()).await;
    let rejection = third.read_to_end().await;
    assert!(rejection.starts_with("HTTP/1.1 503 "), "{rejection}");
    check_headers(&rejection, false, "503");
    // A body that is larger than the limit. The endpoint closes the connection after the answer.
    http.send(&format!(
        "POST /v1/next HTTP/1.1\r\n{host}content-length: 100000\r\n\r\n"
    ))
    .await;
    let large = http.read_answer().await;
    assert_eq!(large.status, 413);
    check_headers(&large.head, false, "413");
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Checks the headers that every answer has, each once. A part of the page has a policy of its own.
fn check_headers(head: &str, is_page: bool, request: &str) {
    for header in HEADERS {
        assert_eq!(head.matches(header).count(), 1, "{request}: {head}");
    }
    let policies = head.matches("content-security-policy: ").count();
    assert_eq!(policies, 1, "{request}: {head}");
    assert_eq!(head.contains(POLICY), !is_page, "{request}: {head}");
    for forbidden in ["access-control-", "server: ", "set-cookie: "] {
        assert!(!head.contains(forbidden), "{request}: {head}");
    }
}
