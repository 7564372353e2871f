//! A directory with what a process needs for TLS: `ca.pem`, `cert.pem` and `key.pem`.
//!
//! Invariant: what is read was checked as a peer would check it, so a process does not start with a
//! certificate that all others refuse; and it trusts only certificates of CAs that are valid now.
//!
//! Schedule that breaks the second half: an operator copies the certificate of a server into
//! `ca.pem`, or leaves a CA there whose time is over. Verifiers check neither the purpose nor the
//! validity of what they trust, so the holder of that key signs certificates of every role.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig};

use super::bad_tls_dir::BadTlsDir;
use super::handshake_error::{date, describe_certificate};
use super::private_files::{Secrecy, check_dir, read_file};
use super::provider::{VERSIONS, provider};
use crate::peer::{Certificate, PeerIdentity, Role};

/// What is wrong with a file without the PEM that belongs there.
const NO_PEM: &str = "it has no PEM of this kind; make the files with `seqsvr cert`";

/// Whether the callers of a server show certificates. One that is shown is always verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerCertificates {
    /// Each does.
    Required,
    /// They may show something else instead, in their calls.
    Optional,
}

/// What a server speaks under TLS.
#[derive(Clone, Copy, Debug)]
pub(super) enum ServedProtocol {
    /// gRPC, which callers name in the handshake (ALPN).
    Grpc,
    /// A protocol that its port alone names.
    Other {
        /// Sent to a caller without TLS.
        answer_without_tls: &'static [u8],
    },
}

/// The certificate of this process, its key, and the CAs that it trusts.
#[derive(Debug)]
pub struct TlsDir {
    identity: PeerIdentity,
    certificate: Certificate,
    domain: Arc<str>,
    chain: Vec<CertificateDer<'static>>,
    server_verifier: Arc<WebPkiServerVerifier>,
    server: Arc<ServerConfig>,
    /// That of a server whose callers may have no certificate.
    open_server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl TlsDir {
    /// Reads a directory, and checks it: only its owner may change it and read the key; the key is
    /// that of the certificate; the certificate is of a CA of `ca.pem`, valid now, and names one
    /// identity; `ca.pem` has only certificates of CAs that are valid now.
    ///
    /// # Errors
    /// One of these does not hold, or a file cannot be read.
    pub fn read(dir: &Path) -> Result<TlsDir, BadTlsDir> {
        check_dir(dir)?;
        let path = |name: &str| dir.join(name);
        let bad = |name: &str, why: String| BadTlsDir(format!("{}: {why}", path(name).display()));
        let read_chain = |name: &str| {
            let bytes = read_file(&path(name), Secrecy::Public)?;
            parse_chain(&bytes).map_err(|why| bad(name, why))
        };
        let chain = read_chain("cert.pem")?;
        let certificate =
            Certificate::parse(&chain[0]).map_err(|e| bad("cert.pem", e.to_string()))?;
        let identity = certificate
            .identity()
            .map_err(|e| bad("cert.pem", e.to_string()))?;
        let roots = Arc::new(to_roots(read_chain("ca.pem")?).map_err(|why| bad("ca.pem", why))?);
        let key = read_file(&path("key.pem"), Secrecy::Secret)?;
        let key = PrivateKeyDer::from_pem_slice(&key);
        let key = key.map_err(|_| bad("key.pem", NO_PEM.to_owned()))?;
        // The key is compared with the certificate here.
        let own = CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider());
        own.map_err(|e| {
            let why = match e {
                Error::InconsistentKeys(_) => "not the key of cert.pem".to_owned(),
                e => format!("cannot be used: {e}"),
            };
            bad(
                "key.pem",
                format!("{why}; both come from one `seqsvr cert`"),
            )
        })?;

        let tls = |e: &dyn std::fmt::Display| bad("cert.pem", format!("TLS: {e}"));
        let server_verifier =
            WebPkiServerVerifier::builder_with_provider(roots.clone(), provider())
                .build()
                .map_err(|e| tls(&e))?;
        let client_verifier =
            || WebPkiClientVerifier::builder_with_provider(roots.clone(), provider());
        let certified = client_verifier().build().map_err(|e| tls(&e))?;
        certified
            .verify_client_cert(&chain[0], &chain[1..], UnixTime::now())
            .map_err(|e| bad("cert.pem", describe_own(&e)))?;
        let open = client_verifier().allow_unauthenticated().build();
        let open = open.map_err(|e| tls(&e))?;
        let accept_by = |verifier| server_config(verifier, chain.clone(), key.clone_key());
        let server = accept_by(certified).map_err(|e| tls(&e))?;
        let open_server = accept_by(open).map_err(|e| tls(&e))?;
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)
            .map_err(|e| tls(&e))?
            .with_webpki_verifier(server_verifier.clone())
            .with_client_auth_cert(chain.clone(), key)
            .map_err(|e| tls(&e))?;
        client.resumption = Resumption::disabled();
        client.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsDir {
            certificate,
            domain: identity.domain().into(),
            identity,
            chain,
            server_verifier,
            server: Arc::new(server),
            open_server: Arc::new(open_server),
            client: Arc::new(client),
        })
    }

    /// Returns for whom its certificate speaks.
    pub fn identity(&self) -> &PeerIdentity {
        &self.identity
    }

    /// Returns what its certificate says.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Checks that its certificate is for this role.
    ///
    /// # Errors
    /// It is for another one.
    pub fn check_role(&self, role: Role) -> Result<(), BadTlsDir> {
        match self.identity.role() == role {
            true => Ok(()),
            false => Err(BadTlsDir(format!(
                "its certificate is for {}; name a directory of `seqsvr cert {role}`",
                self.identity
            ))),
        }
    }

    /// Checks that callers of this host, a name or an IP address, accept its certificate.
    ///
    /// # Errors
    /// They do not.
    pub fn check_host(&self, host: &str) -> Result<(), BadTlsDir> {
        let name = ServerName::try_from(host)
            .map_err(|e| BadTlsDir(format!("{host:?} is no host of a certificate: {e}")))?;
        self.server_verifier
            .verify_server_cert(
                &self.chain[0],
                &self.chain[1..],
                &name,
                &[],
                UnixTime::now(),
            )
            .map(drop)
            .map_err(|e| BadTlsDir(describe_own(&e)))
    }

    pub(super) fn domain(&self) -> Arc<str> {
        self.domain.clone()
    }

    pub(super) fn server_config(
        &self,
        callers: CallerCertificates,
        protocol: ServedProtocol,
    ) -> Arc<ServerConfig> {
        let config = match callers {
            CallerCertificates::Required => &self.server,
            CallerCertificates::Optional => &self.open_server,
        };
        match protocol {
            ServedProtocol::Grpc => config.clone(),
            ServedProtocol::Other { .. } => {
                let mut config = ServerConfig::clone(config);
                config.alpn_protocols.clear();
                Arc::new(config)
            }
        }
    }

    pub(super) fn client_config(&self) -> Arc<ClientConfig> {
        self.client.clone()
    }
}

