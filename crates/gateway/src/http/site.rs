//! The pages from which a browser may send requests.
//!
//! Pages of other sites must not get numbers: a browser would take numbers for any person who shows
//! it a link. In most cases, not in all, the browser names the page that requests (`Origin`,
//! `Sec-Fetch-Site`): see docs/http.md.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Request, StatusCode};
use std::net::IpAddr;
use tonic::Code;

use super::refusal::Refusal;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// # Errors
/// A page of another site sends the request. Or, where only this machine's names are allowed, the
/// request names another host: a page has changed that name to this machine's address.
pub(super) fn check<B>(request: &Request<B>, local_only: bool) -> Result<(), Refusal> {
    let headers = request.headers();
    let host = text(headers, HOST);
    if let Some(origin) = text(headers, ORIGIN) {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        if authority.is_none() || authority != host {
            return refused("pages of other sites get no numbers; ask from your own back end");
        }
    }
    // A link to the page itself may be anywhere.
    let is_link = request.uri().path() == "/" && text(headers, FETCH_MODE) == Some("navigate");
    if let (Some("cross-site" | "same-site"), false) = (text(headers, FETCH_SITE), is_link) {
        return refused("pages of other sites get no numbers; ask from your own back end");
    }
    match host {
        Some(host) if local_only && !is_local(host) => {
            refused("this server is asked as localhost, or by an IP address")
        }
        _ => Ok(()),
    }
}

fn refused(text: &str) -> Result<(), Refusal> {
    Err(Refusal::http(
        StatusCode::FORBIDDEN,
        Code::PermissionDenied,
        text,
    ))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Returns whether a `Host` is an IP address or localhost, with a port or without.
fn is_local(host: &str) -> bool {
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

    fn asked(path: &str, headers: &[(&str, &str)], local_only: bool) -> bool {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(Body::empty()).unwrap(), local_only).is_ok()
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        for (path, headers, fine) in [
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
            assert_eq!(asked(path, headers, false), fine, "{path} {headers:?}");
        }
    }

    #[test]
    fn a_name_that_is_not_this_machines_is_refused_where_only_those_may_be() {
        for (host, fine) in [
            ("localhost", true),
            ("LOCALHOST:7780", true),
            ("127.0.0.1:7780", true),
            ("[::1]:7780", true),
            ("evil.example:7780", false),
            ("127.0.0.1.evil.example", false),
        ] {
            assert_eq!(asked("/v1/next", &[("host", host)], true), fine, "{host}");
            assert!(asked("/v1/next", &[("host", host)], false));
        }
    }
}
