//! Check of the host that a request names.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::http::header::HOST;
use axum::http::{Request, StatusCode};
use tonic::Code;

use crate::http::error::HttpError;

/// Name of every machine for itself.
const LOCALHOST: &str = "localhost";

/// A host that an endpoint answers for, in addition to the addresses of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpHost {
    /// A DNS name in lower case, without a dot at its end.
    Name(String),
    /// An IP address: one that a proxy or a router maps to this machine.
    Address(IpAddr),
}

impl FromStr for HttpHost {
    type Err = String;

    fn from_str(text: &str) -> Result<HttpHost, String> {
        if let Some(address) = parse_ip(text) {
            return match address.is_unspecified() {
                true => Err(format!("{text} is the address of no machine")),
                false => Ok(HttpHost::Address(address)),
            };
        }
        let name = without_final_dot(text);
        let is_name_char = |c: u8| c.is_ascii_alphanumeric() || b".-_".contains(&c);
        match name.is_empty() || !name.bytes().all(is_name_char) {
            true => Err(format!(
                "{text:?} is neither a DNS name nor an IP address; write it without a port, such as seqsvr.internal"
            )),
            false => Ok(HttpHost::Name(name.to_ascii_lowercase())),
        }
    }
}

impl fmt::Display for HttpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpHost::Name(name) => f.write_str(name),
            HttpHost::Address(address) => address.fmt(f),
        }
    }
}

/// Checks that a request names this server: the IP address of the connection, `localhost` on a
/// loopback connection, or one of `hosts`. On a loopback connection every loopback address counts,
/// and no other: a browser connects to this machine for `0.0.0.0` too.
///
/// # Errors
/// The request names another host, or not exactly one.
pub(super) fn check_host<B>(
    request: &Request<B>,
    local: IpAddr,
    hosts: &[HttpHost],
) -> Result<(), HttpError> {
    let mut values = request.headers().get_all(HOST).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(HttpError::invalid(
            "the request has no header Host, or several; send one",
        ));
    };
    let text = value.to_str().unwrap_or_default();
    let Some(host) = without_port(text) else {
        return Err(HttpError::invalid(format!(
            "the header Host is {value:?}, which is neither a host nor a host with a port"
        )));
    };
    // A target with a host of its own: `GET http://host/path`.
    let target = request.uri().authority();
    if target.is_some_and(|target| !target.as_str().eq_ignore_ascii_case(text)) {
        return Err(HttpError::invalid(
            "the target of the request and its header Host name different hosts",
        ));
    }
    if is_own_host(host, local.to_canonical(), hosts) {
        return Ok(());
    }
    let text = format!(
        "this server does not answer for the host {text:?}: request it by the IP address that you connect to, or start it with --http-host {host}"
    );
    Err(HttpError::with_status(
        StatusCode::MISDIRECTED_REQUEST,
        Code::InvalidArgument,
        text,
    ))
}

/// Returns whether a connection to the address `local` may name this host.
fn is_own_host(host: &str, local: IpAddr, hosts: &[HttpHost]) -> bool {
    if let Some(address) = parse_ip(host) {
        let is_own = match local.is_loopback() {
            true => address.is_loopback(),
            false => address == local,
        };
        return is_own || hosts.contains(&HttpHost::Address(address));
    }
    let name = without_final_dot(host);
    let is_listed = |listed: &HttpHost| match listed {
        HttpHost::Name(listed) => listed.eq_ignore_ascii_case(name),
        HttpHost::Address(_) => false,
    };
    (local.is_loopback() && name.eq_ignore_ascii_case(LOCALHOST)) || hosts.iter().any(is_listed)
}

/// Returns the host of a header `Host`. None: the header has another form.
fn without_port(text: &str) -> Option<&str> {
    let host_bytes = match text.starts_with('[') {
        true => text.find(']')? + 1,
        false => text.find(':').unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(host_bytes);
    let is_host_char = |c: u8| c.is_ascii_alphanumeric() || b".-_:[]".contains(&c);
    let is_number = |port: &str| port.bytes().all(|c| c.is_ascii_digit());
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_number);
    (is_port && !host.is_empty() && host.bytes().all(is_host_char)).then_some(host)
}

/// Returns an IP address, which may be in brackets. An IPv4 address in IPv6 is one of IPv4.
fn parse_ip(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let address: IpAddr = bare.unwrap_or(host).parse().ok()?;
    Some(address.to_canonical())
}

