//! What a certificate says, read once. Nothing here is a proof: the verifiers of rustls check
//! signatures, chains and names of servers.
//!
//! Invariant: a certificate gives an identity only if its one URI is that identity. Schedule that
//! breaks it: a certificate has two URIs, the CA of the operator looked at one, and a server takes
//! the other.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use x509_cert::TbsCertificate;
use x509_cert::der::asn1::Ia5String;
use x509_cert::der::{self, Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, SubjectAltName};

use super::identity::{BadIdentity, PeerIdentity};

/// Days before the end of a certificate from which on commands and servers warn of it.
pub const EXPIRY_WARNING_DAYS: i64 = 30;
/// Seconds of a day.
const DAY_SECS: u64 = 86_400;

/// Bytes that are no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no certificate in X.509 form: {0}")]
pub struct BadCertificate(String);

/// The parts of a certificate that this project uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// First moment at which it is valid.
    pub not_before: SystemTime,
    /// Last moment at which it is valid.
    pub not_after: SystemTime,
    /// Serial number, the most significant byte first, without leading zeros.
    pub serial: Vec<u8>,
    /// Whether it may sign other certificates.
    pub is_ca: bool,
    /// Name of the signer, in DER.
    pub issuer: Vec<u8>,
    /// Name of the holder, in DER.
    pub subject: Vec<u8>,
    /// Public key of the holder, in DER (SubjectPublicKeyInfo).
    pub public_key: Vec<u8>,
    /// DNS names at which the holder is reached.
    pub dns_names: Vec<String>,
    /// Addresses at which the holder is reached.
    pub ip_addresses: Vec<IpAddr>,
    /// URIs of the holder.
    pub uris: Vec<String>,
}

impl Certificate {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// The bytes are something else, or have an address that is none.
    pub fn parse(der: &[u8]) -> Result<Certificate, BadCertificate> {
        let bad = |error: der::Error| BadCertificate(error.to_string());
        let certificate = x509_cert::Certificate::from_der(der).map_err(bad)?;
        let tbs = certificate.tbs_certificate();
        let validity = tbs.validity();
        let mut read = Certificate {
            not_before: UNIX_EPOCH + validity.not_before.to_unix_duration(),
            not_after: UNIX_EPOCH + validity.not_after.to_unix_duration(),
            serial: without_leading_zeros(tbs.serial_number().as_bytes()),
            is_ca: read_is_ca(tbs).map_err(bad)?,
            issuer: tbs.issuer().to_der().map_err(bad)?,
            subject: tbs.subject().to_der().map_err(bad)?,
            public_key: tbs.subject_public_key_info().to_der().map_err(bad)?,
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
            uris: Vec::new(),
        };
        let names = tbs.get_extension::<SubjectAltName>().map_err(bad)?;
        for name in names.into_iter().flat_map(|(_, names)| names.0) {
            let text = |name: Ia5String| name.as_str().to_owned();
            match name {
                GeneralName::DnsName(name) => read.dns_names.push(text(name)),
                GeneralName::UniformResourceIdentifier(uri) => read.uris.push(text(uri)),
                GeneralName::IpAddress(bytes) => {
                    read.ip_addresses.push(to_ip_address(bytes.as_bytes())?);
                }
                _ => {}
            }
        }
        Ok(read)
    }

    /// Returns whom the certificate speaks for.
    ///
    /// # Errors
    /// It is one of a CA, or has not exactly one URI, or that is no identity.
    pub fn identity(&self) -> Result<PeerIdentity, BadIdentity> {
        if self.is_ca {
            return Err(BadIdentity("the certificate is one of a CA".to_owned()));
        }
        match &self.uris[..] {
            [uri] => PeerIdentity::parse(uri),
            uris => Err(BadIdentity(format!(
                "the certificate has {} URIs instead of one",
                uris.len()
            ))),
        }
    }

    /// Returns for how many whole days from `now` on the certificate is valid. It is negative after
    /// its end.
    pub fn days_left(&self, now: SystemTime) -> i64 {
        let to_days = |time: Duration| time.as_secs() / DAY_SECS;
        match self.not_after.duration_since(now) {
            Ok(left) => to_days(left) as i64,
            Err(since) => -1 - to_days(since.duration()) as i64,
        }
    }
}

fn read_is_ca(tbs: &TbsCertificate) -> der::Result<bool> {
    let constraints = tbs.get_extension::<BasicConstraints>()?;
    Ok(constraints.is_some_and(|(_, constraints)| constraints.ca))
}

fn without_leading_zeros(number: &[u8]) -> Vec<u8> {
    number
        .iter()
        .copied()
        .skip_while(|byte| *byte == 0)
        .collect()
}

fn to_ip_address(bytes: &[u8]) -> Result<IpAddr, BadCertificate> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let any = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
    any.map_err(|_| BadCertificate(format!("an IP address of {} bytes", bytes.len())))
}

#[cfg(test)]
mod tests;
