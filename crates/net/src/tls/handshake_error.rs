//! Errors of TLS in words: what happened, to whom, and what to do.

use std::io;

use chrono::{DateTime, SecondsFormat};
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use super::first_byte::NoTls;

/// Returns the error of a handshake, or of a stream under TLS, in words. `other` names the other
/// end. The kind is PermissionDenied if the ends do not accept each other.
pub(super) fn describe(error: io::Error, other: &str) -> io::Error {
    let (kind, text) = match error.get_ref() {
        Some(cause) if cause.is::<NoTls>() => (
            io::ErrorKind::PermissionDenied,
            format!(
                "{other} speaks no TLS; give it a directory with its certificate (`--tls-dir`)"
            ),
        ),
        Some(cause) => match cause.downcast_ref::<Error>() {
            Some(cause) => match describe_refusal(cause, other) {
                Some(text) => (io::ErrorKind::PermissionDenied, text),
                None => (error.kind(), format!("TLS with {other}: {cause}")),
            },
            None => return error,
        },
        None if error.kind() == io::ErrorKind::UnexpectedEof => (
            error.kind(),
            format!(
                "{other} closed the connection during the TLS handshake; check that it speaks TLS"
            ),
        ),
        None => return error,
    };
    io::Error::new(kind, text)
}

/// Returns why one end does not accept the other; None: the error is of another kind.
fn describe_refusal(error: &Error, other: &str) -> Option<String> {
    Some(match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            format!("{other} speaks no TLS; start it with `--tls-dir`, or call it without")
        }
        Error::NoCertificatesPresented => {
            format!("{other} has no certificate; give it one of this CA (`--tls-dir`)")
        }
        Error::AlertReceived(alert) => {
            format!("{other} refused this certificate: {}", alert_text(*alert))
        }
        Error::InvalidCertificate(error) => describe_certificate(error, other),
        _ => return None,
    })
}

/// Returns what an alert of the other end means (RFC 8446, section 6.2).
fn alert_text(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::CertificateExpired => {
            "by its clock it has expired, or is not valid yet; renew it, or correct the clock"
        }
        AlertDescription::CertificateRevoked => "it is revoked; make a new one",
        // rustls sends DecryptError for a signature of another CA with the same name.
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "its CA is not in the `ca.pem` of the other end; use a certificate of the same CA"
        }
        AlertDescription::CertificateRequired => "there is none; give one of its CA (`--tls-dir`)",
        AlertDescription::UnsupportedCertificate => "it is for another purpose",
        AlertDescription::BadCertificate => "it is not for the name that was called, or damaged",
        alert => return format!("alert {alert:?}"),
    };
    text.to_owned()
}

/// Returns what is wrong with a certificate. `owner` names the end that sent it.
pub(super) fn describe_certificate(error: &CertificateError, owner: &str) -> String {
    match error {
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let names: Vec<&str> = presented.iter().filter_map(|name| host_of(name)).collect();
            let expected = expected.to_str();
            match names.is_empty() {
                true => format!(
                    "the certificate of {owner} is for no host; make one with `--host {expected}`"
                ),
                false => format!(
                    "the certificate of {owner} is for {}, not for {expected}; call it by a name of its certificate, or make one with `--host {expected}`",
                    names.join(", ")
                ),
            }
        }
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the certificate of {owner} is valid from {} on, and by this clock it is {}; correct the clock of this machine",
            date(*not_before),
            date(*time)
        ),
        CertificateError::ExpiredContext { time, not_after } => format!(
            "the certificate of {owner} expired at {}, and by this clock it is {}; renew it, or correct the clock of this machine",
            date(*not_after),
            date(*time)
        ),
        // Two CAs of one domain have the same name, so the signature is the first that differs.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "the certificate of {owner} is of no CA in `ca.pem`; use certificates of one CA"
        ),
        CertificateError::InvalidPurposeContext { .. } => {
            format!("the certificate of {owner} is for another purpose; make it with `seqsvr cert`")
        }
        error => format!("the certificate of {owner} is not valid: {error}"),
    }
}

/// Returns the host of a name as webpki shows it, such as `DnsName("a1.internal")`; None: a name of
/// another kind.
fn host_of(name: &str) -> Option<&str> {
    let (kind, value) = name.strip_suffix(')')?.split_once('(')?;
    matches!(kind, "DnsName" | "IpAddress").then(|| value.trim_matches('"'))
}

/// Returns a time as text.
pub(super) fn date(time: UnixTime) -> String {
    i64::try_from(time.as_secs())
        .ok()
        .and_then(|seconds| DateTime::from_timestamp(seconds, 0))
        .map_or_else(
            || format!("Unix time {}", time.as_secs()),
            |time| time.to_rfc3339_opts(SecondsFormat::Secs, true),
        )
}
