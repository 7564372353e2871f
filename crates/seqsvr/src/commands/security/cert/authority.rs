//! The CA of a domain: `ca.pem` and `ca-key.pem`, and the certificates that it signs.
//!
//! Every client accepts the chains: the names of CA and holder differ, the CA has the key usages of
//! a CA and signs no other CA, and each certificate names the key that signed it.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use seqsvr_net::tls::{Certificate, PeerIdentity, format_authority_uri, parse_authority_uri};
use time::OffsetDateTime;

use super::pem::{encode_pem, parse_certificates, read_text_file};
use super::validity::describe_invalidity;
use crate::output::exit_code::{BadInput, unreadable_input};
use crate::server::private_dir::is_trusted;

/// File with the certificates of the CAs that the holder trusts.
pub(super) const CA_FILE: &str = "ca.pem";
/// File with the key of the CA.
pub(super) const CA_KEY_FILE: &str = "ca-key.pem";

/// Time before now at which a certificate begins, for machines whose clocks are behind.
const CLOCK_MARGIN: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// Bytes of a serial number.
const SERIAL_BYTES: usize = 16;
/// Bits of a mode that let other users write, and all bits for them.
const WRITE_BY_OTHERS: u32 = 0o022;
const ANY_BY_OTHERS: u32 = 0o077;

/// A new certificate and its key, in PEM.
pub(super) struct IssuedPair {
    pub(super) pem: String,
    pub(super) key_pem: String,
    /// What the certificate says.
    pub(super) certificate: Certificate,
}

/// A CA that can sign.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    domain: String,
    certificate: Certificate,
    /// All of `ca.pem`.
    pub(super) trusted: String,
}

/// Makes the key and the certificate of a new CA.
///
/// # Errors
/// The system has no randomness.
pub(super) fn create_authority(
    domain: &str,
    days: u32,
    now: SystemTime,
) -> anyhow::Result<IssuedPair> {
    let key = KeyPair::generate().context("cannot make a key")?;
    let mut params = authority_params(domain)?;
    set_validity(&mut params, now, now + days * DAY)?;
    let signed = params.self_signed(&key).context("cannot sign")?;
    IssuedPair::new(&signed, &key)
}

impl IssuedPair {
    fn new(signed: &rcgen::Certificate, key: &KeyPair) -> anyhow::Result<IssuedPair> {
        Ok(IssuedPair {
            pem: encode_pem("CERTIFICATE", signed.der()),
            key_pem: encode_pem("PRIVATE KEY", key.serialized_der()),
            certificate: Certificate::parse(signed.der())?,
        })
    }
}

/// Returns what all CAs of a domain have in common, the name included.
fn authority_params(domain: &str) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name(domain, &[(DnType::CommonName, "seqsvr CA")]);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.subject_alt_names = vec![SanType::URI(ia5(&format_authority_uri(domain))?)];
    Ok(params)
}

fn distinguished_name(domain: &str, parts: &[(DnType, &str)]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, domain);
    for (kind, part) in parts {
        name.push(kind.clone(), *part);
    }
    name
}

fn ia5(text: &str) -> anyhow::Result<Ia5String> {
    Ia5String::try_from(text).with_context(|| format!("{text:?}: use ASCII characters only"))
}

/// Sets begin and end, and a random serial number.
fn set_validity(
    params: &mut CertificateParams,
    now: SystemTime,
    not_after: SystemTime,
) -> anyhow::Result<()> {
    let to_date = |time: SystemTime| {
        let unix_s = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
        OffsetDateTime::from_unix_timestamp(unix_s as i64).ok()
    };
    let ends = to_date(now - CLOCK_MARGIN).zip(to_date(not_after));
    (params.not_before, params.not_after) =
        ends.context("the clock of this machine is wrong: set it")?;
    let serial: [u8; SERIAL_BYTES] = rand::random();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(())
}

