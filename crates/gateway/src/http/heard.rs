//! How requests for numbers are heard: their fields, from query or body, within bounds.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use seqsvr_proto::trace::{TRACEPARENT, Trace};
use seqsvr_proto::transport::Share;
use tokio::time::timeout;
use tonic::{Code, Request};

use super::refusal::Refusal;

/// Longest time a body may take to arrive.
const RECEIVED_WITHIN: Duration = Duration::from_secs(10);
/// Longest a caller may wait, milliseconds.
const TIMEOUT_MAX: u64 = 60_000;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Reads a body of at most `max` bytes.
///
/// # Errors
/// It is larger, or does not come in time.
pub(super) async fn body(body: Body, max: usize) -> Result<Bytes, Refusal> {
    let collected = Limited::new(body, max).collect();
    match timeout(RECEIVED_WITHIN, collected).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let text = format!("the body is larger than {max} bytes; send fewer keys at a time");
            Err(Refusal::http(
                StatusCode::PAYLOAD_TOO_LARGE,
                Code::InvalidArgument,
                text,
            ))
        }
        Ok(Err(error)) => Err(Refusal::invalid(format!(
            "the body cannot be read: {error}"
        ))),
        Err(_) => {
            let text = format!("the body did not come within {RECEIVED_WITHIN:?}");
            Err(Refusal::http(
                StatusCode::REQUEST_TIMEOUT,
                Code::DeadlineExceeded,
                text,
            ))
        }
    }
}

/// What the request says its body's length is; more than `max` is `max`, and so is nothing.
pub(super) fn length(headers: &HeaderMap, max: usize) -> usize {
    let said = headers.get(CONTENT_LENGTH).and_then(|n| n.to_str().ok());
    let said = said.and_then(|n| n.parse().ok());
    said.unwrap_or(max).min(max)
}

/// Whether the body is a form of fields.
pub(super) fn is_form(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE);
    let form = |kind: &str| kind.starts_with("application/x-www-form-urlencoded");
    parts.method == Method::POST && kind.and_then(|kind| kind.to_str().ok()).is_some_and(form)
}

/// Numbers are not for pages of other sites: a browser would take them for anybody who shows it a link.
///
/// # Errors
/// A browser says that this is one's.
pub(super) fn check_site(headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.get(FETCH_SITE) {
        Some(site) if site == "cross-site" => {
            let text = "pages of other sites get no numbers; ask from your own back end";
            Err(Refusal::http(
                StatusCode::FORBIDDEN,
                Code::PermissionDenied,
                text,
            ))
        }
        _ => Ok(()),
    }
}

/// A call of the service, of the connection that the request came by.
pub(super) fn call<T>(parts: &Parts, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(trace) = trace(&parts.headers) {
        trace.pass_on(&mut request);
    }
    if let Some(share) = parts.extensions.get::<Share>() {
        request.extensions_mut().insert(share.clone());
    }
    request
}

/// The trace that a request belongs to.
pub(super) fn trace(headers: &HeaderMap) -> Option<Trace> {
    Trace::parse(headers.get(TRACEPARENT)?.to_str().ok()?)
}

/// How long a caller waits.
///
/// # Errors
/// It is out of bounds.
pub(super) fn within(ms: u64) -> Result<Duration, Refusal> {
    if (1..=TIMEOUT_MAX).contains(&ms) {
        return Ok(Duration::from_millis(ms));
    }
    Err(Refusal::invalid(format!(
        "timeout_ms is 1 to {TIMEOUT_MAX}, not {ms}"
    )))
}
