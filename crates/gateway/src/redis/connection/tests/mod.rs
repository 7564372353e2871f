//! Limits of one Redis connection: times, bytes held, and other protocols. The tests run over an
//! in-memory socket, most of them with paused time.

mod key_properties;
mod session_commands;
mod start_values;
mod transactions;

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::test_util::{NoopSequence, local_operator};

/// Serves a connection over a socket that buffers `socket_bytes` bytes.
fn spawn_connection(
    shared: &Arc<RedisShared>,
    socket_bytes: usize,
) -> (DuplexStream, JoinHandle<&'static str>) {
    spawn_connection_until(shared, socket_bytes, CancellationToken::new())
}

/// Serves a connection over a socket that buffers `socket_bytes` bytes, until a shutdown.
fn spawn_connection_until(
    shared: &Arc<RedisShared>,
    socket_bytes: usize,
    shutdown: CancellationToken,
) -> (DuplexStream, JoinHandle<&'static str>) {
    spawn_connection_to(NoopSequence::default(), shared, socket_bytes, shutdown)
}

/// Serves a connection to a service over a socket that buffers `socket_bytes` bytes, until a
/// shutdown.
fn spawn_connection_to(
    sequence: impl LocalSequence,
    shared: &Arc<RedisShared>,
    socket_bytes: usize,
    shutdown: CancellationToken,
) -> (DuplexStream, JoinHandle<&'static str>) {
    let (server_end, client_end) = duplex(socket_bytes);
    let shared = shared.clone();
    let served = tokio::spawn(async move {
        let connection = RedisConnection {
            sequence: &sequence,
            caller: local_operator(),
            shared: &shared,
            batch_items_max: 1_000,
            idle_timeout: Some(Duration::from_secs(100)),
            local: ([127, 0, 0, 1], 6_380).into(),
            shutdown,
        };
        let share = ConnectionQuota::new(seqsvr_net::ConnectionPeer::plaintext(
            ([127, 0, 0, 1], 1).into(),
        ));
        connection
            .run(Box::new(server_end), share)
            .await
            .unwrap_or("an error")
    });
    (client_end, served)
}

fn new_shared() -> Arc<RedisShared> {
    Arc::new(RedisShared::new(None, 10_000, 6_380))
}

async fn read_text(client_end: &mut DuplexStream, bytes: usize) -> String {
    let mut read = vec![0; bytes];
    client_end.read_exact(&mut read).await.unwrap();
    String::from_utf8(read).unwrap()
}

#[tokio::test(start_paused = true)]
async fn connection_with_incomplete_request_is_closed_in_time() {
    let (mut client_end, served) = spawn_connection(&new_shared(), 1 << 16);
    client_end.write_all(b"PING\r\nPIN").await.unwrap();
    let began = Instant::now();
    let mut answer = String::new();
    client_end.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("+PONG\r\n-ERR Protocol error: the request was not received"));
    assert!(began.elapsed() >= REQUEST_READ_TIMEOUT && began.elapsed() < 2 * REQUEST_READ_TIMEOUT);
    assert_eq!(served.await.unwrap(), "request not received in time");
}

/// Each request arrives within a second, though the last one is never complete.
#[tokio::test(start_paused = true)]
async fn connection_with_continuous_requests_does_not_time_out() {
    let (mut client_end, _served) = spawn_connection(&new_shared(), 1 << 16);
    client_end.write_all(b"PI").await.unwrap();
    for _ in 0..40 {
        sleep(Duration::from_secs(1)).await;
        client_end.write_all(b"NG\r\nPI").await.unwrap();
        assert_eq!(read_text(&mut client_end, 7).await, "+PONG\r\n");
    }
}

