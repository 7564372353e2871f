//! A server's connections, at most so many at a time.
//!
//! Invariant: a connection holds its permit until it is closed, so sockets and their buffers are
//! bounded whatever callers do. One connection too many is told so and closed at once: left in the
//! kernel's queue it would look like a server that hangs.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::{Io, Listener};

/// Pause after a failed accept (no file descriptor left), instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a refused caller may take to read why.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Most refused callers that are told why at one time; more are just closed.
const REFUSALS_MAX: usize = 64;

/// Bound and counts of one server's connections.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    permits: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    refused: AtomicU64,
}

impl Connections {
    /// At most `most` at a time.
    pub fn new(most: usize) -> Arc<Connections> {
        Arc::new(Connections {
            most,
            permits: Arc::new(Semaphore::new(most)),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            refused: AtomicU64::new(0),
        })
    }

    /// Open now.
    pub fn open(&self) -> u64 {
        (self.most - self.permits.available_permits()) as u64
    }

    /// Refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn refuse(&self, mut io: Box<dyn Io>) {
        let before = self.refused.fetch_add(1, Ordering::Relaxed);
        // Often enough to be seen, seldom enough not to fill the log.
        if before.is_multiple_of(1_000) {
            tracing::warn!(
                most = self.most,
                refused = before + 1,
                "too many connections: refusing (--connections-max)"
            );
        }
        let Ok(permit) = self.refusals.clone().try_acquire_owned() else {
            return;
        };
        let goodbye = goodbye(&format!(
            "too many connections: this server takes {} at a time (--connections-max)",
            self.most
        ));
        tokio::spawn(async move {
            let told = async {
                io.write_all(&goodbye).await?;
                io.shutdown().await?;
                // Closing with unread bytes would reset the connection, and the reason with it.
                let mut rest = [0; 1024];
                while io.read(&mut rest).await? > 0 {}
                io::Result::Ok(())
            };
            // Whatever fails here, the caller sees a closed connection.
            let _ = tokio::time::timeout(REFUSAL_TIME, told).await;
            drop(permit);
        });
    }
}

/// HTTP/2 SETTINGS (a server's first frame, empty) and GOAWAY with ENHANCE_YOUR_CALM (RFC 9113,
/// sections 6.5, 6.8 and 7), which gRPC clients show as RESOURCE_EXHAUSTED.
fn goodbye(why: &str) -> Vec<u8> {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GOAWAY: u8 = 7;
    const ENHANCE_YOUR_CALM: u32 = 11;
    let length = (8 + why.len()) as u32;
    let mut bytes = SETTINGS.to_vec();
    bytes.extend_from_slice(&length.to_be_bytes()[1..]);
    bytes.extend_from_slice(&[GOAWAY, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&0u32.to_be_bytes());
    bytes.extend_from_slice(&ENHANCE_YOUR_CALM.to_be_bytes());
    bytes.extend_from_slice(why.as_bytes());
    bytes
}

/// Connections as they come, at most as many as `connections` allows.
pub fn incoming(
    listener: Box<dyn Listener>,
    connections: Arc<Connections>,
) -> impl Stream<Item = io::Result<Connection>> {
    let local = listener.local_addr().ok();
    futures::stream::unfold(
        (listener, connections),
        move |(mut listener, connections)| async move {
            loop {
                let (io, remote) = match listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(e) => {
                        tracing::warn!("a connection was not accepted: {e}");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                };
                match connections.permits.clone().try_acquire_owned() {
                    Ok(permit) => {
                        let connection = Connection {
                            io,
                            local,
                            remote,
                            _permit: permit,
                        };
                        return Some((Ok(connection), (listener, connections)));
                    }
                    Err(_) => connections.refuse(io),
                }
            }
        },
    )
}

/// A connection with its permit.
pub struct Connection {
    io: Box<dyn Io>,
    local: Option<SocketAddr>,
    remote: SocketAddr,
    _permit: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        TcpConnectInfo {
            local_addr: self.local,
            remote_addr: Some(self.remote),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
