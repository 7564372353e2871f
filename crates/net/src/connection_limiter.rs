//! Connections of a server, with a maximum number at a time.
//!
//! Invariant: a connection holds its permit until it is closed, so sockets and their buffers are
//! bounded for any behavior of callers. The server sends the reason to a connection above the
//! maximum and closes it at once: in the kernel's queue it would look like a server that hangs. The
//! server also closes a connection that does not begin to speak HTTP/2, or takes no answer that is
//! due to it. (The server's HTTP/2 pings detect a connection whose other end is gone.)
//!
//! Invariant: under TLS callers of other roles leave [`STORE_CONNECTIONS_KEPT`] permits of a
//! StoreSvr to StoreSvrs. Who a caller is shows only after its handshake, so a caller that finds
//! only these has the time of a goodbye for it. Schedule that breaks it: holders of client
//! certificates, or strangers who send half a handshake, open all connections of a store. After
//! the next break of the network no other store can connect to it, and the leader loses its quorum.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Sleep, sleep, timeout};
use tonic::transport::server::Connected;

use crate::connection_quota::ConnectionQuota;
use crate::peer::{ConnectionCaller, ConnectionPeer, Role};
use crate::transport::goodbye::{GOODBYE_TIMEOUT, go_away_frames, say_goodbye};
use crate::transport::{ByteStream, Listener, with_open_files_remedy};

/// Most connections of a StoreSvr that it keeps for StoreSvrs, a quarter of all at most: several
/// for each other member.
const STORE_CONNECTIONS_KEPT: usize = 32;
/// Pause after an accept that failed because descriptors or memory are short.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Most rejected callers that receive the reason at one time; more are just closed.
const REJECTIONS_IN_FLIGHT_MAX: usize = 64;
/// Failed accepts for lack of descriptors or memory of which the first is logged: those of 10 s at
/// one listener.
const SHORTAGES_PER_LOG_LINE: u64 = 200;
/// Maximum time for a new connection to send the HTTP/2 preface; then it is closed.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// Length of that preface (RFC 9113, section 3.4): PRI * HTTP/2.0 and so on.
const PREFACE_BYTES: usize = 24;

/// Bound and counts of one server's connections.
#[derive(Debug)]
pub struct ConnectionLimiter {
    /// What the connections speak, for the log.
    protocol: &'static str,
    connections_max: usize,
    /// Permits that only StoreSvrs get, under TLS.
    kept_for_stores: usize,
    permits: Arc<Semaphore>,
    rejection_permits: Arc<Semaphore>,
    rejected: AtomicU64,
}

impl ConnectionLimiter {
    /// Makes the bound: at most `most` connections of this protocol at a time.
    pub fn new(protocol: &'static str, most: usize) -> Arc<ConnectionLimiter> {
        ConnectionLimiter::keep_for_stores(protocol, most, 0)
    }

    /// Makes the bound of a StoreSvr, some of whose connections are kept for others.
    pub fn of_store(protocol: &'static str, most: usize) -> Arc<ConnectionLimiter> {
        let kept = STORE_CONNECTIONS_KEPT.min(most / 4);
        ConnectionLimiter::keep_for_stores(protocol, most, kept)
    }

    fn keep_for_stores(
        protocol: &'static str,
        most: usize,
        kept_for_stores: usize,
    ) -> Arc<ConnectionLimiter> {
        Arc::new(ConnectionLimiter {
            protocol,
            connections_max: most,
            kept_for_stores,
            permits: Arc::new(Semaphore::new(most)),
            rejection_permits: Arc::new(Semaphore::new(ConnectionLimiter::rejections_max(most))),
            rejected: AtomicU64::new(0),
        })
    }

    /// Returns how many rejected callers of a listener with at most `most` connections may receive
    /// the reason at one time. Each has a descriptor.
    pub fn rejections_max(most: usize) -> usize {
        (most / 4).clamp(1, REJECTIONS_IN_FLIGHT_MAX)
    }

    /// Returns the connections open now.
    pub fn connections_open(&self) -> u64 {
        (self.connections_max - self.permits.available_permits()) as u64
    }

    /// Returns the connections rejected since the start.
    pub fn connections_rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Returns a permit for one more connection, to be kept until it is closed; None: the maximum
    /// is reached.
    pub fn try_admit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Returns a permit for a caller that may have any role. Only one task of a server calls it, so
    /// the permits that are kept stay free.
    fn try_admit_any(&self, peer: &ConnectionPeer) -> Option<OwnedSemaphorePermit> {
        let kept = match peer.caller() {
            ConnectionCaller::Plaintext => 0,
            _ => self.kept_for_stores,
        };
        match self.permits.available_permits() > kept {
            true => self.try_admit(),
            false => None,
        }
    }

    /// Sends the connection of a StoreSvr to `admitted` once its handshake is complete. Rejects any
    /// other with `goodbye`.
    fn admit_store(
        self: Arc<Self>,
        mut io: Box<dyn ByteStream>,
        peer: ConnectionPeer,
        goodbye: Vec<u8>,
        admitted: mpsc::Sender<LimitedConnection>,
    ) {
        let handshake_permit = self.rejection_permits.clone().try_acquire_owned();
        let (Ok(handshake_permit), 1..) = (handshake_permit, self.kept_for_stores) else {
            return self.reject(io, goodbye);
        };
        tokio::spawn(async move {
            // It completes the handshake; without TLS there is none.
            let opened = timeout(GOODBYE_TIMEOUT, io.flush()).await;
            let permit = match opened.is_ok_and(|opened| opened.is_ok()) && is_store(&peer) {
                true => self.try_admit(),
                false => None,
            };
            drop(handshake_permit);
            match permit {
                Some(permit) => {
                    let connection = LimitedConnection::new(io, peer, permit);
                    // The server stops if no one receives it.
                    let _ = admitted.send(connection).await;
                }
                None => self.reject(io, goodbye),
            }
        });
    }

