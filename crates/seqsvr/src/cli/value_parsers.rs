//! Parsers of flag values: durations and addresses.

use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};
use rustls_pki_types::DnsName;
use seqsvr_core::ids::ClusterId;
use seqsvr_core::server_address::{BadAddress, is_unspecified_address, parse_server_address};
use seqsvr_proto::limits::{ALLOC_PORT, STORE_PORT};

use crate::output::exit_code::BadInput;

/// Parses `1500ms`, `20s`, `10m` or `2h`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("use a number and a unit, such as 1500ms, 20s, 10m".into()),
    };
    let n: u64 = digits
        .parse()
        .map_err(|_| "use a number and a unit, such as 1500ms, 20s, 10m".to_owned())?;
    n.checked_mul(unit)
        .map(Duration::from_millis)
        .ok_or_else(|| "the time is too long; use a shorter one".into())
}

/// Parses a duration that must be more than 0.
pub(super) fn parse_nonzero_duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("the time must be more than 0".into()),
        time => Ok(time),
    }
}

/// Rejects every value of a shared secret that tokens have replaced, and does not show it.
#[derive(Clone)]
pub(super) struct FormerSecret;

impl TypedValueParser for FormerSecret {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        _value: &OsStr,
    ) -> Result<String, clap::Error> {
        let name = arg.and_then(Arg::get_long).unwrap_or_default();
        let variable = match arg.and_then(Arg::get_env) {
            Some(variable) => format!(" ({})", variable.display()),
            None => String::new(),
        };
        let text = format!(
            "{name}{variable} is gone: callers show tokens of their own; remove it, make tokens with `seqsvr auth add`, and start the server with --tls-dir and --auth-file"
        );
        Err(command.clone().error(ErrorKind::ValueValidation, text))
    }
}

/// Parses the id of a cluster, as `status`, `init` and `restore` print it.
pub(super) fn parse_cluster_id(text: &str) -> Result<ClusterId, String> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
    id.map(ClusterId)
        .ok_or_else(|| "a cluster id has 32 hexadecimal digits; `seqsvr status` shows it".into())
}

/// Parses an address to listen on. `port` is the default; the system chooses a port for port 0.
pub(super) fn parse_listen_address(text: &str, port: u16) -> Result<String, BadAddress> {
    match text.strip_suffix(":0") {
        Some(host) => parse_server_address(host, 0),
        None => parse_server_address(text, port),
    }
}

/// Parses the address under which clients and other servers reach a server. It must name a machine
/// and a port.
pub(super) fn parse_advertise_address(text: &str) -> Result<String, String> {
    let address = parse_server_address(text, 0).map_err(|e| e.to_string())?;
    if address.ends_with(":0") {
        return Err(format!("{text:?} names no port; write host:port"));
    }
    match is_unspecified_address(&address) {
        true => Err(format!(
            "{text:?} names no machine; write an address at which others reach this one"
        )),
        false => Ok(address),
    }
}

/// Parses a host of a certificate: a DNS name or an IP address, without a port. Returns it as
/// callers look for it: in lower case, without a dot at its end.
pub(super) fn parse_certified_host(text: &str) -> Result<String, String> {
    let bracketed = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    if let Ok(ip) = bracketed.unwrap_or(text).parse::<IpAddr>() {
        return match ip.to_canonical().is_unspecified() {
            true => Err("it names no machine; write an address at which others reach it".into()),
            false => Ok(ip.to_string()),
        };
    }
    match DnsName::try_from(text) {
        Ok(name) => Ok(name.as_ref().to_ascii_lowercase()),
        Err(_) => Err(
            "a host is a DNS name such as store1.internal, or an IP address, without a port".into(),
        ),
    }
}

/// Checks AllocSvr addresses with commas between them.
pub(super) fn parse_server_list(text: &str) -> Result<String, String> {
    let mut has_address = false;
    for address in split_addresses(text) {
        parse_server_address(address, ALLOC_PORT).map_err(|e| e.to_string())?;
        has_address = true;
    }
    match has_address {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "give at least one AllocSvr, such as 127.0.0.1:{ALLOC_PORT}"
        )),
    }
}

