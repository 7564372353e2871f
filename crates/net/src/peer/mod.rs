//! The other end of an accepted connection: its address, and who its certificate says it is.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

pub(crate) use certificate::Certificate;
pub(crate) use identity::{BadIdentity, PeerIdentity, Role};

pub(crate) mod certificate;
pub(crate) mod identity;

/// The other end of an accepted connection. Clones share what the handshake finds out.
#[derive(Clone, Debug)]
pub struct ConnectionPeer {
    remote: SocketAddr,
    /// Set by the handshake, before the first byte of a call is read. None: a connection without
    /// TLS.
    certificate: Option<Arc<OnceLock<Result<PeerIdentity, BadIdentity>>>>,
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller<'a> {
    /// A connection without TLS, which has no identity: its server listens on loopback, or runs
    /// with `--insecure`.
    Plaintext,
    /// The holder of a certificate.
    Certified(&'a PeerIdentity),
    /// A certificate of the CA without an identity, with the reason.
    Nameless(&'a BadIdentity),
    /// A connection under TLS whose handshake is not complete.
    Unknown,
}

impl ConnectionPeer {
    /// Creates the other end of a connection without TLS.
    pub fn plaintext(remote: SocketAddr) -> ConnectionPeer {
        ConnectionPeer {
            remote,
            certificate: None,
        }
    }

    /// Creates the other end of a connection under TLS, which
    /// [`identify`](ConnectionPeer::identify) names.
    pub(crate) fn before_handshake(remote: SocketAddr) -> ConnectionPeer {
        ConnectionPeer {
            remote,
            certificate: Some(Arc::default()),
        }
    }

    /// Notes what the certificate of a completed handshake says. To be called once.
    pub(crate) fn identify(&self, identity: Result<PeerIdentity, BadIdentity>) {
        if let Some(certificate) = &self.certificate {
            // A second identity is not taken.
            let _ = certificate.set(identity);
        }
    }

    /// Returns its address.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Returns who it is.
    pub fn caller(&self) -> Caller<'_> {
        match self.certificate.as_deref().map(OnceLock::get) {
            None => Caller::Plaintext,
            Some(None) => Caller::Unknown,
            Some(Some(Ok(identity))) => Caller::Certified(identity),
            Some(Some(Err(reason))) => Caller::Nameless(reason),
        }
    }
}
