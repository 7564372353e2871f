//! Check of the web page that makes a browser send a request.
//!
//! Pages of other sites must not get numbers: any page could consume numbers through a link. In
//! most cases, not in all, the browser names the page that sends the request (`Origin`,
//! `Sec-Fetch-Site`).

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderName, Request};

use super::{forbid, header_text};
use crate::http::error::HttpError;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const OTHER_SITE: &str =
    "pages of other sites get no numbers; send the request from your own back end";

/// Checks that the request names no page of another site as its sender.
///
/// # Errors
/// A page of another site sends the request.
pub(super) fn check_origin<B>(request: &Request<B>) -> Result<(), HttpError> {
    let headers = request.headers();
    if headers.contains_key(ORIGIN) {
        let origin = header_text(headers, ORIGIN).and_then(|origin| origin.split_once("://"));
        let authority = origin.map(|(_, authority)| authority);
        if authority.is_none() || authority != header_text(headers, HOST) {
            return Err(forbid(OTHER_SITE));
        }
    }
    // Any site may link to the web page itself.
    let is_link =
        request.uri().path() == "/" && header_text(headers, FETCH_MODE) == Some("navigate");
    match header_text(headers, FETCH_SITE) {
        Some("cross-site" | "same-site") if !is_link => Err(forbid(OTHER_SITE)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn is_allowed(path: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check_origin(&request.body(Body::empty()).unwrap()).is_ok()
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
            assert_eq!(is_allowed(path, headers), allowed, "{path} {headers:?}");
        }
    }
}
