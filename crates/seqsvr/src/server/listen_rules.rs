//! Rules that decide whether a server may listen on its addresses.
//!
//! Invariant: no server listens on an address that other machines reach, unless the endpoint is
//! under TLS or the operator set `--insecure`. The addresses of all endpoints are resolved and
//! checked together before the process creates a file or opens a port. What is checked is what is
//! bound: `bind` receives the resolved address, never a name. The addresses of the open ports are
//! checked once more.
//!
//! Schedule that breaks it: a name resolves to 127.0.0.1 when it is checked, and to the address of
//! a network card when the server binds.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::cli;
use crate::output::exit_code::BadInput;

/// Address of an endpoint, with the flag that sets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenAddress {
    flag: &'static str,
    address: SocketAddr,
    /// Whether its endpoint is under TLS.
    is_under_tls: bool,
}

impl ListenAddress {
    /// Resolves the value of a flag. `port` is the default.
    ///
    /// # Errors
    /// The name has no address.
    pub(crate) fn resolve(
        flag: &'static str,
        text: &str,
        port: u16,
    ) -> Result<ListenAddress, BadInput> {
        let address = cli::resolve_address(text, port)?;
        Ok(ListenAddress {
            flag,
            address,
            is_under_tls: false,
        })
    }

    /// Returns the address of an endpoint that is under TLS, or is not.
    pub(crate) fn under_tls(self, is_under_tls: bool) -> ListenAddress {
        ListenAddress {
            is_under_tls,
            ..self
        }
    }

    /// Returns whether its endpoint is under TLS.
    pub(crate) fn is_under_tls(&self) -> bool {
        self.is_under_tls
    }

    /// Returns the flag that sets it.
    pub(crate) fn flag(&self) -> &'static str {
        self.flag
    }

    /// Returns the address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address on which the endpoint listens now, under the same flag.
    pub(crate) fn with_bound(self, address: SocketAddr) -> ListenAddress {
        ListenAddress { address, ..self }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.flag, self.address)
    }
}

/// Rules for the addresses of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenRules {
    /// Kind of the server, as a word of its errors.
    pub(crate) server: &'static str,
    /// `--insecure`: every address is allowed.
    pub(crate) is_insecure: bool,
}

impl ListenRules {
    /// Checks the addresses of all endpoints.
    ///
    /// # Errors
    /// The rules do not allow an address. The text names its flag and what the operator can do.
    pub(crate) fn check(
        &self,
        addresses: impl IntoIterator<Item = ListenAddress>,
    ) -> Result<(), BadInput> {
        let rejected = addresses
            .into_iter()
            .filter(|at| !self.is_insecure && !at.is_under_tls && is_routable(at.address.ip()));
        let rejected: Vec<ListenAddress> = rejected.collect();
        if rejected.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = rejected.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "{}: other machines can reach this address, and this {} would serve every program that does: it has no TLS and checks no credentials. Use one of",
            names.join(", "),
            self.server
        );
        for at in rejected {
            let loopback = format!("{} 127.0.0.1:{}", at.flag, at.address.port());
            text.push_str(&format!("\n  {loopback:<30} this machine only"));
        }
        text.push_str(&format!(
            "\n  {:<30} TLS, for callers with a certificate (`seqsvr cert`), or a token",
            "--tls-dir DIR"
        ));
        text.push_str(&format!(
            "\n  {:<30} for labs: any program that reaches the address may do everything",
            "--insecure"
        ));
        Err(BadInput(text))
    }
}

/// Returns whether other machines can reach a server that listens on this address.
pub(crate) fn is_routable(address: IpAddr) -> bool {
    !address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(flag: &'static str, address: &str) -> ListenAddress {
        ListenAddress {
            flag,
            address: address.parse().unwrap(),
            is_under_tls: false,
        }
    }

    fn rules(is_insecure: bool) -> ListenRules {
        ListenRules {
            server: "AllocSvr",
            is_insecure,
        }
    }

    #[test]
    fn loopback_addresses_of_all_forms_are_allowed() {
        for address in [
            "127.0.0.1:1",
            "127.255.0.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(
                rules(false).check([at("--listen", address)]).is_ok(),
                "{address}"
            );
        }
    }

    #[test]
    fn routable_address_is_rejected_by_its_flag_unless_insecure() {
        for address in [
            "0.0.0.0:7700",
            "[::]:7700",
            "10.0.0.7:7700",
            "[::ffff:0.0.0.0]:7700",
            "[::ffff:10.0.0.7]:7700",
            "[fe80::1]:7700",
            "128.0.0.1:7700",
        ] {
            let listen = at("--listen", "127.0.0.1:1");
            let addresses = [listen, at("--redis-listen", address)];
            let error = rules(false).check(addresses).unwrap_err().to_string();
            let begin = format!("--redis-listen {}:", addresses[1].address);
            assert!(error.starts_with(&begin), "{error}");
            assert!(
                error.contains("--redis-listen 127.0.0.1:7700 ") && error.contains("--insecure "),
                "{error}"
            );
            assert!(rules(true).check(addresses).is_ok());
        }
    }

    #[test]
    fn every_routable_address_is_named() {
        let addresses = [
            at("--listen", "0.0.0.0:1"),
            at("--http-listen", "10.0.0.1:2"),
        ];
        let error = rules(false).check(addresses).unwrap_err().to_string();
        assert!(
            error.starts_with("--listen 0.0.0.0:1, --http-listen 10.0.0.1:2: "),
            "{error}"
        );
    }

    #[test]
    fn bound_address_is_checked_under_the_same_flag() {
        let listen = at("--listen", "127.0.0.1:1");
        let bound = listen.with_bound("10.0.0.1:1".parse().unwrap());
        let error = rules(false).check([bound]).unwrap_err().to_string();
        assert!(error.starts_with("--listen 10.0.0.1:1: "), "{error}");
    }
}