/// Returns a name without the dot that may end it.
fn without_final_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    /// Returns the status of the rejection, or 200.
    fn status_of(target: &str, hosts: &[&str], local: &str) -> u16 {
        let mut request = Request::get(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let listed = ["store1.internal", "203.0.113.7"].map(|host| host.parse().unwrap());
        let request = request.body(()).unwrap();
        match check_host(&request, local.parse().unwrap(), &listed) {
            Ok(()) => 200,
            Err(error) => error.into_response().status().as_u16(),
        }
    }

    #[test]
    fn host_must_be_own_address_localhost_or_listed() {
        for (host, local, status) in [
            ("127.0.0.1:7780", "127.0.0.1", 200),
            ("127.0.0.2", "127.0.0.1", 200),
            ("[::1]:7780", "::1", 200),
            ("LOCALHOST:7780", "127.0.0.1", 200),
            ("localhost.", "::1", 200),
            ("localhost", "10.0.0.5", 421),
            // A browser connects to this machine for them.
            ("0.0.0.0:7780", "127.0.0.1", 421),
            ("[::]:7780", "::1", 421),
            ("0.0.0.0:7780", "10.0.0.5", 421),
            ("10.0.0.5", "127.0.0.1", 421),
            ("10.0.0.5:1", "10.0.0.5", 200),
            ("10.0.0.5", "::ffff:10.0.0.5", 200),
            ("[::ffff:10.0.0.5]", "10.0.0.5", 200),
            ("10.0.0.6", "10.0.0.5", 421),
            ("127.0.0.1", "10.0.0.5", 421),
            ("127.0.0.1.evil.example", "127.0.0.1", 421),
            ("2130706433", "127.0.0.1", 421),
            ("evil.example", "127.0.0.1", 421),
            ("evil.example:7780", "10.0.0.5", 421),
            ("Store1.Internal.:7880", "10.0.0.5", 200),
            ("store1.internal", "127.0.0.1", 200),
            ("203.0.113.7", "10.0.0.5", 200),
            ("store1.internal.evil.example", "10.0.0.5", 421),
            ("", "127.0.0.1", 400),
            (":7780", "127.0.0.1", 400),
            ("user@127.0.0.1", "127.0.0.1", 400),
            ("127.0.0.1 evil.example", "127.0.0.1", 400),
            ("127.0.0.1:x", "127.0.0.1", 400),
            ("127.0.0.1:80:80", "127.0.0.1", 400),
            ("[::1", "::1", 400),
            ("[::1]x", "::1", 400),
        ] {
            let status_found = status_of("/v1/next", &[host], local);
            assert_eq!(status_found, status, "{host:?} on {local}");
        }
    }

    #[test]
    fn host_is_named_exactly_once() {
        let local = "127.0.0.1";
        assert_eq!(status_of("/", &[], local), 400);
        assert_eq!(status_of("/", &["127.0.0.1", "127.0.0.1"], local), 400);
        assert_eq!(status_of("/", &["127.0.0.1", "evil.example"], local), 400);
        let target = "http://LOCALHOST:7780/v1/next";
        assert_eq!(status_of(target, &["localhost:7780"], local), 200);
        assert_eq!(status_of(target, &["127.0.0.1:7780"], local), 400);
        let other = "http://evil.example/v1/next";
        assert_eq!(status_of(other, &["127.0.0.1"], local), 400);
        assert_eq!(status_of(other, &["evil.example"], local), 421);
    }

    #[test]
    fn http_host_is_a_name_or_an_address_without_port() {
        for (text, host) in [
            ("A.Internal.", HttpHost::Name("a.internal".into())),
            ("10.0.0.1", HttpHost::Address([10, 0, 0, 1].into())),
            ("[::1]", HttpHost::Address("::1".parse().unwrap())),
            ("::1", HttpHost::Address("::1".parse().unwrap())),
        ] {
            assert_eq!(text.parse(), Ok(host), "{text}");
        }
        for text in [
            "",
            ".",
            "a:7780",
            "*",
            "http://a",
            "a b",
            "10.0.0.1:80",
            "0.0.0.0",
            "[::]",
        ] {
            assert!(text.parse::<HttpHost>().is_err(), "{text:?}");
        }
    }
}
