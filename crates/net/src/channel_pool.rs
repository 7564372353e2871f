//! Kept channels, one an address, connected at the first use and again after a loss.
//!
//! Invariant: at most [`CHANNELS_MAX`] are kept, however many addresses the routing tables bring.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::peer::Role;
use crate::transport::{TcpTransport, Transport, connect_lazy, for_role};
use parking_lot::RwLock;
use seqsvr_core::server_address::{BadAddress, check_server_address};
use tonic::transport::{Channel, Endpoint};

/// Maximum channels kept. Above it, another one is dropped and connected again at its next use.
pub const CHANNELS_MAX: usize = 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time without traffic after which a connection is pinged; it fails when as much time again passes
/// in silence.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(3);

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

    /// Creates an empty pool over the same transport, whose channels lead only to servers with this
    /// role, as [`for_role`] does.
    pub fn for_role(&self, role: Role) -> ChannelPool {
        ChannelPool::with_transport(for_role(&self.transport, role))
    }

    /// Returns the channel of `host:port`, made if there is none; connecting happens at its first
    /// call. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The address, which another process may have sent, is not `host:port`.
    pub fn get(&self, address: &str) -> Result<Channel, BadAddress> {
        if let Some(channel) = self.kept.read().get(address) {
            return Ok(channel.clone());
        }
        check_server_address(address)?;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn channels_are_bounded_and_dropped_on_retain() {
        let channels = ChannelPool::new();
        for port in 1..=CHANNELS_MAX + 10 {
            channels.get(&format!("127.0.0.1:{port}")).unwrap();
        }
        assert_eq!(channels.kept.read().len(), CHANNELS_MAX);
        channels.get("127.0.0.1:5").unwrap();
        channels.retain(|address| address == "127.0.0.1:5");
        assert_eq!(channels.kept.read().len(), 1);
        // Never a path, a user, or another scheme of a URI.
        for text in [
            "not an address",
            "a:1/path",
            "user@a:1",
            "a:1?x",
            "a:1#x",
            "a",
        ] {
            assert!(channels.get(text).is_err(), "{text}");
        }
    }
}
