//! Under what name and address this AllocSvr registers, and where its page is.

use std::net::SocketAddr;
use std::sync::OnceLock;

use seqsvr_core::server_address::is_loopback_address;

/// Identity of one AllocSvr process.
#[derive(Clone, Debug)]
pub(crate) struct AllocIdentity {
    /// Name, unique among live AllocSvrs.
    pub(crate) name: String,
    /// Address at which clients and other AllocSvrs reach it.
    pub(crate) address: String,
    /// Random number of this process.
    pub(crate) incarnation: u64,
    /// Address of its page, once it has one to which other pages may link.
    pub(crate) http_address: OnceLock<String>,
}

impl AllocIdentity {
    /// Records the address on which the HTTP endpoint with the page listens. If that is every
    /// address of the machine, the page has the host of `address`. On loopback beside another
    /// `address` it has none: a link to it would lead to the machine of the reader.
    pub(crate) fn set_http_address(&self, listen: SocketAddr) {
        if listen.ip().to_canonical().is_loopback() && !is_loopback_address(&self.address) {
            return;
        }
        let host = self.address.rsplit_once(':').map_or("", |(host, _)| host);
        let address = if listen.ip().to_canonical().is_unspecified() {
            format!("{host}:{}", listen.port())
        } else {
            listen.to_string()
        };
        // An AllocSvr has one page.
        let _ = self.http_address.set(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_announced_at_an_address_for_those_that_reach_the_server() {
        for (address, listen, expected) in [
            ("10.0.0.7:7700", "0.0.0.0:7780", Some("10.0.0.7:7780")),
            ("[fd00::7]:7700", "[::]:7780", Some("[fd00::7]:7780")),
            ("10.0.0.7:7700", "10.0.0.8:7780", Some("10.0.0.8:7780")),
            ("127.0.0.1:7700", "127.0.0.1:81", Some("127.0.0.1:81")),
            ("localhost:7700", "[::1]:81", Some("[::1]:81")),
            ("10.0.0.7:7700", "127.0.0.1:81", None),
            ("a1.internal:7700", "[::1]:81", None),
            ("a1.internal:7700", "[::ffff:127.0.0.1]:81", None),
        ] {
            let identity = AllocIdentity {
                name: "a1".to_owned(),
                address: address.to_owned(),
                incarnation: 1,
                http_address: OnceLock::new(),
            };
            identity.set_http_address(listen.parse().unwrap());
            let announced = identity.http_address.get().map(String::as_str);
            assert_eq!(announced, expected, "{address} {listen}");
        }
    }
}
