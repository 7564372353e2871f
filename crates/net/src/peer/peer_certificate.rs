//! The certificate of the other end of a connection: for whom and for which hosts it speaks.

use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use seqsvr_core::server_address::find_host;

use super::certificate::Certificate;
use super::identity::PeerIdentity;

/// A certificate that a handshake has verified, of a caller. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate(Arc<VerifiedCertificate>);

#[derive(Debug, PartialEq, Eq)]
struct VerifiedCertificate {
    identity: PeerIdentity,
    der: CertificateDer<'static>,
}

impl PeerCertificate {
    /// Makes it from the bytes of a verified certificate and what they say.
    pub fn new(identity: PeerIdentity, der: Vec<u8>) -> PeerCertificate {
        let der = der.into();
        PeerCertificate(Arc::new(VerifiedCertificate { identity, der }))
    }

    /// Returns for whom it speaks.
    pub fn identity(&self) -> &PeerIdentity {
        &self.0.identity
    }

    /// Checks that it is for the host of a server's address, as a caller of that address does.
    ///
    /// # Errors
    /// It is not; the text has the hosts that it is for.
    pub fn check_address(&self, address: &str) -> Result<(), String> {
        let host = find_host(address);
        let is_valid = || {
            let name = ServerName::try_from(host).ok()?;
            let parsed = ParsedCertificate::try_from(&self.0.der).ok()?;
            verify_server_name(&parsed, &name).ok()
        };
        match is_valid() {
            Some(()) => Ok(()),
            None => Err(format!(
                "the certificate of {} is for {}, not for {host}",
                self.identity(),
                self.host_list()
            )),
        }
    }

    /// Returns its hosts, for messages.
    fn host_list(&self) -> String {
        let Ok(certificate) = Certificate::parse(&self.0.der) else {
            return "no host".to_owned();
        };
        let addresses = certificate.ip_addresses.iter().map(ToString::to_string);
        let hosts: Vec<String> = certificate.dns_names.into_iter().chain(addresses).collect();
        match hosts.is_empty() {
            true => "no host".to_owned(),
            false => hosts.join(", "),
        }
    }
}
