//! Calls to the other nodes: one kept channel for each peer, which reconnects at its next call.

mod calls;
mod connection;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use connection::Connection;
use openraft::RaftNetworkFactory;
use parking_lot::Mutex;
use seqsvr_proto::transport::{Transport, connect_lazy};
use seqsvr_proto::v1::raft_client::RaftClient;
use tokio::sync::Notify;
use tonic::transport::{Channel, Endpoint};

use crate::frame;
use crate::gate::{Gate, Seldom};
use crate::lag::LagBound;
use crate::levels::SupportedLevels;
use crate::lost::Acknowledged;
use crate::turns::SnapshotTurns;
use crate::types::{Peer, TypeConfig};

/// Longest message either way. The largest append has [`crate::APPEND_BYTES_MAX`] and an entry of
/// [`crate::ENTRY_BYTES_MAX`]; one of an older build has [`crate::ENTRIES_PER_APPEND`] such
/// entries.
pub(crate) const MESSAGE_BYTES_MAX: usize = frame::BODY_MAX + (64 << 10);
/// Time after which a silent connection is given up.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Factory of connections; keeps one channel for each address.
#[derive(Clone)]
pub(crate) struct Network {
    gate: Arc<Gate>,
    transport: Arc<dyn Transport>,
    channels: Arc<Mutex<HashMap<String, Channel>>>,
    acknowledged: Arc<Acknowledged>,
    levels: Arc<SupportedLevels>,
    refusal_log_limit: Arc<Seldom>,
    removal_log_limit: Arc<Seldom>,
    snapshot_log_limit: Arc<Seldom>,
    suspected: Arc<Notify>,
    lag: Option<LagBound>,
    turns: SnapshotTurns,
}

impl Network {
    pub(crate) fn new(gate: Arc<Gate>, transport: Arc<dyn Transport>) -> Network {
        Network {
            gate,
            transport,
            channels: Arc::default(),
            acknowledged: Arc::default(),
            levels: Arc::default(),
            refusal_log_limit: Arc::default(),
            removal_log_limit: Arc::default(),
            snapshot_log_limit: Arc::default(),
            suspected: Arc::default(),
            lag: None,
            turns: SnapshotTurns::default(),
        }
    }

    /// Sends no entries to followers that lag by more than this bound, and no snapshot while a
    /// newer one is built.
    pub(crate) fn with_bounds(self, lag: LagBound, turns: SnapshotTurns) -> Network {
        Network {
            lag: Some(lag),
            turns,
            ..self
        }
    }

    /// Returns the format levels that the peers support.
    pub(crate) fn levels(&self) -> &SupportedLevels {
        &self.levels
    }

    /// Returns a notification that a receiver refused a snapshot of this node as damaged, or that
    /// it did not read back.
    pub(crate) fn suspected_snapshot(&self) -> Arc<Notify> {
        self.suspected.clone()
    }

    pub(crate) fn connect(&self, target: u64, peer: &Peer) -> Connection {
        Connection {
            client: self.channel(&peer.address).map(|channel| {
                RaftClient::new(channel)
                    .max_decoding_message_size(MESSAGE_BYTES_MAX)
                    .max_encoding_message_size(MESSAGE_BYTES_MAX)
            }),
            network: self.clone(),
            target,
            peer: peer.clone(),
        }
    }

    /// Addresses come from the membership, so the map is bounded by its size over time.
    fn channel(&self, address: &str) -> Result<Channel, String> {
        let mut channels = self.channels.lock();
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let channel = self.fresh(address)?;
        channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    /// Returns a channel that is not kept.
    pub(crate) fn fresh(&self, address: &str) -> Result<Channel, String> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|e| format!("{address} is not an address: {e}"))?
            .connect_timeout(KEEP_ALIVE)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        Ok(connect_lazy(self.transport.clone(), &endpoint))
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &Peer) -> Connection {
        self.connect(target, node)
    }
}
