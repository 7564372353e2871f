//! Addresses of servers on loopback.

use std::net::SocketAddr;

/// Returns the loopback address with a port that the system chooses.
pub fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Returns the URL of a server.
pub fn http_url(address: SocketAddr) -> String {
    format!("http://{address}")
}
