//! Handshakes of both ends, and the checks that follow them.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ServerConfig};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::first_byte::{NoTls, TlsOnly};
use super::handshake_error::describe;
use super::lazy_tls::OpenTls;
use super::tls_dir::ServedProtocol;
use crate::line_throttle::LineThrottle;
use crate::peer::{BadIdentity, Certificate, ConnectionPeer, PeerCertificate, Role};
use crate::transport::ByteStream;
use crate::transport::goodbye::{GOODBYE_TIMEOUT, insecure_frames, say_goodbye};

/// Answer to a caller without TLS.
const TLS_ONLY: &str = "this server speaks TLS only; call it with a certificate (--tls-dir), or its CA (--ca) and a token if it takes tokens";

/// What a caller checks of a server.
pub(super) struct ExpectedServer {
    /// Name or IP address that its certificate must have.
    pub(super) host: ServerName<'static>,
    /// Domain of its identity; None: of any, since a caller that trusts a CA and has no certificate
    /// has no domain.
    pub(super) domain: Option<Arc<str>>,
    /// Role of its identity; None: that of any server.
    pub(super) role: Option<Role>,
    /// The server as a word of errors.
    pub(super) words: String,
}

impl ExpectedServer {
    /// Runs the caller's handshake.
    ///
    /// # Errors
    /// It fails, or the server is another one; in words.
    pub(super) async fn connect(
        self,
        io: Box<dyn ByteStream>,
        config: Arc<ClientConfig>,
    ) -> io::Result<OpenTls> {
        let connecting = TlsConnector::from(config).connect(self.host.clone(), io);
        let stream = connecting.await.map_err(|e| describe(e, &self.words))?;
        self.check(stream.get_ref().1.peer_certificates())?;
        Ok(stream.into())
    }

    fn check(&self, chain: Option<&[CertificateDer<'_>]>) -> io::Result<()> {
        let denied = |text| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        let words = &self.words;
        let certificate = match read_certificate(chain, self.domain.as_deref()) {
            Ok(certificate) => certificate,
            Err(reason) => return denied(format!("the certificate of {words}: {reason}")),
        };
        let identity = certificate.identity();
        let is_expected = match self.role {
            Some(role) => identity.role() == role,
            None => identity.role().is_server(),
        };
        match is_expected {
            true => Ok(()),
            false => denied(match self.role {
                Some(role) => format!(
                    "{words} is {identity}, no {role}; correct the address, or give that server its own certificate"
                ),
                None => format!(
                    "{words} is {identity}, no server; give that server its own certificate"
                ),
            }),
        }
    }
}

/// Accepts connections with one certificate.
pub(super) struct HandshakeAcceptor {
    pub(super) config: Arc<ServerConfig>,
    pub(super) domain: Arc<str>,
    pub(super) protocol: ServedProtocol,
    pub(super) refusals: RefusalLog,
}

impl HandshakeAcceptor {
    /// Runs the server's handshake, and names the peer.
    ///
    /// # Errors
    /// It fails; in words, which are in the log.
    pub(super) async fn accept(
        &self,
        io: Box<dyn ByteStream>,
        peer: ConnectionPeer,
    ) -> io::Result<OpenTls> {
        let io: Box<dyn ByteStream> = Box::new(TlsOnly::new(io));
        let accepting = TlsAcceptor::from(self.config.clone()).accept(io);
        match accepting.into_fallible().await {
            Ok(stream) => {
                let chain = stream.get_ref().1.peer_certificates();
                peer.identify(read_certificate(chain, Some(&self.domain)));
                Ok(stream.into())
            }
            Err((error, io)) => {
                let has_no_tls = error.get_ref().is_some_and(|cause| cause.is::<NoTls>());
                let error = describe(error, &format!("the caller at {}", peer.remote()));
                self.refusals.note(&error);
                if has_no_tls {
                    let goodbye = match self.protocol {
                        ServedProtocol::Grpc => Cow::Owned(insecure_frames(TLS_ONLY)),
                        ServedProtocol::Other { answer_without_tls } => {
                            Cow::Borrowed(answer_without_tls)
                        }
                    };
                    // After any failure here, the caller sees a closed connection.
                    let _ = timeout(GOODBYE_TIMEOUT, say_goodbye(io, &goodbye)).await;
                }
                Err(error)
            }
        }
    }
}

/// Returns the verified certificate of the other end, with its owner, who must be of `domain`.
fn read_certificate(
    chain: Option<&[CertificateDer<'_>]>,
    domain: Option<&str>,
) -> Result<PeerCertificate, BadIdentity> {
    let none = || BadIdentity("there is no certificate".to_owned());
    let first = chain.and_then(<[_]>::first).ok_or_else(none)?;
    let certificate = Certificate::parse(first).map_err(|e| BadIdentity(e.to_string()))?;
    let identity = certificate.identity()?;
    match domain.filter(|domain| identity.domain() != *domain) {
        None => Ok(PeerCertificate::new(identity, first.to_vec())),
        Some(domain) => Err(BadIdentity(format!(
            "{identity} is of another domain than {domain:?}"
        ))),
    }
}

/// Log of refused handshakes.
#[derive(Default)]
pub(super) struct RefusalLog(LineThrottle);

impl RefusalLog {
    fn note(&self, error: &io::Error) {
        if let Some(refused) = self.0.count_event() {
            tracing::warn!(%error, refused, "connections refused; the last one");
        }
    }
}
