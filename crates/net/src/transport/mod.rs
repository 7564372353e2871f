//! Transport of bytes between processes: the seam through which a simulation replaces TCP.
//!
//! All code that connects or listens does it through the [`Transport`] it received:
//! [`TcpTransport`](crate::TcpTransport) in a process, something else in a test or a simulation.
//! Everything above (HTTP/2, gRPC, time-outs) is the same code in both.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use crate::peer::{ConnectionPeer, Role};

pub use connection_failure::{find_cause, has_no_frames, is_refused};
pub use goodbye::{GOODBYE_TIMEOUT, say_goodbye};
pub use open_files::{OPEN_FILES_REMEDY, is_out_of_descriptors, with_open_files_remedy};
pub use tcp::TcpTransport;

mod connection_failure;
pub(crate) mod goodbye;
mod open_files;
mod tcp;

/// A connection's two directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Opens an accepted connection in the runtime in which it is called.
pub type OpenConnection = Box<dyn FnOnce() -> io::Result<Box<dyn ByteStream>> + Send>;

/// An accepted connection that is not open yet.
pub struct PendingConnection {
    /// Opens it.
    pub open: OpenConnection,
    /// Address of this end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: ConnectionPeer,
}

/// Network that makes and accepts connections.
pub trait Transport: Send + Sync + 'static {
    /// Connects to `host:port`. The caller bounds the time.
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>>;

    /// Listens; port 0 takes a free one.
    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>>;

    /// Returns whether its connections are encrypted, to servers that proved who they are.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// Returns the network as [`for_role`] does; None: it knows no roles.
    fn narrow(&self, _role: Role) -> Option<Arc<dyn Transport>> {
        None
    }
}

/// Returns the same network, whose connections succeed only to servers with this role. Without TLS
/// no server proves what it is, and they succeed to each.
pub fn for_role(transport: &Arc<dyn Transport>, role: Role) -> Arc<dyn Transport> {
    transport.narrow(role).unwrap_or_else(|| transport.clone())
}

/// A listening address; dropping it stops listening.
pub trait Listener: Send + 'static {
    /// Returns the address where it listens.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Accepts the next connection, and returns its other end. Cancel-safe.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn ByteStream>, ConnectionPeer)>>;

    /// Accepts a connection that may be served in another runtime than this one. Cancel-safe.
    fn accept_for_any(&mut self) -> BoxFuture<'_, io::Result<PendingConnection>> {
        async move {
            let (io, peer) = self.accept().await?;
            Ok(PendingConnection {
                open: Box::new(move || Ok(io)),
                local: self.local_addr()?,
                peer,
            })
        }
        .boxed()
    }
}

/// Makes a channel that connects at its first call, and again after a loss. The caller must be
/// inside a tokio runtime.
pub fn connect_lazy(transport: Arc<dyn Transport>, endpoint: &Endpoint) -> Channel {
    endpoint.connect_with_connector_lazy(tower::service_fn(move |uri: Uri| {
        // An endpoint's address was parsed with a host; `connect` would reject one without.
        let address = uri.authority().map(ToString::to_string).unwrap_or_default();
        let connecting = transport.connect(address);
        async move { connecting.await.map(TokioIo::new) }
    }))
}