    /// Sends `goodbye` to a connection without a permit, in the protocol that it speaks, and closes
    /// it.
    pub fn reject(&self, io: Box<dyn ByteStream>, goodbye: Vec<u8>) {
        let before = self.rejected.fetch_add(1, Ordering::Relaxed);
        // Often enough to be seen, rarely enough not to fill the log.
        if before.is_multiple_of(1_000) {
            tracing::warn!(
                protocol = self.protocol,
                most = self.connections_max,
                rejected = before + 1,
                "connection limit reached; rejecting connections"
            );
        }
        let Ok(permit) = self.rejection_permits.clone().try_acquire_owned() else {
            return;
        };
        tokio::spawn(async move {
            // After any failure here, the caller sees a closed connection.
            let _ = timeout(GOODBYE_TIMEOUT, say_goodbye(io, &goodbye)).await;
            drop(permit);
        });
    }
}

/// Logs a failed accept. Waits if descriptors or memory are short: until a connection is closed,
/// the next accept fails too. An error that one peer causes delays no other peer.
pub async fn handle_accept_error(error: &io::Error) {
    let shortage = matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    );
    if shortage {
        static SHORTAGES: AtomicU64 = AtomicU64::new(0);
        let before = SHORTAGES.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(SHORTAGES_PER_LOG_LINE) {
            let error = with_open_files_remedy(error.to_string());
            tracing::warn!(%error, failed = before + 1, retry_after = ?ACCEPT_RETRY_DELAY, "connection not accepted");
        }
        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
    } else {
        tracing::debug!(%error, "connection not accepted");
    }
}

/// Returns connections as they come, at most as many as `connections` allows.
pub fn accept_connections(
    listener: Box<dyn Listener>,
    connections: Arc<ConnectionLimiter>,
) -> impl Stream<Item = io::Result<LimitedConnection>> {
    let (admitted, stores) = mpsc::channel(1);
    let incoming = IncomingConnections {
        listener,
        connections,
        admitted,
        stores,
    };
    futures::stream::unfold(incoming, move |mut incoming| async move {
        let connection = incoming.next().await;
        Some((Ok(connection), incoming))
    })
}

/// Connections that come to one listener.
struct IncomingConnections {
    listener: Box<dyn Listener>,
    connections: Arc<ConnectionLimiter>,
    /// Where those of StoreSvrs are sent whose handshake decided on their permit …
    admitted: mpsc::Sender<LimitedConnection>,
    /// … and received.
    stores: mpsc::Receiver<LimitedConnection>,
}

impl IncomingConnections {
    async fn next(&mut self) -> LimitedConnection {
        loop {
            let accepted = tokio::select! {
                biased;
                Some(store) = self.stores.recv() => return store,
                accepted = self.listener.accept() => accepted,
            };
            let (io, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    handle_accept_error(&error).await;
                    continue;
                }
            };
            let connections = &self.connections;
            if let Some(permit) = connections.try_admit_any(&peer) {
                return LimitedConnection::new(io, peer, permit);
            }
            let why = format!(
                "too many connections: this server takes {} at a time (--connections-max)",
                connections.connections_max
            );
            let admitted = self.admitted.clone();
            let connections = connections.clone();
            connections.admit_store(io, peer, go_away_frames(&why), admitted);
        }
    }
}

fn is_store(peer: &ConnectionPeer) -> bool {
    match peer.caller() {
        ConnectionCaller::Certified(certificate) => certificate.identity().role() == Role::Store,
        _ => false,
    }
}

/// A connection with its permit.
pub struct LimitedConnection {
    io: Box<dyn ByteStream>,
    quota: ConnectionQuota,
    /// Preface still to come; None once it was received.
    awaited_preface: Option<AwaitedPreface>,
    _permit: OwnedSemaphorePermit,
}

impl LimitedConnection {
    fn new(
        io: Box<dyn ByteStream>,
        peer: ConnectionPeer,
        permit: OwnedSemaphorePermit,
    ) -> LimitedConnection {
        LimitedConnection {
            io,
            quota: ConnectionQuota::new(peer),
            awaited_preface: Some(AwaitedPreface {
                missing_bytes: PREFACE_BYTES,
                timer: Box::pin(sleep(PREFACE_TIMEOUT)),
            }),
            _permit: permit,
        }
    }
}

/// Bytes that a new connection has to send first, and until when.
struct AwaitedPreface {
    missing_bytes: usize,
    timer: Pin<Box<Sleep>>,
}

impl Connected for LimitedConnection {
    type ConnectInfo = ConnectionQuota;

    fn connect_info(&self) -> ConnectionQuota {
        self.quota.clone()
    }
}

impl AsyncRead for LimitedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Checked on each arrival of bytes, such as the answer to a ping.
        if self.quota.is_stuck() {
            tracing::debug!(remote = %self.quota.remote(), "connection closed: the client reads no answers");
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        if let Some(hello) = &mut self.awaited_preface {
            let read = buf.filled().len() - before;
            hello.missing_bytes = hello.missing_bytes.saturating_sub(read);
            if hello.missing_bytes == 0 {
                self.awaited_preface = None;
            } else if polled.is_pending() && hello.timer.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        polled
    }
}

impl AsyncWrite for LimitedConnection {
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

#[cfg(test)]
mod tests;
