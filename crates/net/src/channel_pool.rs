//! Kept channels, one an address, connected at the first use and again after a loss; and the token
//! that the calls over them show.
//!
//! Invariant: at most [`CHANNELS_MAX`] are kept, however many addresses the routing tables bring.
//!
//! Invariant: a token leaves this machine only under TLS, for a server that proved who it is.
//! Schedule that breaks it: a caller forgets its CA, and each machine between it and the server
//! reads the token; or a routing table names the address of another machine.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::peer::Role;
use crate::transport::{TcpTransport, Transport, connect_lazy, for_role};
use parking_lot::RwLock;
use seqsvr_core::server_address::{BadAddress, check_server_address, is_loopback_address};
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};

pub use token_file::{BadTokenFile, TokenFile};

mod token_file;

/// Maximum channels kept. Above it, another one is dropped and connected again at its next use.
pub const CHANNELS_MAX: usize = 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time without traffic after which a connection is pinged; it fails when as much time again passes
/// in silence.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(3);

/// Reason why a call does not show the token of its caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenNotSent {
    /// The connection has no TLS, and leads to another machine.
    #[error(
        "no token is sent to {0} without TLS, which other machines could read; give the CA of the cluster (`--ca`, `with_ca`) or a directory for TLS"
    )]
    Plaintext(String),
    /// The file cannot be used.
    #[error("token: {0}")]
    File(#[from] BadTokenFile),
}

/// Bounded map from address to channel; clones share it.
#[derive(Clone)]
pub struct ChannelPool {
    transport: Arc<dyn Transport>,
    /// What the caller shows in its calls.
    token: Option<TokenFile>,
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
            token: None,
            kept: Arc::default(),
        }
    }

    /// Returns an empty pool over the same transport, whose callers show the token of a file.
    #[must_use]
    pub fn with_token_file(&self, file: TokenFile) -> ChannelPool {
        ChannelPool {
            token: Some(file),
            ..self.separate()
        }
    }

    /// Creates an empty pool over the same transport: its channels have connections of their own.
    pub fn separate(&self) -> ChannelPool {
        ChannelPool {
            token: self.token.clone(),
            ..ChannelPool::with_transport(self.transport.clone())
        }
    }

    /// Creates an empty pool over the same transport, whose channels lead only to servers with this
    /// role, as [`for_role`] does. Stores take no tokens, and receive none.
    pub fn for_role(&self, role: Role) -> ChannelPool {
        ChannelPool {
            token: self.token.clone().filter(|_| role != Role::Store),
            ..ChannelPool::with_transport(for_role(&self.transport, role))
        }
    }

    /// Writes the token of the caller, if it has one, into the metadata of a call to `address`.
    /// Reads its file.
    ///
    /// # Errors
    /// The token must not be sent there, or the file cannot be used.
    pub fn authorize(&self, address: &str, metadata: &mut MetadataMap) -> Result<(), TokenNotSent> {
        let Some(file) = &self.token else {
            return Ok(());
        };
        if !self.transport.is_encrypted() && !is_loopback_address(address) {
            return Err(TokenNotSent::Plaintext(address.to_owned()));
        }
        Ok(file.write_metadata(metadata)?)
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
