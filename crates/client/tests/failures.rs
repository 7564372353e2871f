//! Failures: slots without an owner, dead and silent servers, deadlines, rejections.

mod fake;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fake::{FakeAlloc, bind_listeners, new_client, routing_table, unused_address};
use futures::FutureExt;
use futures::future::BoxFuture;
use seqsvr_client::{Client, ClientOptions, Code, ErrorKind, Key, Reason};
use seqsvr_net::{ByteStream, ChannelPool, Listener, Transport};
use seqsvr_proto::error::RpcError;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpListener;

#[tokio::test]
async fn call_to_slot_without_owner_waits() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let free = routing_table(5, |_| None);
    let node = FakeAlloc::start(listener_a, &Arc::default(), &free);
    let client = new_client(&[&address_a]);
    let mut wait_status = client.wait_status();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.default_namespace().next(7u64).await }
    });
    let status = wait_status
        .wait_for(|t| t.is_some())
        .await
        .unwrap()
        .clone()
        .unwrap();
    assert!(
        status.contains("has no owner yet (takeover in progress)"),
        "{status}"
    );
    *node.table.lock() = routing_table(6, |_| Some((address_a.clone(), 1)));
    assert_eq!(call.await.unwrap().unwrap().first, 1);
    assert_eq!(*client.wait_status().borrow(), None);
}

#[tokio::test]
async fn dead_configured_server_is_skipped() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let routes = routing_table(5, |_| Some((address_a.clone(), 1)));
    let _node = FakeAlloc::start(listener_a, &Arc::default(), &routes);
    let (x, y) = (unused_address().await, unused_address().await);
    for _ in 0..5 {
        assert_eq!(
            new_client(&[&x, &y, &address_a])
                .default_namespace()
                .next(7u64)
                .await
                .map(|n| n.epoch)
                .unwrap(),
            1
        );
    }
}

#[tokio::test]
async fn dead_owner_is_replaced_by_its_successor() {
    let ([listener_b], [address_b]) = bind_listeners().await;
    let gone = unused_address().await;
    let node = FakeAlloc::start(
        listener_b,
        &Arc::default(),
        &routing_table(5, |_| Some((gone.clone(), 1))),
    );
    let client = new_client(&[&address_b]);
    let mut wait_status = client.wait_status();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.default_namespace().next(7u64).await }
    });
    wait_status.wait_for(|t| t.is_some()).await.unwrap();
    *node.table.lock() = routing_table(6, |_| Some((address_b.clone(), 2)));
    assert_eq!(call.await.unwrap().unwrap().epoch, 2);
}

#[tokio::test]
async fn unresponsive_owner_costs_a_fraction_of_the_deadline() {
    let ([silent, listener_b], [address_a, address_b]) = bind_listeners().await;
    // The listener accepts, as the kernel does for a stopped process, and never sends anything.
    let _silent: TcpListener = silent;
    let node = FakeAlloc::start(
        listener_b,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_b]);
    client.routes().await.unwrap();
    *node.table.lock() = routing_table(6, |_| Some((address_b.clone(), 2)));
    let begin = Instant::now();
    assert_eq!(
        client.default_namespace().next(7u64).await.unwrap().epoch,
        2
    );
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn call_ends_at_deadline_and_servers_receive_it() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]).with_deadline(Duration::from_millis(800));
    client.routes().await.unwrap();
    node.script.lock().delay = Duration::from_secs(30);
    let begin = Instant::now();
    let error = client.default_namespace().next(7u64).await.unwrap_err();
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(
        (error.code(), error.reason()),
        (Code::DeadlineExceeded, Reason::Unreachable)
    );
    assert!(error.attempts() >= 3, "{error}");
    assert!(
        error
            .to_string()
            .contains(&format!("no answer from {address_a}")),
        "{error}"
    );
    let status = node.grpc_timeouts.lock()[0].clone();
    let micros: u64 = status.trim_end_matches('u').parse().unwrap();
    assert!(status.ends_with('u') && micros <= 200_000, "{status}");
}

