//! The forms of Spring Boot 1.5, on which Leaf and Tinyid stand.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::answer::response;

/// Content type of a controller's text.
pub(super) const TEXT: &str = "text/plain;charset=UTF-8";
/// Content type of a controller's object.
pub(super) const JSON: &str = "application/json;charset=UTF-8";

/// The answer when a controller throws an exception.
#[derive(Serialize)]
struct Thrown<'a> {
    timestamp: u64,
    status: u16,
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<&'a str>,
    message: &'a str,
    path: &'a str,
}

/// Returns the answer to an exception.
pub(super) fn thrown(status: StatusCode, exception: &str, message: &str, path: &str) -> Response {
    failed(status, Some(exception), message, path)
}

/// Returns the answer for a path without a controller.
pub(super) fn not_found(path: &str) -> Response {
    failed(StatusCode::NOT_FOUND, None, "No message available", path)
}

#[expect(clippy::disallowed_methods, reason = "a time of day is only told here")]
fn failed(status: StatusCode, exception: Option<&str>, message: &str, path: &str) -> Response {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let thrown = Thrown {
        timestamp: now.map_or(0, |since| since.as_millis() as u64),
        status: status.as_u16(),
        error: status.canonical_reason().unwrap_or(""),
        exception,
        message,
        path,
    };
    response(
        status,
        JSON,
        serde_json::to_vec(&thrown).unwrap_or_default(),
    )
}
