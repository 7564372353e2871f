//! Answers as responses.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;

/// Returns a response that no cache keeps: a repeated request takes other numbers.
pub(super) fn response(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns JSON, with an end of line for people who read it in a terminal.
pub(super) fn json(status: StatusCode, answer: &impl Serialize) -> Response {
    response(status, "application/json", text(answer))
}

/// Returns an answer as JSON with an end of line.
pub(super) fn text(answer: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::with_capacity(128);
    // Writing to a Vec cannot fail, and neither can these answers.
    if serde_json::to_writer(&mut text, answer).is_err() {
        text.clear();
    }
    text.push(b'\n');
    text
}
