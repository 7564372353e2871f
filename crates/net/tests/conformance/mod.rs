//! What every `Transport` and `Listener` does, so that code above them is the same over all of
//! them.
//!
//! Each crate with a transport of its own includes this file in its tests. No case waits for time
//! to pass: each waits for an event at one of the two ends, and fails after [`CASE_TIMEOUT`].

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use seqsvr_net::{ByteStream, Listener, Transport};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Maximum time of one case.
const CASE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that no transport takes for a peer that reads nothing.
const UNREAD_BYTES_MAX: usize = 64 << 20;
/// Bytes of one write.
const WRITE_BYTES: usize = 64 << 10;

type Stream = Box<dyn ByteStream>;

/// Two nodes of one network.
pub(crate) struct TestNetwork {
    pub(crate) client: Arc<dyn Transport>,
    pub(crate) server: Arc<dyn Transport>,
    /// Address at which the server listens; port 0 if the network chooses one.
    pub(crate) listen: SocketAddr,
}

/// Checks a transport and its listeners.
pub(crate) async fn check_transport(network: TestNetwork) {
    let net = &network;
    within("connect", carries_bytes_both_ways(net)).await;
    within("open elsewhere", opens_an_accepted_connection_later(net)).await;
    within("half-close", reads_after_its_own_end(net)).await;
    within("refused", is_refused_without_listener(net)).await;
    within("address in use", is_listened_on_once(net)).await;
    within("unaccepted", ends_with_its_listener(net)).await;
    within("slow peer", waits_for_a_slow_peer(net)).await;
    within("close after write", delivers_before_the_end(net)).await;
    within("close under write", fails_after_the_peer_closed(net)).await;
}

async fn within(case: &str, checked: impl Future<Output = ()>) {
    let checked = tokio::time::timeout(CASE_TIMEOUT, checked).await;
    assert!(checked.is_ok(), "{case}: not done within {CASE_TIMEOUT:?}");
}

impl TestNetwork {
    async fn listen(&self) -> (Box<dyn Listener>, SocketAddr) {
        let listener = self.server.listen(self.listen).await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Stream> {
        self.client.connect(address.to_string()).await
    }

    /// Returns both ends of a new connection: the client's, then the server's.
    async fn connected(&self) -> (Stream, Stream) {
        let (mut listener, address) = self.listen().await;
        let (near, far) = tokio::join!(self.connect(address), listener.accept());
        let (mut near, mut far) = (near.unwrap(), far.unwrap().0);
        // A stream under TLS opens when both ends use it.
        let (near_opened, far_opened) = tokio::join!(near.flush(), far.flush());
        near_opened.unwrap();
        far_opened.unwrap();
        (near, far)
    }

    async fn assert_refused(&self, address: SocketAddr) {
        let refused = self.connect(address).await.err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::ConnectionRefused));
    }
}

async fn assert_carries(from: &mut Stream, to: &mut Stream, sent: &[u8]) {
    from.write_all(sent).await.unwrap();
    from.flush().await.unwrap();
    let mut received = vec![0; sent.len()];
    to.read_exact(&mut received).await.unwrap();
    assert_eq!(received, sent);
}

async fn carries_bytes_both_ways(net: &TestNetwork) {
    let (mut near, mut far) = net.connected().await;
    for _ in 0..3 {
        assert_carries(&mut near, &mut far, b"request").await;
        assert_carries(&mut far, &mut near, b"answer").await;
    }
}

async fn opens_an_accepted_connection_later(net: &TestNetwork) {
    let (mut listener, address) = net.listen().await;
    let (near, pending) = tokio::join!(net.connect(address), listener.accept_for_any());
    let (mut near, pending) = (near.unwrap(), pending.unwrap());
    assert_eq!(pending.local, address);
    let writing = async {
        near.write_all(b"early").await.unwrap();
        near.flush().await.unwrap();
    };
    let reading = async {
        let mut far = (pending.open)().unwrap();
        let mut received = [0; 5];
        far.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"early");
        far
    };
    let ((), mut far) = tokio::join!(writing, reading);
    assert_carries(&mut far, &mut near, b"answer").await;
}

