//! A directory with what a process needs for TLS: `ca.pem`, `cert.pem` and `key.pem`.
//!
//! Invariant: what is read was checked as a peer would check it, so a process does not start with a
//! certificate that all others refuse.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig};

use super::bad_tls_dir::BadTlsDir;
use super::handshake_error::describe_certificate;
use super::private_files::{Secrecy, check_dir, read_file};
use super::provider::{VERSIONS, provider};
use crate::peer::{Certificate, PeerIdentity, Role};

/// The certificate of this process, its key, and the CAs that it trusts.
#[derive(Debug)]
pub struct TlsDir {
    identity: PeerIdentity,
    certificate: Certificate,
    domain: Arc<str>,
    chain: Vec<CertificateDer<'static>>,
    server_verifier: Arc<WebPkiServerVerifier>,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl TlsDir {
    /// Reads a directory, and checks it: only its owner may change it and read the key; the key is
    /// that of the certificate; the certificate is of a CA of `ca.pem`, valid now, and names one
    /// identity.
    ///
    /// # Errors
    /// One of these does not hold, or a file cannot be read.
    pub fn read(dir: &Path) -> Result<TlsDir, BadTlsDir> {
        check_dir(dir)?;
        let path = |name: &str| dir.join(name);
        let bad = |name: &str, why: String| BadTlsDir(format!("{}: {why}", path(name).display()));
        let no_pem = |name: &str| {
            let why = "it has no PEM of this kind; make the files with `seqsvr cert`";
            bad(name, why.to_owned())
        };
        let read_chain = |name: &str| {
            let bytes = read_file(&path(name), Secrecy::Public)?;
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
            let chain = chain.map_err(|e| bad(name, format!("no PEM: {e}")))?;
            match chain.is_empty() {
                true => Err(no_pem(name)),
                false => Ok(chain),
            }
        };
        let chain = read_chain("cert.pem")?;
        let certificate =
            Certificate::parse(&chain[0]).map_err(|e| bad("cert.pem", e.to_string()))?;
        let identity = certificate
            .identity()
            .map_err(|e| bad("cert.pem", e.to_string()))?;
        let mut roots = RootCertStore::empty();
        for authority in read_chain("ca.pem")? {
            roots
                .add(authority)
                .map_err(|e| bad("ca.pem", format!("not the certificate of a CA: {e}")))?;
        }
        let roots = Arc::new(roots);
        let key = read_file(&path("key.pem"), Secrecy::Secret)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| no_pem("key.pem"))?;
        // The key is compared with the certificate here.
        let own = CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider());
        own.map_err(|e| {
            bad(
                "key.pem",
                format!("not the key of cert.pem: {e}; both come from one `seqsvr cert`"),
            )
        })?;

        let tls = |e: &dyn std::fmt::Display| bad("cert.pem", format!("TLS: {e}"));
        let server_verifier =
            WebPkiServerVerifier::builder_with_provider(roots.clone(), provider())
                .build()
                .map_err(|e| tls(&e))?;
        let client_verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|e| tls(&e))?;
        client_verifier
            .verify_client_cert(&chain[0], &chain[1..], UnixTime::now())
            .map_err(|e| bad("cert.pem", describe_own(&e)))?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)
            .map_err(|e| tls(&e))?
            .with_client_cert_verifier(client_verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|e| tls(&e))?;
        // A full handshake costs a millisecond, and tickets would outlive a change of the CA.
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.alpn_protocols = vec![b"h2".to_vec()];
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

    pub(super) fn server_config(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }

    pub(super) fn client_config(&self) -> Arc<ClientConfig> {
        self.client.clone()
    }
}

fn describe_own(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(cause) => describe_certificate(cause, "this directory"),
        error => error.to_string(),
    }
}
