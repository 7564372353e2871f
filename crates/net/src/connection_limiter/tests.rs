use std::future::ready;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::peer::{PeerCertificate, PeerIdentity};

/// A listener that gives these connections and errors, the last one first, then none.
struct Given(Vec<Result<DuplexStream, Errno>>);

impl Listener for Given {
    fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        Err(io::ErrorKind::AddrNotAvailable.into())
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn ByteStream>, ConnectionPeer)>> {
        let remote = ConnectionPeer::plaintext(([127, 0, 0, 1], 1).into());
        match self.0.pop() {
            Some(Ok(io)) => ready(Ok((Box::new(io) as Box<dyn ByteStream>, remote))).boxed(),
            Some(Err(errno)) => ready(Err(errno.into())).boxed(),
            None => std::future::pending().boxed(),
        }
    }
}

/// Returns a connection to a server, and its other end.
async fn connected() -> (LimitedConnection, DuplexStream) {
    let (here, there) = duplex(1024);
    let listener = Box::new(Given(vec![Ok(here)]));
    let incoming = accept_connections(listener, ConnectionLimiter::new("gRPC", 1));
    let connection = std::pin::pin!(incoming).next().await;
    (connection.unwrap().unwrap(), there)
}

#[tokio::test(start_paused = true)]
async fn connection_without_preface_is_closed_in_time() {
    for said in [&b""[..], &b"PRI * HTTP"[..]] {
        let (mut connection, mut there) = connected().await;
        there.write_all(said).await.unwrap();
        let mut read = vec![0; 100];
        let began = tokio::time::Instant::now();
        let error = loop {
            match connection.read(&mut read).await {
                Ok(n) => assert!(n > 0),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), PREFACE_TIMEOUT);
    }
}

/// Schedule: a peer resets many connections before they are accepted. Others wait only if
/// descriptors or memory are short.
#[tokio::test(start_paused = true)]
async fn failed_accept_pauses_only_without_descriptors_or_memory() {
    for (errno, pause) in [
        (Errno::CONNRESET, Duration::ZERO),
        (Errno::CONNABORTED, Duration::ZERO),
        (Errno::INVAL, Duration::ZERO),
        (Errno::MFILE, ACCEPT_RETRY_DELAY),
        (Errno::NFILE, ACCEPT_RETRY_DELAY),
        (Errno::NOBUFS, ACCEPT_RETRY_DELAY),
        (Errno::NOMEM, ACCEPT_RETRY_DELAY),
    ] {
        let (here, _there) = duplex(1024);
        let mut given = vec![Ok(here)];
        given.extend((0..10).map(|_| Err(errno)));
        let began = tokio::time::Instant::now();
        let incoming =
            accept_connections(Box::new(Given(given)), ConnectionLimiter::new("gRPC", 1));
        assert!(std::pin::pin!(incoming).next().await.unwrap().is_ok());
        assert_eq!(began.elapsed(), 10 * pause, "{errno}");
    }
}

#[tokio::test(start_paused = true)]
async fn connection_after_its_preface_may_be_silent() {
    let (mut connection, mut there) = connected().await;
    there.write_all(&[b'P'; PREFACE_BYTES]).await.unwrap();
    let mut read = vec![0; PREFACE_BYTES];
    connection.read_exact(&mut read).await.unwrap();
    let silent = tokio::time::timeout(10 * PREFACE_TIMEOUT, connection.read(&mut read));
    assert!(silent.await.is_err(), "it ended");
}

/// A connection under TLS whose handshake ends with its first flush.
struct Handshaking {
    io: DuplexStream,
    peer: ConnectionPeer,
    identity: String,
}

impl AsyncRead for Handshaking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Handshaking {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let identity = PeerIdentity::parse(&self.identity);
        let certificate = identity.map(|who| PeerCertificate::new(who, Vec::new()));
        self.peer.identify(certificate);
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A listener whose connections come from a test.
struct Arriving(mpsc::UnboundedReceiver<Handshaking>);

impl Listener for Arriving {
    fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        Err(io::ErrorKind::AddrNotAvailable.into())
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn ByteStream>, ConnectionPeer)>> {
        async {
            match self.0.recv().await {
                Some(io) => {
                    let peer = io.peer.clone();
                    Ok((Box::new(io) as Box<dyn ByteStream>, peer))
                }
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

/// Schedule: holders of other certificates open all connections of a store that they get. Then
/// other stores connect, and after them once more a client.
#[tokio::test(start_paused = true)]
async fn stores_find_connections_that_no_other_role_gets() {
    let limiter = ConnectionLimiter::of_store("gRPC", 8);
    let (arrive, arriving) = mpsc::unbounded_channel();
    let incoming = accept_connections(Box::new(Arriving(arriving)), limiter.clone());
    let mut incoming = std::pin::pin!(incoming);
    let mut open = Vec::new();
    let roles = [
        ["client"; 6],
        ["alloc", "client", "store", "store", "store", "client"],
    ];
    let expected = [
        true, true, true, true, true, true, false, false, true, true, false, false,
    ];
    for (role, is_admitted) in roles.into_iter().flatten().zip(expected) {
        let (io, mut caller) = duplex(1024);
        let peer = ConnectionPeer::before_handshake(([127, 0, 0, 1], 1).into());
        let identity = format!("seqsvr://p/{role}/n1");
        arrive
            .send(Handshaking { io, peer, identity })
            .ok()
            .unwrap();
        let mut said = [0; 9];
        tokio::select! {
            connection = incoming.next() => {
                assert!(is_admitted, "{role}");
                open.push((connection.unwrap().unwrap(), caller));
            }
            goodbye = caller.read_exact(&mut said) => {
                assert!(!is_admitted && goodbye.is_ok(), "{role}");
            }
        }
    }
    assert_eq!(
        (limiter.connections_open(), limiter.connections_rejected()),
        (8, 4)
    );
    // What a caller of another role leaves is free for any.
    drop(open);
    let (io, caller) = duplex(1024);
    let peer = ConnectionPeer::before_handshake(([127, 0, 0, 1], 1).into());
    let identity = "seqsvr://p/client/n1".to_owned();
    arrive
        .send(Handshaking { io, peer, identity })
        .ok()
        .unwrap();
    assert!(incoming.next().await.unwrap().is_ok());
    drop(caller);
}
