//! Limits of an HTTP endpoint, and its close.
//!
//! Sends slow, idle, large and half requests over sockets, and measures when each is closed.

use std::time::{Duration, Instant};

use seqsvr_gateway::HttpOptions;
use seqsvr_test_support::in_process::{InProcessCluster, LEASE, any_port};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{HttpCaller, JSON, open_endpoint, open_endpoint_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_endpoint_enforces_limits_and_closes_in_order() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let options = HttpOptions {
        connections_max: 3,
        idle_timeout: Duration::from_secs(3),
        ..HttpOptions::new(any_port())
    };
    let endpoint = open_endpoint_with(&allocs[0], options).await;
    let address = endpoint.local_addr();
    let mut http = HttpCaller::connect(address).await;
    assert_eq!(http.get("/v1/next?uid=1").await.status, 200);
    // One that sends nothing and one that stops in a head; a fourth is over the limit.
    let silent = HttpCaller::connect(address).await;
    let mut half = HttpCaller::connect(address).await;
    half.send("GET /v1/next?uid=1 HT").await;
    wait_until("a rejection", TEST_TIMEOUT, async || {
        let response = HttpCaller::connect(address).await.read_to_end().await;
        (response.starts_with("HTTP/1.1 503 ") && response.ends_with("or wait")).then_some(())
    })
    .await;
    let began = Instant::now();
    assert_eq!(silent.read_to_end().await, "");
    half.read_to_end().await;
    // Idle after an answer.
    assert_eq!(http.read_to_end().await, "");
    assert!(began.elapsed() < Duration::from_secs(15));

    // Larger than the limit: by the declared length, or by the sent bytes.
    for (head, body) in [
        ("content-length: 100000", String::new()),
        (
            "transfer-encoding: chunked",
            format!("5000\r\n{}\r\n", " ".repeat(0x5000)),
        ),
    ] {
        let mut large = HttpCaller::connect(address).await;
        large
            .send(&format!(
                "POST /v1/next HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n{body}"
            ))
            .await;
        let response = large.read_answer().await;
        assert_eq!(response.status, 413, "{head}: {response:?}");
    }
    // A caller that shuts down its sending side is still answered.
    let mut half = HttpCaller::connect(address).await;
    half.send("GET /v1/next?uid=9&strict HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    half.stream.shutdown().await.unwrap();
    let response = half.read_to_end().await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let mut head = HttpCaller::connect(address).await;
    head.send(&format!(
        "GET /v1/next?key={} HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "k".repeat(70_000)
    ))
    .await;
    let response = head.read_answer().await;
    assert!(matches!(response.status, 414 | 431), "{response:?}");
    let mut other = HttpCaller::connect(address).await;
    other.send("*1\r\n$4\r\nPING\r\n").await;
    let response = other.read_to_end().await;
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");

    // An endpoint that closes answers the request that it has begun to receive.
    let mut last = HttpCaller::connect(address).await;
    assert_eq!(last.get("/v1/next?uid=1").await.status, 200);
    last.send("POST /v1/next HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{\"uid\"")
        .await;
    let mut idle = HttpCaller::connect(address).await;
    assert_eq!(idle.get("/v1/next?uid=1").await.status, 200);
    let closing = tokio::spawn(async move { endpoint.shutdown().await });
    assert_eq!(idle.read_to_end().await, "");
    last.send(":1}").await;
    let response = last.read_to_end().await;
    assert!(
        response.starts_with("HTTP/1.1 200 ") && response.contains("\"first\":4"),
        "{response}"
    );
    closing.await.unwrap();
    TcpStream::connect(address).await.unwrap_err();
    cluster.stop(&allocs).await;
}

/// The idle time counts from the last answer, even if parts of a head arrive, and not while a
/// request is being answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_idle_timeout_counts_head_pieces_but_not_served_requests() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let idle_timeout = Duration::from_millis(800);
    let options = HttpOptions {
        idle_timeout,
        ..HttpOptions::new(any_port())
    };
    let endpoint = open_endpoint_with(&allocs[0], options).await;
    let address = endpoint.local_addr();
    let pieces = async |mut http: HttpCaller, text: &str| -> HttpCaller {
        for piece in text.as_bytes().chunks(1) {
            tokio::time::sleep(idle_timeout / 8).await;
            // The endpoint may have closed the connection.
            if http.stream.write_all(piece).await.is_err() {
                break;
            }
        }
        http
    };
    let body = "{\"uid\":             1}";
    let mut http = HttpCaller::connect(address).await;
    http.send(&format!(
        "POST /v1/next HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ))
    .await;
    let began = Instant::now();
    let mut http = pieces(http, body).await;
    assert!(began.elapsed() > idle_timeout * 2, "long enough");
    assert_eq!(http.read_answer().await.status, 200);
    let mut head = pieces(http, "GET /v1/next?uid=1&more").await;
    let n = head.stream.read(&mut [0; 100]).await;
    assert!(matches!(n, Ok(0) | Err(_)), "an end, not {n:?}");
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

/// An answer that waits for its reader has its own timeout, however short the idle timeout is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_answer_read_late_is_complete() {
    const REQUESTS: usize = 16;
    const ITEMS: usize = 10_000;
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let idle_timeout = Duration::from_millis(400);
    let options = HttpOptions {
        idle_timeout,
        ..HttpOptions::new(any_port())
    };
    let endpoint = open_endpoint_with(&allocs[0], options).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let stream = socket.connect(endpoint.local_addr()).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let uids: Vec<usize> = (0..ITEMS).collect();
    let body = json!({ "uids": uids }).to_string();
    let sender = tokio::spawn(async move {
        let length = body.len();
        let request = format!(
            "POST /v1/next-many HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        for _ in 0..REQUESTS {
            write.write_all(request.as_bytes()).await.unwrap();
        }
        write
    });
    // More than the buffers hold, so that the endpoint waits for the reader.
    let mut taken = vec![0; 1 << 20];
    read.read_exact(&mut taken).await.unwrap();
    tokio::time::sleep(idle_timeout * 4).await;
    let items = |text: &[u8]| String::from_utf8_lossy(text).matches("epoch").count();
    let whole = async {
        let mut found = items(&taken);
        while found < REQUESTS * ITEMS {
            let before = taken.len();
            while taken.len() < before + (1 << 20) && found < REQUESTS * ITEMS {
                let n = read.read_buf(&mut taken).await.unwrap();
                assert!(n > 0, "closed after {} items", items(&taken));
                if taken.ends_with(b"]}\n") {
                    found = items(&taken);
                }
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, whole)
        .await
        .expect("all");
    drop(sender.await.unwrap());
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Requests whose bodies do not arrive hold no memory that others need.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_bodies_that_never_arrive_block_no_other_request() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut silent = Vec::new();
    for n in 0..100 {
        let mut http = HttpCaller::connect(endpoint.local_addr()).await;
        let length = match n % 2 {
            0 => "transfer-encoding: chunked",
            _ => "content-length: 4000000",
        };
        http.send(&format!(
            "POST /v1/next-many HTTP/1.1\r\nhost: localhost\r\n{length}\r\n\r\n"
        ))
        .await;
        silent.push(http);
    }
    let mut http = HttpCaller::connect(endpoint.local_addr()).await;
    let keys: Vec<String> = (0..10_000).map(|n| format!("{n:0128}")).collect();
    let body = json!({ "keys": keys }).to_string();
    for _ in 0..3 {
        let response = http.post("/v1/next-many", JSON, &body).await;
        assert_eq!(response.status, 200, "{:.200}", response.body);
    }
    drop(silent);
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}
