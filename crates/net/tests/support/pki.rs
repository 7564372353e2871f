//! Certificates for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};

/// A CA of one domain.
pub(crate) struct TestCa {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl TestCa {
    pub(crate) fn new(domain: &str) -> TestCa {
        TestCa::new_with(domain, |_| {})
    }

    /// Makes a CA of one domain, changed by `change`.
    pub(crate) fn new_with(domain: &str, change: impl FnOnce(&mut CertificateParams)) -> TestCa {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let name = format!("seqsvr CA of {domain}");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        change(&mut params);
        let pem = params.self_signed(&key).unwrap().pem();
        TestCa {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Writes a directory for TLS with a certificate for these URIs and hosts, changed by `change`.
    pub(crate) fn write_with(
        &self,
        dir: &Path,
        uris: &[&str],
        hosts: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> PathBuf {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        let names = uris
            .iter()
            .map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names.extend(names);
        params.use_authority_key_identifier_extension = true;
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("ca.pem"), &self.pem).unwrap();
        fs::write(dir.join("cert.pem"), certificate.pem()).unwrap();
        fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
        for (name, mode) in [
            ("", 0o700),
            ("ca.pem", 0o644),
            ("cert.pem", 0o644),
            ("key.pem", 0o600),
        ] {
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        dir.to_owned()
    }

    /// Writes a directory for TLS with a certificate for one identity and these hosts.
    pub(crate) fn write(&self, dir: &Path, uri: &str, hosts: &[&str]) -> PathBuf {
        self.write_with(dir, &[uri], hosts, |_| {})
    }
}