/// Splits addresses at commas.
pub(super) fn split_addresses(text: &str) -> impl Iterator<Item = &str> {
    let each = text.split(',').map(str::trim);
    each.filter(|address| !address.is_empty())
}

/// Parses `ID=ADDR` of a StoreSvr; `what` names the argument in the error. The name of a host stays
/// a name, which the certificate of the store is for.
pub(crate) fn parse_store_member(text: &str, what: &str) -> Result<(u64, String), BadInput> {
    let parts = text.split_once('=').and_then(|(id, address)| {
        let id = id.trim().parse::<u64>().ok().filter(|id| *id > 0)?;
        Some((id, address.trim()))
    });
    let (id, address) = parts.ok_or_else(|| {
        BadInput(format!(
            "{what} {text:?}: write id=address, such as 1=127.0.0.1:{STORE_PORT}"
        ))
    })?;
    let address =
        parse_server_address(address, STORE_PORT).map_err(|e| BadInput(format!("{what}: {e}")))?;
    Ok((id, address))
}

/// Resolves `host:port`, or `host` with the default `port`.
pub(crate) fn resolve_address(text: &str, port: u16) -> Result<SocketAddr, BadInput> {
    let bad = |why: String| {
        BadInput(format!(
            "address {text:?}: {why}; use host:port, such as 127.0.0.1:{port}"
        ))
    };
    let address_with_port = if text
        .rsplit_once(':')
        .is_some_and(|(_, p)| p.parse::<u16>().is_ok())
    {
        text.to_owned()
    } else {
        format!("{text}:{port}")
    };
    let mut addresses = address_with_port
        .to_socket_addrs()
        .map_err(|e| bad(e.to_string()))?;
    addresses.next().ok_or_else(|| bad("no such host".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_number_and_a_unit() {
        assert_eq!(parse_duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert!(parse_nonzero_duration("0s").is_err() && parse_nonzero_duration("1ms").is_ok());
        for bad in [
            "",
            "5",
            "s",
            "-1s",
            "1 s",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_take_the_default_port_or_name_one() {
        assert_eq!(resolve_address("127.0.0.1:9", 7).unwrap().port(), 9);
        assert_eq!(resolve_address("127.0.0.1", 7).unwrap().port(), 7);
        assert!(resolve_address("127.0.0.1:99999", 7).is_err());
        let named = parse_store_member("1=store1.internal", "--stores").ok();
        assert_eq!(named, Some((1, "store1.internal:7800".to_owned())));
        assert!(parse_store_member("1=a b", "--stores").is_err());
        assert_eq!(parse_listen_address("[::]", 7).as_deref(), Ok("[::]:7"));
        assert_eq!(parse_listen_address("[::]:0", 7).as_deref(), Ok("[::]:0"));
        assert_eq!(parse_advertise_address("a:9").as_deref(), Ok("a:9"));
        for bad in ["a", "a:0", "0.0.0.0:9", "[::]:9", "[::ffff:0.0.0.0]:9"] {
            assert!(parse_advertise_address(bad).is_err(), "{bad}");
        }
        for (text, host) in [
            ("Store1.Internal.", "store1.internal"),
            ("10.0.0.7", "10.0.0.7"),
            ("[FD00::1]", "fd00::1"),
            ("store_1", "store_1"),
        ] {
            assert_eq!(parse_certified_host(text).as_deref(), Ok(host));
        }
        for bad in [
            "",
            "a:7800",
            "0.0.0.0",
            "[::]",
            "*.internal",
            "a b",
            "ä",
            "1.2.3",
            "a..b",
        ] {
            assert!(parse_certified_host(bad).is_err(), "{bad}");
        }
        assert!(parse_server_list("a, b:9,").is_ok());
        assert!(parse_server_list("a,b:c").is_err() && parse_server_list(" ,").is_err());
    }
}
