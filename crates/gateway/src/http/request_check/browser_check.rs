//! Check of a browser's `GET` for numbers.
//!
//! A page of any site can make a browser send a `GET`: by a link, an image, a prefetch. A `POST`
//! always names the page (`Origin`), and a page of another site cannot set `Authorization`.

use axum::http::header::{AUTHORIZATION, USER_AGENT};
use axum::http::{HeaderMap, Method, Request};

use super::{forbid, header_text};
use crate::http::error::HttpError;

/// Beginnings of the paths that take numbers. Of these paths, `POST` is the only other method that
/// a page can make a browser send.
const NUMBER_PATHS: [&str; 3] = ["/v1/next", "/api/segment/get", "/tinyid/"];
/// Headers that only browsers send, and clients that imitate them.
const BROWSER_HEADERS: [&str; 4] = ["origin", "referer", "purpose", "sec-purpose"];

/// Checks that no browser sends the request, if it takes numbers by another method than `POST` and
/// has no credentials.
///
/// # Errors
/// A browser may have sent the request.
pub(super) fn check_browser<B>(request: &Request<B>) -> Result<(), HttpError> {
    let (path, headers) = (request.uri().path(), request.headers());
    if request.method() == Method::POST
        || !NUMBER_PATHS.iter().any(|begin| path.starts_with(begin))
        || headers.contains_key(AUTHORIZATION)
        || !is_of_browser(headers)
    {
        return Ok(());
    }
    Err(forbid(
        "a browser takes numbers by POST only, since a page of any site can make it send a GET; send this request by POST, or with a header Authorization",
    ))
}

fn is_of_browser(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        let name = name.as_str();
        name.starts_with("sec-fetch-") || BROWSER_HEADERS.contains(&name)
    }) || header_text(headers, USER_AGENT).is_some_and(|agent| agent.starts_with("Mozilla/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(method: &str, path: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check_browser(&request.body(()).unwrap()).is_ok()
    }

    #[test]
    fn browser_takes_numbers_by_post_only() {
        let paths = [
            "/v1/next?key=a",
            "/v1/next-many?keys=a",
            "/api/segment/get/a",
            "/tinyid/id/nextId?bizType=a",
            "/tinyid/id/nextSegmentIdSimple?bizType=a",
        ];
        let signs = [
            ("origin", "http://127.0.0.1:7780"),
            ("referer", "http://127.0.0.1:7780/"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-mode", "cors"),
            ("purpose", "prefetch"),
            ("sec-purpose", "prefetch;prerender"),
            ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"),
        ];
        for path in paths {
            for sign in signs {
                assert!(!is_allowed("GET", path, &[sign]), "{path} {sign:?}");
                assert!(is_allowed("POST", path, &[sign]), "{path} {sign:?}");
                assert!(is_allowed(
                    "GET",
                    path,
                    &[sign, ("authorization", "Bearer x")]
                ));
                assert!(is_allowed("GET", "/v1/current?key=a", &[sign]));
            }
            // Leaf's path takes a number by any method.
            assert!(!is_allowed("PUT", path, &[("referer", "http://a/")]));
            assert!(is_allowed("GET", path, &[("user-agent", "curl/8.5.0")]));
            assert!(is_allowed("GET", path, &[]));
        }
    }
}