impl Authority {
    /// Reads the CA of a directory.
    ///
    /// # Errors
    /// The directory has no CA, other users may change it, its key belongs to another one, or it
    /// is not valid now: [`BadInput`]. The system fails to read.
    pub(super) fn load(dir: &Path, now: SystemTime) -> anyhow::Result<Authority> {
        let (ca_path, key_path) = (dir.join(CA_FILE), dir.join(CA_KEY_FILE));
        for path in [&ca_path, &key_path] {
            if let Err(error) = fs::metadata(path)
                && error.kind() == std::io::ErrorKind::NotFound
            {
                bail!(BadInput(format!(
                    "{0} has no {1}: it is no directory of a CA, or the file is kept elsewhere; run `seqsvr cert init --dir {0} --domain NAME` for a new CA, or copy the file here",
                    dir.display(),
                    path.file_name().unwrap_or_default().display(),
                )));
            }
        }
        reject_open(dir, WRITE_BY_OTHERS, "700")?;
        reject_open(&key_path, ANY_BY_OTHERS, "600")?;
        let trusted = read_text_file(&ca_path)?;
        let key = read_key(&key_path)?;
        let public_key = key.subject_public_key_info();
        let certificates = parse_certificates(&ca_path, &trusted)?;
        let own = certificates
            .into_iter()
            .find(|c| c.public_key == public_key);
        let Some(certificate) = own else {
            bail!(BadInput(format!(
                "{} is not the key of a certificate in {}; restore both from the same copy",
                key_path.display(),
                ca_path.display()
            )));
        };
        let foreign = |why: &str| {
            BadInput(format!(
                "{}: {why}; use a CA that `seqsvr cert init` made",
                ca_path.display()
            ))
        };
        let domain = match &certificate.uris[..] {
            [uri] if certificate.is_ca => parse_authority_uri(uri),
            _ => bail!(foreign("it is no CA of a domain")),
        };
        let domain = domain.map_err(|error| foreign(&error.to_string()))?;
        if let Some(problem) = describe_invalidity(&certificate, now) {
            bail!(BadInput(format!(
                "{}: the CA {problem}; check the clock of this machine, or make a new CA with `seqsvr cert init` in another directory",
                ca_path.display()
            )));
        }
        Ok(Authority {
            issuer: Issuer::new(authority_params(domain)?, key),
            domain: domain.to_owned(),
            certificate,
            trusted,
        })
    }

    /// Returns the domain of the CA.
    pub(super) fn domain(&self) -> &str {
        &self.domain
    }

    /// Makes a key, and a certificate for it that ends no later than the CA.
    ///
    /// # Errors
    /// The CA has another name than this command gives to a CA.
    pub(super) fn issue(
        &self,
        identity: &PeerIdentity,
        hosts: &[String],
        days: u32,
        now: SystemTime,
    ) -> anyhow::Result<IssuedPair> {
        let (role, name) = (identity.role(), identity.name());
        let mut params = CertificateParams::default();
        let parts = [
            (DnType::OrganizationalUnitName, role.name()),
            (DnType::CommonName, name),
        ];
        params.distinguished_name = distinguished_name(&self.domain, &parts);
        params.subject_alt_names = vec![SanType::URI(ia5(&identity.to_string())?)];
        for host in hosts {
            params.subject_alt_names.push(match host.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(ia5(host)?),
            });
        }
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if role.is_server() {
            params.insert_extended_key_usage(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.use_authority_key_identifier_extension = true;
        let not_after = self.certificate.not_after.min(now + days * DAY);
        set_validity(&mut params, now, not_after)?;
        let key = KeyPair::generate().context("cannot make a key")?;
        let signed = params
            .signed_by(&key, &self.issuer)
            .context("cannot sign")?;
        let pair = IssuedPair::new(&signed, &key)?;
        if pair.certificate.issuer != self.certificate.subject {
            bail!(BadInput(format!(
                "{CA_FILE} has another name than the CA of domain {} that `seqsvr cert init` makes; use such a CA",
                self.domain
            )));
        }
        Ok(pair)
    }
}

fn read_key(path: &Path) -> anyhow::Result<KeyPair> {
    let pem = read_text_file(path)?;
    let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes());
    let key = key
        .map_err(|error| anyhow!(error))
        .and_then(|key| Ok(KeyPair::try_from(&key)?));
    Ok(key.map_err(|error| {
        BadInput(format!(
            "{}: it has no key of a CA: {error}; restore it from a copy",
            path.display()
        ))
    })?)
}

