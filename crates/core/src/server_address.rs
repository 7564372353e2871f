//! The addresses of servers: `host:port`.
//!
//! Invariant: an address is printed, logged and dialed as it is, so it has no other characters than
//! those of a host and a port. Schedule that breaks it: a process registers with an address that
//! has a line end, and a line of its choice appears in the logs of all others; or with `host/path`,
//! and they request that path.

use std::net::IpAddr;

use crate::command::ADDRESS_MAX;

/// An address that is not `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address:?} is not a server address: {why}; write host:port, such as 127.0.0.1:7700")]
pub struct BadAddress {
    /// The address as given.
    pub address: String,
    /// What is wrong with it.
    pub why: String,
}

/// Returns the `host:port` of a server from what a person writes: `http://` may lead, and
/// `default_port` is used where none is written. Sends nothing to a name server.
///
/// # Errors
/// The text is not the address of a server.
pub fn parse_server_address(text: &str, default_port: u16) -> Result<String, BadAddress> {
    let bad = |why: &str| BadAddress {
        address: text.to_owned(),
        why: why.to_owned(),
    };
    if text.starts_with("https://") {
        return Err(bad(
            "TLS is set by a directory (--tls-dir), not by the address",
        ));
    }
    let bare = text.trim().trim_start_matches("http://");
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    let good = |c: u8| c.is_ascii_alphanumeric() || b".-_:[]".contains(&c);
    if bare.is_empty() || !bare.bytes().all(good) {
        return Err(bad("no host, or characters that no host has"));
    }
    // An IPv6 address is in brackets, so that a colon behind them (or the only one) leads a port.
    let (host, port) = match bare.rfind(':') {
        Some(colon) if !bare.ends_with(']') => (&bare[..colon], &bare[colon + 1..]),
        _ => (bare, ""),
    };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || (host.contains(':') && !bracketed) {
        return Err(bad("no host, or an IPv6 address without brackets"));
    }
    let port = match port {
        "" if bare.ends_with(':') => return Err(bad("no port behind the colon")),
        "" if host.bytes().all(|c| c.is_ascii_digit()) => {
            return Err(bad("it is a number, which may be a port, and no host"));
        }
        "" => default_port,
        port => match port.parse::<u16>() {
            Ok(port) if port > 0 => port,
            _ => return Err(bad("a port is 1 to 65535")),
        },
    };
    let address = format!("{host}:{port}");
    match address.len() <= ADDRESS_MAX {
        true => Ok(address),
        false => Err(bad(&format!("it has more than {ADDRESS_MAX} bytes"))),
    }
}

/// Checks an address that another process sent: `host:port` and nothing else.
///
/// # Errors
/// The text is something else.
pub fn check_server_address(address: &str) -> Result<(), BadAddress> {
    // No address has port 0, so this default shows that the text names no port.
    match parse_server_address(address, 0)? == address {
        true => Ok(()),
        false => Err(BadAddress {
            address: address.to_owned(),
            why: "it is not exactly a host and a port".to_owned(),
        }),
    }
}

/// Returns whether an address names no machine: 0.0.0.0 or `[::]`, which every caller takes for its
/// own machine. Resolvers take short forms of 0.0.0.0 too, such as `0` and `0x0.0`.
pub fn is_unspecified_address(address: &str) -> bool {
    let host = find_host(address);
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_unspecified(),
        Err(_) => host.split('.').all(is_zero),
    }
}

/// Returns whether an address names the machine of its reader: a loopback address, or `localhost`.
pub fn is_loopback_address(address: &str) -> bool {
    let host = find_host(address);
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// Returns the host of an address, without the brackets of an IPv6 address.
pub fn find_host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Returns whether a part of an IPv4 address is 0, in decimal, octal or hexadecimal.
fn is_zero(part: &str) -> bool {
    let digits = part.strip_prefix("0x").or_else(|| part.strip_prefix("0X"));
    let digits = digits.unwrap_or(part);
    !digits.is_empty() && digits.bytes().all(|digit| digit == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_address_adds_port_and_rejects_bad_text() {
        for (text, address) in [
            ("127.0.0.1:7701", "127.0.0.1:7701"),
            ("alloc-1.example", "alloc-1.example:7700"),
            ("http://a:1/", "a:1"),
            ("[::1]", "[::1]:7700"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(parse_server_address(text, 7700).as_deref(), Ok(address));
        }
        for text in [
            "",
            ":7700",
            "a:",
            "7700",
            "a:0",
            "a:65536",
            "a:b",
            "a b:1",
            "::1",
            "https://a:1",
            "a/b:1",
            "a\nb:1",
            "\u{202e}a:1",
        ] {
            assert!(parse_server_address(text, 7700).is_err(), "{text:?}");
        }
    }

    #[test]
    fn unspecified_address_is_found_in_all_forms() {
        for address in [
            "0.0.0.0:7700",
            "[::]:7700",
            "[::ffff:0.0.0.0]:7700",
            "[::FFFF:0:0]:1",
            "[0:0::0]:1",
            "0:7700",
            "0.0:7700",
            "00.0.0x0:7700",
        ] {
            assert!(is_unspecified_address(address), "{address}");
        }
        for address in [
            "127.0.0.1:7700",
            "[::1]:7700",
            "a:7700",
            "10.0.0.0:1",
            "0.1:1",
            "0x:1",
            "store-0:1",
            "0.example:1",
        ] {
            assert!(!is_unspecified_address(address), "{address}");
        }
    }

    #[test]
    fn loopback_address_is_found_in_all_forms() {
        for address in [
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
            "LocalHost:1",
        ] {
            assert!(is_loopback_address(address), "{address}");
        }
        for address in [
            "10.0.0.7:1",
            "[::]:1",
            "[fd00::1]:1",
            "127.example:1",
            "a1:1",
        ] {
            assert!(!is_loopback_address(address), "{address}");
        }
    }

    #[test]
    fn received_address_is_host_and_port_only() {
        let longest = format!("{}:7700", "a".repeat(ADDRESS_MAX - 5));
        for address in [
            "127.0.0.1:1",
            "store_1.internal:7800",
            "[fd00::1]:7700",
            &longest,
        ] {
            assert_eq!(check_server_address(address), Ok(()), "{address}");
        }
        let too_long = format!("a{longest}");
        for text in [
            "a",
            " a:1",
            "a:1 ",
            "a:1/",
            "http://a:1",
            "a:01",
            "a:+1",
            "user@a:1",
            "a:1/path",
            "a%0a:1",
            "a\u{1b}[2J:1",
            &too_long,
        ] {
            assert!(check_server_address(text).is_err(), "{text:?}");
        }
    }
}
