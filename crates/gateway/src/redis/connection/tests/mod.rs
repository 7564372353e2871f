//! Limits of one Redis connection: times, bytes held, and other protocols. The tests run over an
//! in-memory socket, most of them with paused time.

mod identities;
mod key_properties;
mod session_commands;
mod start_values;
mod transactions;

use std::sync::Arc;
use std::task::{Context, ready};

use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::test_util::NoopSequence;

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
    let peer = ConnectionPeer::plaintext(([127, 0, 0, 1], 1).into());
    spawn_connection_from(peer, sequence, shared, socket_bytes, shutdown)
}

/// Serves a connection from `peer` to a service over a socket that buffers `socket_bytes` bytes,
/// until a shutdown.
fn spawn_connection_from(
    peer: ConnectionPeer,
    sequence: impl LocalSequence,
    shared: &Arc<RedisShared>,
    socket_bytes: usize,
    shutdown: CancellationToken,
) -> (DuplexStream, JoinHandle<&'static str>) {
    let (server_end, client_end) = duplex(socket_bytes);
    let served = serve_stream(peer, sequence, shared, server_end, shutdown);
    (client_end, served)
}

/// Serves a connection over any stream.
fn serve_stream(
    peer: ConnectionPeer,
    sequence: impl LocalSequence,
    shared: &Arc<RedisShared>,
    stream: impl ByteStream + 'static,
    shutdown: CancellationToken,
) -> JoinHandle<&'static str> {
    let shared = shared.clone();
    tokio::spawn(async move {
        let connection = RedisConnection {
            sequence: &sequence,
            peer,
            shared: &shared,
            batch_items_max: 1_000,
            idle_timeout: Some(Duration::from_secs(100)),
            local: ([127, 0, 0, 1], 6_380).into(),
            shutdown,
        };
        let served = connection.run(Box::new(stream)).await;
        served.unwrap_or("an error")
    })
}

fn new_shared() -> Arc<RedisShared> {
    Arc::new(RedisShared::new(10_000, 6_380))
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

/// A stream that takes bytes while it cannot send them, as TLS does: only a later write or flush
/// sends them.
struct HoldingStream {
    inner: DuplexStream,
    held: Vec<u8>,
}

impl HoldingStream {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let sent = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.held))?;
            self.held.drain(..sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for HoldingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for HoldingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(cx))?;
        self.held.extend(buf);
        let _ = self.poll_send(cx)?;
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Plays the schedule of `socket`. A client that then reads nothing is closed in time as well.
#[tokio::test(start_paused = true)]
async fn replies_that_the_stream_holds_are_sent() {
    let echo = format!("ECHO {}\r\n", "x".repeat(900));
    let answer = format!("$900\r\n{}\r\n", "x".repeat(900));
    for reads in [true, false] {
        let (server_end, mut client_end) = duplex(1_000);
        let stream = HoldingStream {
            inner: server_end,
            held: Vec::new(),
        };
        let local = ConnectionPeer::plaintext(([127, 0, 0, 1], 1).into());
        let (shared, stop) = (new_shared(), CancellationToken::new());
        let served = serve_stream(local, NoopSequence::default(), &shared, stream, stop);
        for _ in 0..3 {
            client_end.write_all(echo.as_bytes()).await.unwrap();
        }
        let began = Instant::now();
        sleep(Duration::from_secs(1)).await;
        if reads {
            let answers = read_text(&mut client_end, 3 * answer.len()).await;
            assert_eq!(answers, answer.repeat(3));
            assert_eq!(began.elapsed(), Duration::from_secs(1));
        } else {
            assert_eq!(served.await.unwrap(), "peer reads no replies");
            assert!(began.elapsed() >= WRITE_STALL_TIMEOUT);
        }
    }
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