#[tokio::test]
async fn call_without_live_server_ends_in_time_and_names_servers() {
    let (x, y) = (unused_address().await, unused_address().await);
    let client = new_client(&[&x, &y]).with_deadline(Duration::from_secs(1));
    let mut wait_status = client.wait_status();
    let status = tokio::spawn(async move {
        wait_status
            .wait_for(|t| t.is_some())
            .await
            .unwrap()
            .clone()
            .unwrap()
    });
    let begin = Instant::now();
    let error = client.default_namespace().next(7u64).await.unwrap_err();
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    let text = error.to_string();
    assert!(
        text.contains(&x) && text.contains(&y) && text.contains("refused"),
        "{text}"
    );
    assert_eq!(
        (error.code(), error.reason()),
        (Code::DeadlineExceeded, Reason::Unreachable)
    );
    assert!(
        error.attempts() > 3 && error.gave_up_after().is_some(),
        "{error:?}"
    );
    let status = status.await.unwrap();
    assert!(
        status.starts_with("no server reachable at 127.0.0.1:"),
        "{status}"
    );
    assert_eq!(*client.wait_status().borrow(), None);
}

#[tokio::test]
async fn retry_hint_is_respected_and_other_rejections_are_final() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    let hint = RpcError::new(Reason::Overloaded, "queue full").with_retry_after_ms(150);
    node.script.lock().next_errors = vec![hint.clone(), hint];
    let begin = Instant::now();
    client.default_namespace().next(7u64).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(300));
    for reason in [
        Reason::LimitExceeded,
        Reason::Overloaded,
        Reason::SequenceExhausted,
        Reason::Invalid,
        Reason::FloorAhead,
    ] {
        let attempts = node.next_requests.lock().len();
        node.script.lock().next_errors = vec![RpcError::new(reason, "do this instead")];
        let error = client.default_namespace().next(7u64).await.unwrap_err();
        assert_eq!(
            (error.reason(), node.next_requests.lock().len()),
            (reason, attempts + 1)
        );
        assert!(error.to_string().contains("do this instead"), "{error}");
        assert!(!error.is_retryable() && error.attempts() == 1, "{error}");
    }
}

#[tokio::test]
async fn invalid_input_sends_nothing() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]);
    for (namespace, key, count) in [
        ("", Key::Uid(1), 0),
        ("", Key::Uid(1), 100_001),
        ("", Key::Uid(1 << 32), 1),
        ("default", Key::from("alice"), 1),
        ("", Key::from(""), 1),
        ("no spaces", Key::Uid(1), 1),
        ("", Key::from("x".repeat(129)), 1),
    ] {
        let error = client
            .namespace(namespace)
            .next_n(key, count)
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.reason()),
            (Code::InvalidArgument, Reason::Invalid),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert!(node.next_requests.lock().is_empty());
}

#[tokio::test]
async fn handle_with_invalid_name_fails_each_call_without_a_server() {
    let client = new_client(&[&unused_address().await]);
    let handle = client.namespace("no spaces");
    let mut errors = vec![
        handle.next(1).await.unwrap_err(),
        handle.current(1).await.unwrap_err(),
        handle.raise_to(1, 2).await.unwrap_err(),
        handle.route(1).await.unwrap_err(),
    ];
    let batch = handle.next_batch(&[1, 2]).await;
    errors.extend(batch.into_iter().map(|result| result.unwrap_err()));
    let batch = handle.current_batch(&[1, 2]).await;
    errors.extend(batch.into_iter().map(|result| result.unwrap_err()));
    assert_eq!(errors.len(), 8);
    for error in errors {
        assert_eq!(
            (error.kind(), error.attempts()),
            (ErrorKind::InvalidInput, 0),
            "{error}"
        );
        assert!(error.to_string().contains("\"no spaces\""), "{error}");
    }
}

