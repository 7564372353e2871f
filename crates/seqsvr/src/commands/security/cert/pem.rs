//! PEM: certificates and keys as text.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::bail;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use seqsvr_net::tls::Certificate;

use crate::output::exit_code::{BadInput, unreadable_input};

/// Maximum bytes of a file with certificates or a key. A longer file is rejected.
const PEM_FILE_BYTES_MAX: u64 = 1 << 20;
/// Characters of a line (RFC 7468).
const LINE_CHARS: usize = 64;

/// Returns the text form of a certificate or key. `label` says what it is.
pub(super) fn encode_pem(label: &str, der: &[u8]) -> String {
    let mut pem = format!("-----BEGIN {label}-----\n");
    let text = STANDARD.encode(der);
    let mut rest = &*text;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE_CHARS));
        pem += line;
        pem.push('\n');
        rest = after;
    }
    pem += &format!("-----END {label}-----\n");
    pem
}

/// Reads a file of text.
///
/// # Errors
/// The file cannot be read or is not a text of at most 1 MiB.
pub(super) fn read_text_file(path: &Path) -> anyhow::Result<String> {
    let what = path.display().to_string();
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(PEM_FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|e| unreadable_input(&what, &e, "name a file that this user may read"))?;
    if text.len() as u64 > PEM_FILE_BYTES_MAX {
        bail!(BadInput(format!(
            "{what}: it has more than {PEM_FILE_BYTES_MAX} bytes; name a file with certificates or a key in PEM"
        )));
    }
    Ok(text)
}

/// Returns the certificates in the text of a file, at least one.
///
/// # Errors
/// The text has none, or one that cannot be read: [`BadInput`].
pub(super) fn parse_certificates(path: &Path, pem: &str) -> Result<Vec<Certificate>, BadInput> {
    let path = path.display();
    let mut found = Vec::new();
    for der in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = der
            .map_err(|error| error.to_string())
            .and_then(|der| Certificate::parse(&der).map_err(|error| error.to_string()));
        found.push(certificate.map_err(|error| {
            BadInput(format!(
                "{path}: certificate {}: {error}; copy the file again, or make a new one",
                found.len() + 1
            ))
        })?);
    }
    match found.is_empty() {
        false => Ok(found),
        true => Err(BadInput(format!(
            "{path}: it has no certificate in PEM; name a file that has, such as cert.pem"
        ))),
    }
}
