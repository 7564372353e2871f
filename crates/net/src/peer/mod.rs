//! The other end of an accepted connection: its address, and who its certificate says it is.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use seqsvr_access::Credentials;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;

pub(crate) use certificate::Certificate;
pub(crate) use identity::{BadIdentity, PeerIdentity, Role};
pub use peer_certificate::PeerCertificate;

pub(crate) mod certificate;
pub(crate) mod identity;
mod peer_certificate;

/// The other end of an accepted connection. Clones share what the handshake finds out.
#[derive(Clone, Debug)]
pub struct ConnectionPeer {
    remote: SocketAddr,
    /// Set by the handshake, before the first byte of a call is read. None: a connection without
    /// TLS.
    certificate: Option<Arc<OnceLock<Result<PeerCertificate, BadIdentity>>>>,
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionCaller<'a> {
    /// A connection without TLS, which has no identity: its server listens on loopback, or runs
    /// with `--insecure`.
    Plaintext,
    /// The holder of a certificate.
    Certified(&'a PeerCertificate),
    /// A certificate of the CA without an identity, with the reason.
    Nameless(&'a BadIdentity),
    /// A connection under TLS whose handshake is not complete.
    Unknown,
}

impl<'a> ConnectionCaller<'a> {
    /// Returns the certificate of the caller; None: it has none, because its connection is without
    /// TLS.
    ///
    /// # Errors
    /// The caller is under TLS and has no identity.
    pub fn certificate(self) -> Result<Option<&'a PeerCertificate>, RpcError> {
        match self {
            ConnectionCaller::Plaintext => Ok(None),
            ConnectionCaller::Certified(certificate) => Ok(Some(certificate)),
            ConnectionCaller::Nameless(reason) => Err(RpcError::new(
                Reason::Unauthenticated,
                format!("this certificate: {reason}"),
            )),
            ConnectionCaller::Unknown => Err(unknown_caller()),
        }
    }
}

/// Returns the error of a call whose connection names no caller yet.
pub(crate) fn unknown_caller() -> RpcError {
    RpcError::new(
        Reason::Unauthenticated,
        "the caller of this connection is not known",
    )
}

impl ConnectionPeer {
    /// Creates the other end of a connection without TLS.
    pub fn plaintext(remote: SocketAddr) -> ConnectionPeer {
        ConnectionPeer {
            remote,
            certificate: None,
        }
    }

    /// Creates the other end of a connection whose network has verified the certificate already, as
    /// a simulated one may.
    pub fn certified(remote: SocketAddr, certificate: PeerCertificate) -> ConnectionPeer {
        let peer = ConnectionPeer::before_handshake(remote);
        peer.identify(Ok(certificate));
        peer
    }

    /// Creates the other end of a connection under TLS. It has no identity until the handshake has
    /// found one.
    pub fn before_handshake(remote: SocketAddr) -> ConnectionPeer {
        ConnectionPeer {
            remote,
            certificate: Some(Arc::default()),
        }
    }

    /// Notes what the certificate of a completed handshake says. To be called once.
    pub(crate) fn identify(&self, verified: Result<PeerCertificate, BadIdentity>) {
        if let Some(certificate) = &self.certificate {
            // A second identity is not taken.
            let _ = certificate.set(verified);
        }
    }

    /// Returns its address.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Returns what it showed without any token.
    ///
    /// # Errors
    /// It is under TLS and has no identity; the text says why.
    pub fn credentials(&self) -> Result<Credentials<'_>, RpcError> {
        Ok(match self.caller().certificate()? {
            None => Credentials::Plaintext(self.remote.ip()),
            Some(certificate) => {
                let identity = certificate.identity();
                match identity.role() {
                    Role::Store | Role::Alloc => Credentials::ServerCertificate,
                    Role::Admin => Credentials::OperatorCertificate,
                    Role::Client => Credentials::ClientCertificate(identity.name()),
                }
            }
        })
    }

    /// Returns who it is.
    pub fn caller(&self) -> ConnectionCaller<'_> {
        match self.certificate.as_deref().map(OnceLock::get) {
            None => ConnectionCaller::Plaintext,
            Some(None) => ConnectionCaller::Unknown,
            Some(Some(Ok(certificate))) => ConnectionCaller::Certified(certificate),
            Some(Some(Err(reason))) => ConnectionCaller::Nameless(reason),
        }
    }
}

impl Display for ConnectionPeer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.caller() {
            ConnectionCaller::Certified(certificate) => {
                write!(f, "{} at {}", certificate.identity(), self.remote)
            }
            _ => write!(f, "{}", self.remote),
        }
    }
}
