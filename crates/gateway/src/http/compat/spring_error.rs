//! Errors in the form of Spring Boot 1.5, on which Leaf and Tinyid are built.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use axum::response::Response;
use seqsvr_proto::printable::printable;
use serde::Serialize;

use crate::http::response::typed_response;

/// Content type of a controller's text.
pub(super) const CONTENT_TYPE_TEXT: &str = "text/plain;charset=UTF-8";
/// Content type of a controller's object.
pub(super) const CONTENT_TYPE_JSON: &str = "application/json;charset=UTF-8";

/// The body of an error response.
#[derive(Serialize)]
struct SpringError<'a> {
    timestamp: u64,
    status: u16,
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<&'a str>,
    message: &'a str,
    path: &'a str,
}

/// Returns the response to an exception.
pub(super) fn exception_response(
    status: StatusCode,
    exception: &str,
    message: &str,
    path: &str,
) -> Response {
    error_response(status, Some(exception), message, path)
}

/// Returns the response for a path without a controller.
pub(super) fn not_found_response(path: &str) -> Response {
    error_response(StatusCode::NOT_FOUND, None, "No message available", path)
}

#[expect(clippy::disallowed_methods, reason = "only the time of day is read")]
fn error_response(
    status: StatusCode,
    exception: Option<&str>,
    message: &str,
    path: &str,
) -> Response {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let error_body = SpringError {
        timestamp: now.map_or(0, |since| since.as_millis() as u64),
        status: status.as_u16(),
        error: status.canonical_reason().unwrap_or(""),
        exception,
        message: &printable(message),
        path: &printable(path),
    };
    typed_response(
        status,
        CONTENT_TYPE_JSON,
        serde_json::to_vec(&error_body).unwrap_or_default(),
    )
}