/// The connection is closed in time even if the client sends bytes.
#[tokio::test(start_paused = true)]
async fn connection_that_reads_no_replies_is_closed_in_time() {
    let shared = new_shared();
    let (mut client_end, served) = spawn_connection(&shared, 1_000);
    let began = Instant::now();
    let text = "x".repeat(900);
    let sending = async {
        loop {
            if client_end
                .write_all(format!("ECHO {text}\r\n").as_bytes())
                .await
                .is_err()
            {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(Duration::from_secs(100), sending)
        .await
        .expect("it is closed");
    assert_eq!(served.await.unwrap(), "peer reads no replies");
    assert!(
        began.elapsed() >= WRITE_STALL_TIMEOUT,
        "{:?}",
        began.elapsed()
    );
    assert_eq!(shared.buffers.held_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_closed_in_time() {
    let (mut client_end, served) = spawn_connection(&new_shared(), 1_000);
    let began = Instant::now();
    let talking = async {
        // An empty line is no command.
        while client_end.write_all(b"\r\n").await.is_ok() {
            sleep(Duration::from_secs(7)).await;
        }
    };
    timeout(Duration::from_secs(200), talking)
        .await
        .expect("it is closed");
    assert_eq!(served.await.unwrap(), "idle timeout");
    assert!(began.elapsed() >= Duration::from_secs(100));
}

/// A client that always reads a little late gets large replies to short requests: the connection
/// keeps no sent bytes, and bounds the unsent bytes.
#[tokio::test]
async fn connection_with_slow_reader_holds_bounded_bytes() {
    let shared = new_shared();
    let (client_end, served) = spawn_connection(&shared, 50_000);
    let (mut reader, mut writer) = tokio::io::split(client_end);
    let sending = tokio::spawn(async move {
        for _ in 0..2_000 {
            writer.write_all(&b"INFO\r\n".repeat(100)).await.unwrap();
        }
        writer.shutdown().await.unwrap();
    });
    // The client sends as many requests as it may before it reads any reply.
    let waiting = async {
        while shared.buffers.held_bytes() < UNSENT_BYTES_MAX / 2 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = timeout(Duration::from_secs(20), waiting).await;
    waited.expect("answers wait");
    let (mut all, mut reserved_max, mut bytes) = (0, 0, vec![0; 10_000]);
    loop {
        let n = reader.read(&mut bytes).await.unwrap();
        if n == 0 {
            break;
        }
        all += n;
        reserved_max = reserved_max.max(shared.buffers.held_bytes());
    }
    sending.await.unwrap();
    served.await.unwrap();
    assert!(all > 200_000 * 200, "{all} bytes of answers");
    assert!(
        reserved_max > 0 && reserved_max < 4 * UNSENT_BYTES_MAX,
        "{reserved_max} bytes reserved"
    );
    assert_eq!(shared.buffers.held_bytes(), 0);
}

#[tokio::test]
async fn connection_with_http_request_is_closed_without_delay() {
    let (mut client_end, served) = spawn_connection(&new_shared(), 1 << 16);
    client_end
        .write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nPING\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    client_end.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "-ERR this is not HTTP\r\n");
    drop(client_end);
    served.await.unwrap();
}

const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

fn new_shared_with_password() -> Arc<RedisShared> {
    Arc::new(RedisShared::new(Some("secret".to_owned()), 10_000, 6_380))
}

/// Asserts that an answer arrives this many seconds after the connection began, and not earlier.
async fn expect_answer(client_end: &mut DuplexStream, began: Instant, answer: &str, seconds: u64) {
    assert_eq!(read_text(client_end, answer.len()).await, answer);
    assert_eq!(began.elapsed().as_secs(), seconds, "{answer}");
}

/// The commands after a wrong password wait for its answer; other connections do not.
#[tokio::test(start_paused = true)]
async fn wrong_password_is_answered_after_a_second_and_the_third_closes() {
    let shared = new_shared_with_password();
    let (mut client_end, served) = spawn_connection(&shared, 1 << 16);
    let began = Instant::now();
    client_end
        .write_all(
            b"PING\r\nAUTH a\r\nPING\r\nHELLO 3 AUTH default b\r\nAUTH secret\r\nPING\r\nRESET\r\nAUTH default c\r\nAUTH secret\r\n",
        )
        .await
        .unwrap();
    let noauth = "-NOAUTH Authentication required.\r\n";
    expect_answer(&mut client_end, began, noauth, 0).await;
    let (mut other_end, _other) = spawn_connection(&shared, 1 << 16);
    other_end.write_all(b"AUTH secret\r\n").await.unwrap();
    expect_answer(&mut other_end, began, "+OK\r\n", 0).await;
    expect_answer(&mut client_end, began, WRONGPASS, 1).await;
    expect_answer(&mut client_end, began, noauth, 1).await;
    expect_answer(&mut client_end, began, WRONGPASS, 2).await;
    expect_answer(&mut client_end, began, "+OK\r\n+PONG\r\n+RESET\r\n", 2).await;
    expect_answer(&mut client_end, began, WRONGPASS, 3).await;
    let mut rest = String::new();
    client_end.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "");
    drop(client_end);
    assert_eq!(served.await.unwrap(), "too many wrong passwords");
}

/// Schedule: a caller sends a guess, infers from the missing answer that it is wrong, and connects
/// again. Its place among the connections is free only after the delay.
#[tokio::test(start_paused = true)]
async fn wrong_password_keeps_the_connection_of_a_peer_that_is_gone() {
    let began = Instant::now();
    let (mut client_end, served) = spawn_connection(&new_shared_with_password(), 1 << 16);
    client_end.write_all(b"PING\r\nAUTH a\r\n").await.unwrap();
    drop(client_end);
    served.await.unwrap();
    assert!(
        began.elapsed() >= WRONG_SECRET_DELAY,
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_the_delay_of_a_wrong_password() {
    let shutdown = CancellationToken::new();
    let shared = new_shared_with_password();
    let (mut client_end, served) = spawn_connection_until(&shared, 1 << 16, shutdown.clone());
    client_end
        .write_all(b"PING\r\nAUTH a\r\nAUTH b\r\n")
        .await
        .unwrap();
    read_text(
        &mut client_end,
        "-NOAUTH Authentication required.\r\n".len(),
    )
    .await;
    let began = Instant::now();
    shared.begin_shutdown();
    shutdown.cancel();
    let mut answer = String::new();
    client_end.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, WRONGPASS.repeat(2));
    assert!(
        began.elapsed() < WRONG_SECRET_DELAY,
        "{:?}",
        began.elapsed()
    );
    drop(client_end);
    assert_eq!(served.await.unwrap(), "server shutdown");
}
