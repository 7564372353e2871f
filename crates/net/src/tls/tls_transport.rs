//! A transport under TLS.
//!
//! Invariant: the handshakes of a server run in the runtime in which its transport was made, not in
//! those that listen and serve the connection. Schedule that breaks it: a StoreSvr listens and
//! serves new connections on the threads of Raft, and a stranger makes thousands of handshakes a
//! second, each half a millisecond of signatures. The heartbeats wait behind them, and the stores
//! elect another leader.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use seqsvr_core::server_address::find_host;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::bad_tls_dir::BadTlsDir;
use super::handshake::{ExpectedServer, HandshakeAcceptor, RefusalLog};
use super::lazy_tls::LazyTls;
use super::tls_dir::{CallerCertificates, ServedProtocol, TlsDir};
use crate::peer::{ConnectionPeer, Role};
use crate::transport::{ByteStream, Listener, PendingConnection, TcpTransport, Transport};

/// Another transport, under TLS with the certificate of one directory.
pub struct TlsTransport {
    inner: Arc<dyn Transport>,
    dir: Arc<TlsDir>,
    /// Role of the servers to which connections succeed; None: of any server.
    role: Option<Role>,
    callers: CallerCertificates,
    protocol: ServedProtocol,
    /// Runtime of the handshakes of a server; None: the transport was made outside of one, and only
    /// connects, or handshakes run where it listens.
    runtime: Option<Handle>,
}

impl TlsTransport {
    /// Returns TCP under TLS with the certificate of a directory, as a caller uses it.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn from_dir(dir: &Path) -> Result<Arc<dyn Transport>, BadTlsDir> {
        let dir = Arc::new(TlsDir::read(dir)?);
        Ok(Arc::new(TlsTransport::new(Arc::new(TcpTransport), dir)))
    }

    /// Makes it over `inner`. The handshakes of accepted connections run in the current runtime.
    pub fn new(inner: Arc<dyn Transport>, dir: Arc<TlsDir>) -> TlsTransport {
        TlsTransport {
            inner,
            dir,
            role: None,
            callers: CallerCertificates::Required,
            protocol: ServedProtocol::Grpc,
            runtime: Handle::try_current().ok(),
        }
    }

    /// Returns the transport of a server that accepts callers without a certificate as well, and
    /// judges each of their calls by a token.
    pub fn with_optional_certificates(self) -> TlsTransport {
        TlsTransport {
            callers: CallerCertificates::Optional,
            ..self
        }
    }

    /// Returns the transport of an endpoint for another protocol than gRPC, which answers a caller
    /// without TLS with these bytes.
    pub fn for_endpoint(self, answer_without_tls: &'static [u8]) -> TlsTransport {
        TlsTransport {
            protocol: ServedProtocol::Other { answer_without_tls },
            ..self
        }
    }
}

impl Transport for TlsTransport {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        let (config, domain) = (self.dir.client_config(), Some(self.dir.domain()));
        connect_over(&*self.inner, address, config, domain, self.role)
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let listening = self.inner.listen(address);
        let acceptor = Arc::new(HandshakeAcceptor {
            config: self.dir.server_config(self.callers, self.protocol),
            domain: self.dir.domain(),
            protocol: self.protocol,
            refusals: RefusalLog::default(),
        });
        let runtime = self.runtime.clone();
        async move {
            let inner = listening.await?;
            let runtime = runtime.unwrap_or_else(Handle::current);
            let listener = TlsListener {
                inner,
                acceptor,
                runtime,
            };
            Ok(Box::new(listener) as Box<dyn Listener>)
        }
        .boxed()
    }

    fn is_encrypted(&self) -> bool {
        true
    }

    fn narrow(&self, role: Role) -> Option<Arc<dyn Transport>> {
        Some(Arc::new(TlsTransport {
            inner: self.inner.clone(),
            dir: self.dir.clone(),
            role: Some(role),
            callers: self.callers,
            protocol: self.protocol,
            runtime: self.runtime.clone(),
        }))
    }
}

/// Connects to `host:port` over `inner` under TLS. The stream fails if the server is another one
/// than [`ExpectedServer`] describes.
pub(super) fn connect_over(
    inner: &dyn Transport,
    address: String,
    config: Arc<ClientConfig>,
    domain: Option<Arc<str>>,
    role: Option<Role>,
) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
    let connecting = inner.connect(address.clone());
    async move {
        let host = find_host(&address);
        let server = ExpectedServer {
            host: ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
            domain,
            role,
            words: format!("the server at {address}"),
        };
        let io = connecting.await?;
        let words = server.words.clone();
        let stream = LazyTls::new(server.connect(io, config), words);
        Ok(Box::new(stream) as Box<dyn ByteStream>)
    }
    .boxed()
}

struct TlsListener {
    inner: Box<dyn Listener>,
    acceptor: Arc<HandshakeAcceptor>,
    /// Runtime of the handshakes.
    runtime: Handle,
}

impl Listener for TlsListener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn ByteStream>, ConnectionPeer)>> {
        async move {
            let (io, plain) = self.inner.accept().await?;
            let peer = ConnectionPeer::before_handshake(plain.remote());
            let (acceptor, runtime) = (self.acceptor.clone(), self.runtime.clone());
            let stream = open_stream(acceptor, runtime, io, peer.clone());
            Ok((stream, peer))
        }
        .boxed()
    }

    fn accept_for_any(&mut self) -> BoxFuture<'_, io::Result<PendingConnection>> {
        async move {
            let pending = self.inner.accept_for_any().await?;
            let (acceptor, runtime) = (self.acceptor.clone(), self.runtime.clone());
            let peer = ConnectionPeer::before_handshake(pending.peer.remote());
            let named = peer.clone();
            Ok(PendingConnection {
                open: Box::new(move || {
                    let io = (pending.open)()?;
                    Ok(open_stream(acceptor, runtime, io, named))
                }),
                local: pending.local,
                peer,
            })
        }
        .boxed()
    }
}

fn open_stream(
    acceptor: Arc<HandshakeAcceptor>,
    runtime: Handle,
    io: Box<dyn ByteStream>,
    peer: ConnectionPeer,
) -> Box<dyn ByteStream> {
    let words = format!("the caller at {}", peer.remote());
    let opening = async move {
        // Dropped with the stream, it ends the handshake.
        let mut handshake = JoinSet::new();
        handshake.spawn_on(async move { acceptor.accept(io, peer).await }, &runtime);
        match handshake.join_next().await {
            Some(Ok(opened)) => opened,
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    };
    Box::new(LazyTls::new(opening, words))
}
