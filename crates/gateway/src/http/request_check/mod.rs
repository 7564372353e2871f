//! Checks of a request's head, before the request has any effect.
//!
//! Invariant: a web page of another site cannot take a number, raise one, or read an answer.
//!
//! Schedule that breaks it without the check of the host: a page of `evil.example` resolves its own
//! name to an address of this server (DNS rebinding). For the browser, the page and the server then
//! are one site, so it sends no sign of another one and lets the page read the answers. But the
//! request names `evil.example` as its host.
//!
//! Schedule that breaks it without the check of a browser's `GET`: a page shows an image whose
//! address is `/v1/next`. Without TLS a browser then sends neither `Origin` nor `Sec-Fetch-Site` to
//! a host that is not `localhost`.

mod browser_check;
mod host_check;
mod origin_check;

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, Request, StatusCode};
use tonic::Code;

use super::error::HttpError;

pub use host_check::HttpHost;

/// Checks the head of a request on a connection to this `local` address.
///
/// # Errors
/// The request names another host, or a web page of another site may have made a browser send it.
pub(super) fn check_request<B>(
    request: &Request<B>,
    local: IpAddr,
    hosts: &[HttpHost],
) -> Result<(), HttpError> {
    host_check::check_host(request, local, hosts)?;
    origin_check::check_origin(request)?;
    browser_check::check_browser(request)
}

/// Returns the error of a request that a page of another site may have sent.
fn forbid(text: &str) -> HttpError {
    HttpError::with_status(StatusCode::FORBIDDEN, Code::PermissionDenied, text)
}

/// Returns the text of a header. None: there is none, or it has other characters than visible
/// ASCII.
fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}