/// Rejects a file or directory that has any of these bits of the mode, or another owner than root
/// or this user.
fn reject_open(path: &Path, forbidden: u32, remedy: &str) -> anyhow::Result<()> {
    let shown = path.display();
    let meta = fs::metadata(path)
        .map_err(|e| unreadable_input(&shown.to_string(), &e, "name a directory of this user"))?;
    let mode = meta.mode() & 0o7777;
    if !is_trusted(&meta) {
        bail!(BadInput(format!(
            "{shown}: it belongs to user {}, who can change it; run this command as that user, or copy the directory",
            meta.uid()
        )));
    }
    if mode & forbidden != 0 {
        bail!(BadInput(format!(
            "{shown}: other users may use it (mode {mode:04o}), and the holder of this key can speak for every server; run `chmod {remedy} {shown}` if no other user did"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use seqsvr_net::tls::Role;

    use super::*;
    use crate::commands::security::cert::new_dir::write_new_dir;

    /// Writes a CA as `cert init` does.
    fn write_authority(pair: &IssuedPair) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let files = [(CA_FILE, &*pair.pem), (CA_KEY_FILE, &*pair.key_pem)];
        write_new_dir(dir.path(), &files).unwrap();
        dir
    }

    fn client() -> PeerIdentity {
        PeerIdentity::new("prod", Role::Client, "c").unwrap()
    }

    fn rejection(dir: &Path, now: SystemTime) -> String {
        let result = Authority::load(dir, now).and_then(|ca| ca.issue(&client(), &[], 1, now));
        let error = result.err().unwrap();
        assert!(error.is::<BadInput>(), "{error}");
        error.to_string()
    }

    #[test]
    fn certificate_ends_no_later_than_its_ca() {
        let now = UNIX_EPOCH + 20_800 * DAY;
        let pair = create_authority("prod", 10, now).unwrap();
        let dir = write_authority(&pair);
        let authority = Authority::load(dir.path(), now).unwrap();
        for (days, days_left) in [(9, 8), (10, 9), (11, 9), (36_500, 9)] {
            let issued = authority.issue(&client(), &[], days, now).unwrap();
            assert_eq!(issued.certificate.days_left(now + DAY / 2), days_left);
            let begin = now.duration_since(issued.certificate.not_before).unwrap();
            assert_eq!(begin.as_secs(), CLOCK_MARGIN.as_secs());
        }
    }

    #[test]
    fn ca_that_is_not_valid_now_signs_nothing() {
        let now = UNIX_EPOCH + 20_800 * DAY;
        let dir = write_authority(&create_authority("prod", 10, now).unwrap());
        let path = dir.path();
        let expired = rejection(path, now + 11 * DAY);
        assert!(expired.contains("the CA expired at 2"), "{expired}");
        assert!(expired.contains("make a new CA"), "{expired}");
        let early = rejection(path, now - DAY);
        assert!(early.contains("is valid only from 2"), "{early}");
        assert!(early.contains("check the clock"), "{early}");
        assert!(Authority::load(path, now + 9 * DAY).is_ok());
    }

    /// Schedule: an operator puts a CA of another tool into the directory. Its name differs, so no
    /// client would find it as the signer.
    #[test]
    fn ca_with_another_name_signs_nothing() {
        let now = UNIX_EPOCH + 20_800 * DAY;
        let mut params = authority_params("prod").unwrap();
        set_validity(&mut params, now, now + DAY).unwrap();
        params.distinguished_name = distinguished_name("prod", &[(DnType::CommonName, "other")]);
        let key = KeyPair::generate().unwrap();
        let signed = params.self_signed(&key).unwrap();
        let dir = write_authority(&IssuedPair::new(&signed, &key).unwrap());
        let error = rejection(dir.path(), now);
        assert!(
            error.contains("another name than the CA of domain prod"),
            "{error}"
        );
    }
}
