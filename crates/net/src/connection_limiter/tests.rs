use std::future::ready;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::peer::ConnectionPeer;

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
