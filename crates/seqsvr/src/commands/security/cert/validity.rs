//! When certificates are valid, in words.

use std::time::{SystemTime, UNIX_EPOCH};

use seqsvr_core::layout::format_utc_ms;
use seqsvr_net::tls::Certificate;

/// Formats the begin or end of a certificate, such as `2027-11-27T08:00:00Z`.
pub(super) fn format_time(time: SystemTime) -> String {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = format_utc_ms(since_epoch.as_secs() * 1_000);
    text.replace(".000Z", "Z")
}

/// Formats the end of a certificate, and how far away it is.
pub(super) fn format_end(certificate: &Certificate, now: SystemTime) -> String {
    let end = format_time(certificate.not_after);
    match certificate.days_left(now) {
        ..0 => format!("expired at {end}"),
        days => format!("until {end}, {days} days left"),
    }
}

/// Returns why a certificate is not valid at this time.
pub(super) fn describe_invalidity(certificate: &Certificate, now: SystemTime) -> Option<String> {
    if now < certificate.not_before {
        let begin = format_time(certificate.not_before);
        return Some(format!("is valid only from {begin} on"));
    }
    let is_over = certificate.days_left(now) < 0;
    is_over.then(|| format_end(certificate, now))
}
