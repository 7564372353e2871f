//! Limits of the Redis endpoint: connections, idle time and malformed requests.
//!
//! Fault: callers that break a limit. Their connections end with the reason, and others are served.

use std::time::{Duration, Instant};

use seqsvr_gateway::RedisOptions;
use seqsvr_test_support::in_process::{InProcessCluster, LEASE, any_port};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tokio::net::TcpStream;

use super::open_endpoint_with;
use super::resp_caller::RespCaller;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_endpoint_enforces_limits_and_closes_in_order() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_endpoint_with(
        &allocs[0],
        RedisOptions {
            connections_max: 3,
            idle_timeout: Some(Duration::from_secs(3)),
            ..RedisOptions::new(any_port())
        },
    )
    .await;
    let address = endpoint.local_addr();
    let mut redis = RespCaller::connect(address).await;
    assert_eq!(redis.run("incr a").await, ":1\r\n");
    let mut other = RespCaller::connect(address).await;
    let hello = other.run("hello 2 auth default secret").await;
    assert!(hello.starts_with("*14\r\n"), "{hello}");
    // A third connection that sends nothing; a fourth is over the limit.
    let silent = RespCaller::connect(address).await;
    let rejection = wait_until("a rejection", TEST_TIMEOUT, async || {
        let received = RespCaller::connect(address).await.read_to_end().await;
        (received == "-ERR max number of clients reached (--redis-connections-max)\r\n")
            .then_some(())
    });
    rejection.await;
    // A malformed request gets an error, after the earlier commands were answered.
    other.send(b"incr a\r\n*1\r\n:5\r\n").await;
    let received = other.read_to_end().await;
    assert_eq!(
        received,
        ":2\r\n-ERR Protocol error: expected '$', got ':'\r\n"
    );
    // Idle and half a request: both are closed in time.
    let began = Instant::now();
    assert_eq!(silent.read_to_end().await, "");
    assert!(began.elapsed() < Duration::from_secs(15));
    let mut half = RespCaller::connect(address).await;
    half.send(b"ping\r\n*2\r\n$4\r\nINC").await;
    let received = half.read_to_end().await;
    assert!(received.starts_with("+PONG\r\n"), "{received}");
    // An endpoint that closes answers the commands that it has received.
    let mut last = RespCaller::connect(address).await;
    last.run("ping").await;
    last.send("incr a\r\n".repeat(1_000).as_bytes()).await;
    let (received, ()) = tokio::join!(last.read_to_end(), endpoint.shutdown());
    let answered = received.lines().count();
    assert!(
        received.ends_with("\r\n") && answered <= 1_000,
        "{received:?}"
    );
    TcpStream::connect(address).await.unwrap_err();
    cluster.stop(&allocs).await;
}