/// An end that sends no more still receives.
async fn reads_after_its_own_end(net: &TestNetwork) {
    let (mut near, mut far) = net.connected().await;
    near.write_all(b"request").await.unwrap();
    near.shutdown().await.unwrap();
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    far.read_to_end(&mut request).await.unwrap();
    assert_eq!(request, b"request");
    far.write_all(b"answer").await.unwrap();
    far.shutdown().await.unwrap();
    near.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
}

async fn is_refused_without_listener(net: &TestNetwork) {
    let (listener, address) = net.listen().await;
    drop(listener);
    net.assert_refused(address).await;
    let address = "not an address".to_owned();
    assert!(net.client.connect(address).await.is_err());
}

async fn is_listened_on_once(net: &TestNetwork) {
    let (listener, address) = net.listen().await;
    let taken = net.server.listen(address).await;
    let taken = taken.err().map(|error| error.kind());
    assert_eq!(taken, Some(io::ErrorKind::AddrInUse));
    drop(listener);
    let again = net.server.listen(address).await.unwrap();
    assert_eq!(again.local_addr().unwrap(), address);
}

/// A client whose connection no server accepted sees its end.
async fn ends_with_its_listener(net: &TestNetwork) {
    let (listener, address) = net.listen().await;
    let mut near = net.connect(address).await.unwrap();
    drop(listener);
    assert!(matches!(near.read(&mut [0; 1]).await, Ok(0) | Err(_)));
}

/// A writer waits while its peer reads nothing, and each byte arrives once and in order.
async fn waits_for_a_slow_peer(net: &TestNetwork) {
    let (mut near, mut far) = net.connected().await;
    let mut sent = 0;
    // Without tokio's budget, whose end would look like a peer that reads nothing.
    tokio::task::unconstrained(poll_fn(|cx| {
        loop {
            let bytes = pattern(sent, WRITE_BYTES);
            match Pin::new(&mut near).poll_write(cx, &bytes) {
                Poll::Ready(written) => sent += written.unwrap(),
                Poll::Pending => return Poll::Ready(()),
            }
            assert!(sent < UNREAD_BYTES_MAX, "{sent} bytes were not read");
        }
    }))
    .await;
    let total = sent + 4 * WRITE_BYTES;
    let sending = async {
        near.write_all(&pattern(sent, total - sent)).await.unwrap();
        near.shutdown().await.unwrap();
    };
    let mut received = Vec::with_capacity(total);
    let (_, read) = tokio::join!(sending, far.read_to_end(&mut received));
    assert_eq!(read.unwrap(), total);
    assert!(received == pattern(0, total), "bytes are lost or moved");
}

/// Returns the bytes of a stream from `begin` on.
fn pattern(begin: usize, count: usize) -> Vec<u8> {
    let byte = |i: usize| (i % 251) as u8;
    (begin..begin + count).map(byte).collect()
}

/// What an end sent before it was dropped arrives.
async fn delivers_before_the_end(net: &TestNetwork) {
    let (mut near, mut far) = net.connected().await;
    near.write_all(&pattern(0, 1_000)).await.unwrap();
    near.flush().await.unwrap();
    drop(near);
    let mut received = Vec::new();
    far.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, pattern(0, 1_000));
}

/// A writer receives an error once its peer is gone, also while it waits for the peer to read.
async fn fails_after_the_peer_closed(net: &TestNetwork) {
    let (mut near, far) = net.connected().await;
    let bytes = pattern(0, WRITE_BYTES);
    let writing = async {
        loop {
            if let Err(error) = near.write_all(&bytes).await {
                return error.kind();
            }
        }
    };
    let closing = async {
        let mut far = far;
        far.read_exact(&mut [0; 1]).await.unwrap();
        drop(far);
    };
    let (error, ()) = tokio::join!(writing, closing);
    let kinds = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
    assert!(kinds.contains(&error), "{error:?}");
}
