//! Check of the web page that makes a browser send a request.
//!
//! Pages of other sites must not get numbers: any page could consume numbers through a link. In
//! most cases, not in all, the browser names the page that sends the request (`Origin`,
//! `Sec-Fetch-Site`): see docs/guide/http.md.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Request, StatusCode};
use std::net::IpAddr;
use tonic::Code;

use super::error::HttpError;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Checks that no page of another site sends the request.
///
/// # Errors
/// A page of another site sends the request. Or `local_only` is set and the request names another
/// host: a page has resolved that name to this machine's address.
pub(super) fn check_origin<B>(request: &Request<B>, local_only: bool) -> Result<(), HttpError> {
    let headers = request.headers();
    let host = header_text(headers, HOST);
    if let Some(origin) = header_text(headers, ORIGIN) {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        if authority.is_none() || authority != host {
            return forbid(
                "pages of other sites get no numbers; send the request from your own back end",
            );
        }
    }
    // Any site may link to the web page itself.
    let is_link =
        request.uri().path() == "/" && header_text(headers, FETCH_MODE) == Some("navigate");
    if let (Some("cross-site" | "same-site"), false) = (header_text(headers, FETCH_SITE), is_link) {
        return forbid(
            "pages of other sites get no numbers; send the request from your own back end",
        );
    }
    match host {
        Some(host) if local_only && !is_local_host(host) => {
            forbid("host not allowed; address this server as localhost or by an IP address")
        }
        _ => Ok(()),
    }
}

fn forbid(text: &str) -> Result<(), HttpError> {
    Err(HttpError::with_status(
        StatusCode::FORBIDDEN,
        Code::PermissionDenied,
        text,
    ))
}

fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Returns whether a `Host` is an IP address or localhost, with a port or without.
fn is_local_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    let name = name.unwrap_or(host);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn is_allowed(path: &str, headers: &[(&str, &str)], local_only: bool) -> bool {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check_origin(&request.body(Body::empty()).unwrap(), local_only).is_ok()
    }

    #[test]
    fn check_origin_rejects_pages_of_other_sites() {
        for (path, headers, allowed) in [
            ("/v1/next", &[][..], true),
            ("/v1/next", &[("host", "a:1")], true),
            (
                "/v1/next",
                &[("host", "a:1"), ("origin", "http://a:1")],
                true,
            ),
            (
                "/v1/next",
                &[("host", "a:1"), ("origin", "http://a:2")],
                false,
            ),
            ("/v1/next", &[("host", "a:1"), ("origin", "null")], false),
            ("/v1/next", &[("sec-fetch-site", "same-origin")], true),
            ("/v1/next", &[("sec-fetch-site", "none")], true),
            ("/v1/next", &[("sec-fetch-site", "same-site")], false),
            ("/v1/next", &[("sec-fetch-site", "cross-site")], false),
            (
                "/",
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("sec-fetch-mode", "navigate"),
                ],
                true,
            ),
            (
                "/v1/next",
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("sec-fetch-mode", "navigate"),
                ],
                false,
            ),
        ] {
            assert_eq!(
                is_allowed(path, headers, false),
                allowed,
                "{path} {headers:?}"
            );
        }
    }

    #[test]
    fn check_origin_rejects_other_hosts_with_local_only() {
        for (host, allowed) in [
            ("localhost", true),
            ("LOCALHOST:7780", true),
            ("127.0.0.1:7780", true),
            ("[::1]:7780", true),
            ("evil.example:7780", false),
            ("127.0.0.1.evil.example", false),
        ] {
            assert_eq!(
                is_allowed("/v1/next", &[("host", host)], true),
                allowed,
                "{host}"
            );
            assert!(is_allowed("/v1/next", &[("host", host)], false));
        }
    }
}
