//! A bounded listener: at most so many connections at a time; more wait in the kernel's queue.
//!
//! Invariant: a connection holds its permit until it is closed, so sockets and their buffers are
//! bounded whatever callers do.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::options::Error;

/// Most connections at a time: every AllocSvr has a few, so do the other stores.
const CONNECTIONS_MAX: usize = 16_384;
/// Pause after a refused accept (no file descriptor left), instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A connection with its permit.
pub(crate) struct Connection {
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
}

/// Listens, or says who is in the way.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| {
        if source.kind() == io::ErrorKind::AddrInUse {
            Error::AddressInUse(address)
        } else {
            Error::Listen { address, source }
        }
    })
}

/// Connections as they come, at most [`CONNECTIONS_MAX`] open.
pub(crate) fn connections(listener: TcpListener) -> impl Stream<Item = io::Result<Connection>> {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    futures::stream::unfold((listener, permits), |(listener, permits)| async {
        // Never closed, so never an error.
        let permit = permits.clone().acquire_owned().await.ok()?;
        let accepted = accept(&listener).await.map(|stream| Connection {
            stream,
            _permit: permit,
        });
        Some((accepted, (listener, permits)))
    })
}

async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => stream.set_nodelay(true).map(|()| stream),
        Err(e) => {
            tracing::warn!("a connection was not accepted: {e}");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            Err(e)
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