/// Returns the certificates of a text in PEM, of which there is at least one.
pub(super) fn parse_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|e| format!("no PEM: {e}"))?;
    match chain.is_empty() {
        true => Err(NO_PEM.to_owned()),
        false => Ok(chain),
    }
}

/// Returns what a process trusts if it trusts these certificates.
///
/// # Errors
/// One is not that of a CA, or not valid now.
pub(super) fn to_roots(authorities: Vec<CertificateDer<'static>>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let count = authorities.len();
    for (index, authority) in authorities.into_iter().enumerate() {
        let which = format!("certificate {} of {count}", index + 1);
        check_authority(&authority).map_err(|why| format!("{which} {why}"))?;
        let added = roots.add(authority);
        added.map_err(|e| format!("{which} cannot be used: {e}"))?;
    }
    Ok(roots)
}

fn server_config(
    verifier: Arc<dyn ClientCertVerifier>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, Error> {
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&VERSIONS)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    // A full handshake costs a millisecond, and tickets would outlive a change of the CA.
    server.send_tls13_tickets = 0;
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.alpn_protocols = vec![b"h2".to_vec()];
    Ok(server)
}

/// Checks that a certificate is one of a CA, and valid now: the verifiers check neither of those
/// that they trust.
fn check_authority(der: &CertificateDer<'_>) -> Result<(), String> {
    let certificate = Certificate::parse(der).map_err(|e| format!("cannot be read: {e}"))?;
    if !certificate.is_ca {
        return Err("is not that of a CA; remove it from the file".to_owned());
    }
    let to_unix = |time: SystemTime| {
        UnixTime::since_unix_epoch(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    };
    let (begin, end) = (
        to_unix(certificate.not_before),
        to_unix(certificate.not_after),
    );
    let now = UnixTime::now();
    if now < begin {
        return Err(format!(
            "is valid from {} on, and by this clock it is {}; correct the clock of this machine",
            date(begin),
            date(now)
        ));
    }
    if now > end {
        return Err(format!(
            "expired at {}, and by this clock it is {}; remove it from the file, or correct the clock of this machine",
            date(end),
            date(now)
        ));
    }
    Ok(())
}

fn describe_own(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(cause) => describe_certificate(cause, "this directory"),
        error => error.to_string(),
    }
}
