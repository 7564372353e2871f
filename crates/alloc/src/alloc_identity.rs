//! Under what name and address this AllocSvr registers, and where its page is.

use std::net::SocketAddr;
use std::sync::OnceLock;

/// Identity of one AllocSvr process.
#[derive(Clone, Debug)]
pub(crate) struct AllocIdentity {
    /// Name, unique among live AllocSvrs.
    pub(crate) name: String,
    /// Address at which clients and other AllocSvrs reach it.
    pub(crate) address: String,
    /// Random number of this process.
    pub(crate) incarnation: u64,
    /// Address of its page, once it has one.
    pub(crate) http_address: OnceLock<String>,
}

impl AllocIdentity {
    /// Records the address on which the HTTP endpoint with the page listens. If that is every
    /// address of the machine, the page has the host of `address`.
    pub(crate) fn set_http_address(&self, listen: SocketAddr) {
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
    fn page_on_every_address_has_the_advertised_host() {
        for (address, listen, expected) in [
            ("10.0.0.7:7700", "0.0.0.0:7780", "10.0.0.7:7780"),
            ("[fd00::7]:7700", "[::]:7780", "[fd00::7]:7780"),
            ("10.0.0.7:7700", "127.0.0.1:81", "127.0.0.1:81"),
        ] {
            let identity = AllocIdentity {
                name: "a1".to_owned(),
                address: address.to_owned(),
                incarnation: 1,
                http_address: OnceLock::new(),
            };
            identity.set_http_address(listen.parse().unwrap());
            assert_eq!(identity.http_address.get().unwrap(), expected);
        }
    }
}
