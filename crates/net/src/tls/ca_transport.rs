//! TLS of a caller without a certificate, which trusts a CA.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use rustls::ClientConfig;
use rustls::client::{Resumption, WebPkiServerVerifier};

use super::bad_tls_dir::BadTlsDir;
use super::private_files::{Secrecy, read_named_file};
use super::provider::{VERSIONS, provider};
use super::tls_dir::{parse_chain, to_roots};
use super::tls_transport::connect_over;
use crate::peer::Role;
use crate::transport::{ByteStream, Listener, TcpTransport, Transport};

/// TCP under TLS, for a caller without a certificate. It is no network of a server.
pub struct CaTransport {
    client: Arc<ClientConfig>,
    /// Role of the servers to which connections succeed; None: of any server.
    role: Option<Role>,
}

impl CaTransport {
    /// Returns the network of a caller that trusts the CAs of a file in PEM. Only the owner may
    /// change it.
    ///
    /// # Errors
    /// The file cannot be used: one of its certificates is not that of a CA, or not valid now.
    pub fn from_file(path: &Path) -> Result<Arc<dyn Transport>, BadTlsDir> {
        let remedy =
            "name the ca.pem of the cluster, as `seqsvr cert` made it, and readable by this user";
        let pem = read_named_file(path, Secrecy::Public, remedy)?;
        let bad = |why: String| BadTlsDir(format!("{}: {why}", path.display()));
        let tls = |e: &dyn std::fmt::Display| bad(format!("TLS: {e}"));
        let roots = Arc::new(to_roots(parse_chain(&pem).map_err(bad)?).map_err(bad)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|e| tls(&e))?;
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)
            .map_err(|e| tls(&e))?
            .with_webpki_verifier(verifier)
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        client.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(CaTransport {
            client: Arc::new(client),
            role: None,
        }))
    }
}

impl Transport for CaTransport {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        connect_over(&TcpTransport, address, self.client.clone(), None, self.role)
    }

    fn listen(&self, _: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let text = "a server needs a certificate; give it a directory for TLS";
        future::ready(Err(io::Error::new(io::ErrorKind::Unsupported, text))).boxed()
    }

    fn is_encrypted(&self) -> bool {
        true
    }

    fn narrow(&self, role: Role) -> Option<Arc<dyn Transport>> {
        Some(Arc::new(CaTransport {
            client: self.client.clone(),
            role: Some(role),
        }))
    }
}
