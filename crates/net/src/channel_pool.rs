//! Kept channels, one an address, connected at the first use and again after a loss.
//!
//! Invariant: at most [`CHANNELS_MAX`] are kept, however many addresses the routing tables bring.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::tcp::TcpTransport;
use crate::transport::{Transport, connect_lazy};
use parking_lot::RwLock;
use tonic::transport::{Channel, Endpoint};

/// Maximum channels kept. Above it, another one is dropped and connected again at its next use.
pub const CHANNELS_MAX: usize = 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time without traffic after which a connection is pinged; it fails when as much time again passes
/// in silence.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(3);

/// An address that is not `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address:?} is not a server address: {why}; write host:port, such as 127.0.0.1:7700")]
pub struct BadAddress {
    /// The address as given.
    pub address: String,
    /// What is wrong with it.
    pub why: String,
}

/// Bounded map from address to channel; clones share it.
#[derive(Clone)]
pub struct ChannelPool {
    transport: Arc<dyn Transport>,
    kept: Arc<RwLock<HashMap<String, Channel>>>,
}

impl fmt::Debug for ChannelPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelPool({:?})", self.kept.read().keys())
    }
}

impl Default for ChannelPool {
    fn default() -> ChannelPool {
        ChannelPool::new()
    }
}

impl ChannelPool {
    /// Creates an empty pool; its channels are over TCP.
    pub fn new() -> ChannelPool {
        ChannelPool::with_transport(Arc::new(TcpTransport))
    }

    /// Creates an empty pool over another transport, as a simulation has it.
    pub fn with_transport(transport: Arc<dyn Transport>) -> ChannelPool {
        ChannelPool {
            transport,
            kept: Arc::default(),
        }
    }

    /// Creates an empty pool over the same transport: its channels have connections of their own.
    pub fn separate(&self) -> ChannelPool {
        ChannelPool::with_transport(self.transport.clone())
    }

    /// Returns the channel of `host:port`, made if there is none; connecting happens at its first
    /// call. Must be called inside a tokio runtime.
    pub fn get(&self, address: &str) -> Result<Channel, BadAddress> {
        if let Some(channel) = self.kept.read().get(address) {
            return Ok(channel.clone());
        }
        let endpoint =
            Endpoint::from_shared(format!("http://{address}")).map_err(|e| BadAddress {
                address: address.to_owned(),
                why: e.to_string(),
            })?;
        let mut kept = self.kept.write();
        if let Some(channel) = kept.get(address) {
            return Ok(channel.clone());
        }
        if kept.len() >= CHANNELS_MAX
            && let Some(victim) = kept.keys().next().cloned()
        {
            // A caller that still uses it holds a clone; only the next caller pays, with a new
            // connection.
            kept.remove(&victim);
        }
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_INTERVAL)
            .keep_alive_while_idle(true);
        let channel = connect_lazy(self.transport.clone(), &endpoint);
        kept.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    /// Drops the channels of addresses that `keep` rejects. Calls in flight on them continue.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.kept.write().retain(|address, _| keep(address));
    }

    /// Returns how many are kept.
    pub fn len(&self) -> usize {
        self.kept.read().len()
    }

    /// Returns whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the `host:port` of a server from what a person writes: `http://` may lead, and
/// `default_port` is used where none is written. Sends nothing to a name server.
pub fn parse_server_address(text: &str, default_port: u16) -> Result<String, BadAddress> {
    let bad = |why: &str| BadAddress {
        address: text.to_owned(),
        why: why.to_owned(),
    };
    if text.starts_with("https://") {
        return Err(bad("TLS is not served yet"));
    }
    let bare = text.trim().trim_start_matches("http://");
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    let good = |c: u8| c.is_ascii_alphanumeric() || b".-_:[]".contains(&c);
    if bare.is_empty() || !bare.bytes().all(good) {
        return Err(bad("no host, or characters that no host has"));
    }
    // An IPv6 address is in brackets. A colon after them, or the only colon, precedes a port.
    let (host, port) = match bare.rfind(':') {
        Some(colon) if !bare.ends_with(']') => (&bare[..colon], &bare[colon + 1..]),
        _ => (bare, ""),
    };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || (host.contains(':') && !bracketed) {
        return Err(bad("no host, or an IPv6 address without brackets"));
    }
    let port = match port {
        "" if bare.ends_with(':') => return Err(bad("no port after the colon")),
        "" => default_port,
        port => match port.parse::<u16>() {
            Ok(port) if port > 0 => port,
            _ => return Err(bad("a port is 1 to 65535")),
        },
    };
    Ok(format!("{host}:{port}"))
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
            "a:0",
            "a:65536",
            "a:b",
            "a b:1",
            "::1",
            "https://a:1",
            "a/b:1",
        ] {
            assert!(parse_server_address(text, 7700).is_err(), "{text:?}");
        }
    }

    #[tokio::test]
    async fn channels_are_bounded_and_dropped_on_retain() {
        let channels = ChannelPool::new();
        for port in 1..=CHANNELS_MAX + 10 {
            channels.get(&format!("127.0.0.1:{port}")).unwrap();
        }
        assert_eq!(channels.len(), CHANNELS_MAX);
        channels.get("127.0.0.1:5").unwrap();
        channels.retain(|address| address == "127.0.0.1:5");
        assert_eq!(channels.len(), 1);
        assert!(channels.get("not an address").is_err());
    }
}
