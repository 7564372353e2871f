//! The listener of an endpoint: accepts connections up to a limit, spreads them over threads, and
//! drains them at a shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_net::{
    ByteStream, ConnectionLimiter, ConnectionPeer, Listener, PendingConnection, handle_accept_error,
};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection_runtimes::ConnectionRuntimes;

/// Maximum wait for connections to end at a shutdown; then the server stops without them.
const CONNECTION_DRAIN_TIMEOUT: Duration = Duration::from_secs(6);

/// A connection that was accepted.
pub(crate) struct AcceptedConnection {
    pub(crate) io: Box<dyn ByteStream>,
    /// Address of this end.
    pub(crate) local: SocketAddr,
    /// The other end, which the handshake has named.
    pub(crate) peer: ConnectionPeer,
    /// Canceled when the connection must answer the requests that it has received, and end.
    pub(crate) shutdown: CancellationToken,
}

/// A listener that serves one protocol.
pub(crate) struct ProtocolListener {
    /// Name of the protocol, for logs.
    protocol: &'static str,
    local_addr: SocketAddr,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl ProtocolListener {
    /// Serves at most `connections_max` connections at a time in the runtimes, or in the current
    /// runtime if there are none. More connections get the bytes `rejection` and are closed.
    pub(crate) fn start<F>(
        protocol: &'static str,
        mut listener: Box<dyn Listener>,
        runtimes: Option<ConnectionRuntimes>,
        connections_max: usize,
        rejection: &'static [u8],
        serve: impl Fn(AcceptedConnection) -> F + Send + Sync + 'static,
    ) -> io::Result<ProtocolListener>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let protocol_listener = ProtocolListener {
            protocol,
            local_addr: listener.local_addr()?,
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let accept_loop = AcceptLoop {
            connections: ConnectionLimiter::new(protocol, connections_max),
            rejection,
            runtimes: runtimes.unwrap_or_else(|| ConnectionRuntimes::new([Handle::current()])),
            shutdown: protocol_listener.shutdown.clone(),
            tasks: protocol_listener.tasks.clone(),
        };
        let shutdown = protocol_listener.shutdown.clone();
        protocol_listener.tasks.spawn(async move {
            let accept = accept_loop.accept_connections(&mut *listener, Arc::new(serve));
            shutdown.run_until_cancelled(accept).await;
        });
        Ok(protocol_listener)
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops accepting, lets connections answer the requests that they have received, and closes
    /// them.
    pub(crate) async fn shutdown(&self) {
        self.shutdown.cancel();
        self.tasks.close();
        let drained = tokio::time::timeout(CONNECTION_DRAIN_TIMEOUT, self.tasks.wait()).await;
        if drained.is_err() {
            tracing::warn!(
                protocol = self.protocol,
                timeout = ?CONNECTION_DRAIN_TIMEOUT,
                "connections still open after the drain timeout; shutting down without them"
            );
        }
    }
}

/// State of the task that accepts connections.
struct AcceptLoop {
    connections: Arc<ConnectionLimiter>,
    rejection: &'static [u8],
    runtimes: ConnectionRuntimes,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl AcceptLoop {
    async fn accept_connections<F: Future<Output = ()> + Send + 'static>(
        &self,
        listener: &mut dyn Listener,
        serve: Arc<impl Fn(AcceptedConnection) -> F + Send + Sync + 'static>,
    ) {
        loop {
            let PendingConnection { open, local, peer } = match listener.accept_for_any().await {
                Ok(pending) => pending,
                Err(error) => {
                    handle_accept_error(&error).await;
                    continue;
                }
            };
            let Some(permit) = self.connections.try_admit() else {
                if let Ok(io) = open() {
                    self.connections.reject(io, self.rejection.to_vec());
                }
                continue;
            };
            let (serve, shutdown) = (serve.clone(), self.shutdown.child_token());
            self.runtimes.spawn_connection(&self.tasks, async move {
                let remote = peer.remote();
                match open() {
                    Ok(mut io) => {
                        // Completes the handshake of TLS, if there is one, within its time-out.
                        match shutdown.run_until_cancelled(io.flush()).await {
                            Some(Ok(())) => {
                                let accepted = AcceptedConnection {
                                    io,
                                    local,
                                    peer,
                                    shutdown,
                                };
                                serve(accepted).await;
                            }
                            Some(Err(error)) => {
                                tracing::debug!(%remote, %error, "connection closed");
                            }
                            None => {}
                        }
                    }
                    Err(error) => tracing::warn!(%remote, %error, "connection not opened"),
                }
                drop(permit);
            });
        }
    }
}
