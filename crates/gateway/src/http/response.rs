//! HTTP responses.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;

/// Returns a response that no cache stores: a repeated request takes other numbers.
pub(super) fn uncached_response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns a response of JSON with a line end, for people who read it in a terminal.
pub(super) fn json_response(status: StatusCode, answer: &impl Serialize) -> Response {
    uncached_response(status, "application/json", to_json_line(answer))
}

/// Returns an answer as JSON with a line end.
pub(super) fn to_json_line(answer: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::with_capacity(128);
    // Writing to a Vec cannot fail, and neither can these answers.
    if serde_json::to_writer(&mut line, answer).is_err() {
        line.clear();
    }
    line.push(b'\n');
    line
}
