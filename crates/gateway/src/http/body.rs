//! Reads the body of a request within limits, and makes the call of the service.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use seqsvr_access::Caller;
use seqsvr_net::ConnectionQuota;
use seqsvr_proto::trace_context::{TRACEPARENT, TraceContext};
use tokio::time::timeout;
use tonic::{Code, Request};

use super::error::HttpError;
use super::memory_limit::MemoryReservation;

/// Maximum time for a body to arrive; then the request is rejected.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum timeout that a request may set, milliseconds. A request with more is rejected.
const TIMEOUT_MS_MAX: u64 = 60_000;

/// Reads a body of at most `bytes_max` bytes, and reserves memory for the part that has arrived.
///
/// # Errors
/// The body is larger, or does not arrive in time, or there is no memory for it.
pub(super) async fn read_body(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    reservation: Option<&mut MemoryReservation>,
) -> Result<Bytes, HttpError> {
    let content_length = headers.get(CONTENT_LENGTH).and_then(|n| n.to_str().ok());
    if content_length.and_then(|n| n.parse::<u64>().ok()) > Some(bytes_max as u64) {
        return Err(body_too_large(bytes_max));
    }
    match timeout(
        BODY_READ_TIMEOUT,
        collect_frames(body, bytes_max, reservation),
    )
    .await
    {
        Ok(body) => body,
        Err(_) => {
            let text = format!("the body was not received within {BODY_READ_TIMEOUT:?}");
            Err(HttpError::with_status(
                StatusCode::REQUEST_TIMEOUT,
                Code::DeadlineExceeded,
                text,
            ))
        }
    }
}

async fn collect_frames(
    mut body: Body,
    bytes_max: usize,
    mut reservation: Option<&mut MemoryReservation>,
) -> Result<Bytes, HttpError> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| HttpError::invalid(format!("the body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if all.len() + data.len() > bytes_max {
            return Err(body_too_large(bytes_max));
        }
        if let Some(reservation) = &mut reservation {
            reservation.reserve_arrived(data.len())?;
        }
        all.extend_from_slice(&data);
    }
    Ok(all.freeze())
}

fn body_too_large(bytes_max: usize) -> HttpError {
    let text = format!("the body is larger than {bytes_max} bytes; send fewer keys at a time");
    HttpError::with_status(StatusCode::PAYLOAD_TOO_LARGE, Code::InvalidArgument, text)
}

/// Returns whether the body is a form.
pub(super) fn is_form(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE);
    let form = |kind: &str| kind.starts_with("application/x-www-form-urlencoded");
    parts.method == Method::POST && kind.and_then(|kind| kind.to_str().ok()).is_some_and(form)
}

/// Makes a call of the service, on behalf of the connection of the request.
pub(super) fn service_request<T>(parts: &Parts, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(trace) = trace_context(&parts.headers) {
        trace.inject(&mut request);
    }
    if let Some(share) = parts.extensions.get::<ConnectionQuota>() {
        request.extensions_mut().insert(share.clone());
    }
    if let Some(caller) = parts.extensions.get::<Caller>() {
        request.extensions_mut().insert(caller.clone());
    }
    request
}

/// Returns the trace to which a request belongs.
pub(super) fn trace_context(headers: &HeaderMap) -> Option<TraceContext> {
    TraceContext::parse(headers.get(TRACEPARENT)?.to_str().ok()?)
}

/// Returns the timeout that a request sets.
///
/// # Errors
/// The timeout is out of range.
pub(super) fn parse_timeout(ms: u64) -> Result<Duration, HttpError> {
    if (1..=TIMEOUT_MS_MAX).contains(&ms) {
        return Ok(Duration::from_millis(ms));
    }
    Err(HttpError::invalid(format!(
        "timeout_ms is 1 to {TIMEOUT_MS_MAX}, not {ms}"
    )))
}