#[tokio::test]
async fn exhausted_call_says_when_to_retry() {
    let ([listener_a], [address_a]) = bind_listeners().await;
    let node = FakeAlloc::start(
        listener_a,
        &Arc::default(),
        &routing_table(5, |_| Some((address_a.clone(), 1))),
    );
    let client = new_client(&[&address_a]).with_deadline(Duration::from_secs(1));
    let hint = RpcError::new(Reason::Overloaded, "queue full").with_retry_after_ms(1_500);
    node.script.lock().next_errors = vec![hint];
    let error = client.default_namespace().next(7).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.retry_after()),
        (ErrorKind::Overloaded, Some(Duration::from_millis(1_500))),
        "{error}"
    );
    assert!(error.is_retryable() && error.gave_up_after().is_some());
}

/// A server that closes each connection with a reason: once after it has received the request, then
/// always before the client has sent it.
struct ClosingServer {
    reads_request: AtomicBool,
    /// Of its GOAWAY.
    code: u8,
}

impl ClosingServer {
    const WORDS: &str = "this port is closed to you";
}

impl Transport for ClosingServer {
    fn connect(&self, _: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        let reads_request = self.reads_request.swap(false, Ordering::Relaxed);
        let code = self.code;
        async move {
            let (near, mut far) = duplex(64 << 10);
            if !reads_request {
                send_goodbye(&mut far, code).await?;
            }
            tokio::spawn(async move {
                if reads_request {
                    read_headers(&mut far).await?;
                    send_goodbye(&mut far, code).await?;
                }
                tokio::io::copy(&mut far, &mut tokio::io::sink()).await
            });
            Ok(Box::new(near) as Box<dyn ByteStream>)
        }
        .boxed()
    }

    fn listen(&self, _: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        unreachable!("it is only called")
    }
}

/// Sends SETTINGS, and GOAWAY with this code.
async fn send_goodbye(io: &mut DuplexStream, code: u8) -> io::Result<()> {
    let length = 8 + ClosingServer::WORDS.len() as u8;
    io.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
    io.write_all(&[0, 0, length, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, code])
        .await?;
    io.write_all(ClosingServer::WORDS.as_bytes()).await?;
    io.shutdown().await
}

/// Reads until the client has sent the head of a request.
async fn read_headers(io: &mut DuplexStream) -> io::Result<()> {
    io.read_exact(&mut [0; 24]).await?;
    loop {
        let mut head = [0; 9];
        io.read_exact(&mut head).await?;
        let mut frame = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        io.read_exact(&mut frame).await?;
        if head[3] == 1 {
            return Ok(());
        }
    }
}

/// Schedule: GOAWAY ends the connection between its setup and the first request, which then is
/// canceled here: not by a deadline, and without the words of the server. Those of a port for TLS
/// end the call.
#[tokio::test(start_paused = true)]
async fn request_on_a_closed_connection_is_no_timeout_and_hides_no_words() {
    const ENHANCE_YOUR_CALM: u8 = 11;
    const INADEQUATE_SECURITY: u8 = 12;
    for (reads_request, code, words) in [
        (false, ENHANCE_YOUR_CALM, "connection closed"),
        (true, ENHANCE_YOUR_CALM, ClosingServer::WORDS),
        (true, INADEQUATE_SECURITY, ClosingServer::WORDS),
    ] {
        let server = ClosingServer {
            reads_request: AtomicBool::new(reads_request),
            code,
        };
        let channels = ChannelPool::with_transport(Arc::new(server));
        let options = ClientOptions::new(["a:1"]).with_deadline(Duration::from_secs(1));
        let client = Client::over(channels, options).unwrap();
        let error = client.default_namespace().next(7).await.unwrap_err();
        let is_final = code == INADEQUATE_SECURITY;
        assert_eq!(error.attempts() == 1, is_final, "{error}");
        assert_eq!(error.is_retryable(), !is_final, "{error}");
        assert_eq!(error.reason(), Reason::Unreachable, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}
