//! Limits of an HTTP endpoint, and its close.
//!
//! Sends slow, idle, large and half requests over sockets, and measures when each is closed.

use std::time::{Duration, Instant};

use seqsvr_gateway::HttpOptions;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{Http, JSON, open, open_with};
use crate::harness::{Cluster, D, PATIENCE, any, until};

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
    // One that sends nothing and one that stops in a head; a fourth is over the limit.
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

    // Larger than the limit: by the declared length, or by the sent bytes.
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
    // A caller that shuts down its sending side is still answered.
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

    // An endpoint that closes answers the request that it has begun to receive.
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

/// The idle time counts from the last answer, even if parts of a head arrive, and not while a
/// request is being answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_in_pieces_is_idle_and_a_request_that_is_answered_is_not() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    let idle_max = Duration::from_millis(800);
    let options = HttpOptions {
        idle_max,
        ..HttpOptions::new(any())
    };
    let door = open_with(&allocs[0], options, None).await;
    let at = door.local_addr();
    let pieces = async |mut http: Http, text: &str| -> Http {
        for piece in text.as_bytes().chunks(1) {
            tokio::time::sleep(idle_max / 8).await;
            // The endpoint may have closed the connection.
            if http.stream.write_all(piece).await.is_err() {
                break;
            }
        }
        http
    };
    let body = "{\"uid\":             1}";
    let mut http = Http::connect(at).await;
    http.send(&format!(
        "POST /v1/next HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ))
    .await;
    let began = Instant::now();
    let mut http = pieces(http, body).await;
    assert!(began.elapsed() > idle_max * 2, "long enough");
    assert_eq!(http.answer().await.status, 200);
    let mut head = pieces(http, "GET /v1/next?uid=1&more").await;
    let n = head.stream.read(&mut [0; 100]).await;
    assert!(matches!(n, Ok(0) | Err(_)), "an end, not {n:?}");
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

/// An answer that waits for its reader has its own timeout, however short the idle timeout is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_taken_late_is_whole() {
    const REQUESTS: usize = 16;
    const ITEMS: usize = 10_000;
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    let idle_max = Duration::from_millis(400);
    let options = HttpOptions {
        idle_max,
        ..HttpOptions::new(any())
    };
    let door = open_with(&allocs[0], options, None).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let stream = socket.connect(door.local_addr()).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let uids: Vec<usize> = (0..ITEMS).collect();
    let body = json!({ "uids": uids }).to_string();
    let asking = tokio::spawn(async move {
        let length = body.len();
        let request = format!(
            "POST /v1/next-many HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        for _ in 0..REQUESTS {
            write.write_all(request.as_bytes()).await.unwrap();
        }
        write
    });
    // More than the buffers hold, so that the endpoint waits for the reader.
    let mut taken = vec![0; 1 << 20];
    read.read_exact(&mut taken).await.unwrap();
    tokio::time::sleep(idle_max * 4).await;
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
    tokio::time::timeout(PATIENCE, whole).await.expect("all");
    drop(asking.await.unwrap());
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Requests whose bodies do not arrive hold no memory that others need.
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

/// A browser whose DNS maps a foreign name to this machine.
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
