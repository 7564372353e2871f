//! HTTP responses.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");
/// Headers of every answer, of each path and status. `no-store`: a repeated request takes other
/// numbers, and no cache may give one twice. The rest keeps answers out of pages of other sites.
const SECURITY_HEADERS: [(HeaderName, HeaderValue); 4] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        CROSS_ORIGIN_RESOURCE_POLICY,
        HeaderValue::from_static("same-origin"),
    ),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];
/// Content security policy of answers that are no page.
const NO_CONTENT_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
/// Room for the headers of an answer, so that their table does not grow while they are added.
const HEADERS_ESTIMATE: usize = 12;

/// Adds the headers that every answer has. An answer may have a content security policy of its own.
pub(super) fn with_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, value);
    }
    headers
        .entry(CONTENT_SECURITY_POLICY)
        .or_insert(NO_CONTENT_POLICY);
    response
}

/// Returns a response with a body of this type.
pub(super) fn typed_response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let mut headers = HeaderMap::with_capacity(HEADERS_ESTIMATE);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    *response.headers_mut() = headers;
    response
}

/// Returns a response of JSON with a line end, for people who read it in a terminal.
pub(super) fn json_response(status: StatusCode, answer: &impl Serialize) -> Response {
    typed_response(status, "application/json", to_json_line(answer))
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
