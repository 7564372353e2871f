//! Reading of requests for numbers: their fields, from query or body, within bounds.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use seqsvr_proto::trace::{TRACEPARENT, Trace};
use seqsvr_proto::transport::Share;
use tokio::time::timeout;
use tonic::{Code, Request};

use super::memory::Held;
use super::refusal::Refusal;

/// Longest time a body may take to arrive.
const RECEIVED_WITHIN: Duration = Duration::from_secs(10);
/// Longest time that a caller may wait, milliseconds.
const TIMEOUT_MAX: u64 = 60_000;

/// Reads a body of at most `max` bytes, and holds memory for the part that has arrived.
///
/// # Errors
/// The body is larger, or does not arrive in time; or there is no room for it.
pub(super) async fn body(
    headers: &HeaderMap,
    body: Body,
    max: usize,
    held: Option<&mut Held>,
) -> Result<Bytes, Refusal> {
    let said = headers.get(CONTENT_LENGTH).and_then(|n| n.to_str().ok());
    if said.and_then(|n| n.parse::<u64>().ok()) > Some(max as u64) {
        return Err(too_large(max));
    }
    match timeout(RECEIVED_WITHIN, collect(body, max, held)).await {
        Ok(body) => body,
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

async fn collect(
    mut body: Body,
    max: usize,
    mut held: Option<&mut Held>,
) -> Result<Bytes, Refusal> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Refusal::invalid(format!("the body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if all.len() + data.len() > max {
            return Err(too_large(max));
        }
        if let Some(held) = &mut held {
            held.grow(data.len())?;
        }
        all.extend_from_slice(&data);
    }
    Ok(all.freeze())
}

fn too_large(max: usize) -> Refusal {
    let text = format!("the body is larger than {max} bytes; send fewer keys at a time");
    Refusal::http(StatusCode::PAYLOAD_TOO_LARGE, Code::InvalidArgument, text)
}

/// Returns whether the body is a form of fields.
pub(super) fn is_form(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE);
    let form = |kind: &str| kind.starts_with("application/x-www-form-urlencoded");
    parts.method == Method::POST && kind.and_then(|kind| kind.to_str().ok()).is_some_and(form)
}

/// Makes a call of the service, on behalf of the connection of the request.
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

/// Returns the trace to which a request belongs.
pub(super) fn trace(headers: &HeaderMap) -> Option<Trace> {
    Trace::parse(headers.get(TRACEPARENT)?.to_str().ok()?)
}

/// Returns how long a caller waits.
///
/// # Errors
/// The time is out of bounds.
pub(super) fn within(ms: u64) -> Result<Duration, Refusal> {
    if (1..=TIMEOUT_MAX).contains(&ms) {
        return Ok(Duration::from_millis(ms));
    }
    Err(Refusal::invalid(format!(
        "timeout_ms is 1 to {TIMEOUT_MAX}, not {ms}"
    )))
}
