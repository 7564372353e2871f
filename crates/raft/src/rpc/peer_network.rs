//! Calls to the other nodes: one kept channel for each peer, which reconnects at its next call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::RaftNetworkFactory;
use parking_lot::Mutex;
use seqsvr_net::tls::Role;
use seqsvr_net::{Transport, connect_lazy, for_role};
use seqsvr_proto::v1::raft_client::RaftClient;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tonic::transport::{Channel, Endpoint};

use crate::rpc::identity_check::IdentityCheck;
use crate::rpc::lag_bound::LagBound;
use crate::rpc::peer_client::{MESSAGE_BYTES_MAX, PeerClient, PeerContext};
use crate::rpc::peer_levels::PeerLevels;
use crate::state::snapshot_turns::SnapshotTurns;
use crate::types::{Peer, TypeConfig};

/// Time after which a silent connection is given up.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Factory of connections; keeps one channel for each address.
#[derive(Clone)]
pub(crate) struct PeerNetwork {
    context: PeerContext,
    transport: Arc<dyn Transport>,
    channels: Arc<Mutex<HashMap<String, Channel>>>,
    /// Runtime of the connections: that of Raft, whichever task connects first. In another one a
    /// heartbeat would wait behind its other tasks.
    runtime: Handle,
}

impl PeerNetwork {
    /// Creates a network; its connections belong to the current runtime. It sends no entries to
    /// followers that lag by more than this bound, and no snapshot while a newer one is built.
    pub(crate) fn new(
        identity_check: Arc<IdentityCheck>,
        transport: Arc<dyn Transport>,
        lag_bound: LagBound,
        turns: SnapshotTurns,
    ) -> PeerNetwork {
        PeerNetwork {
            context: PeerContext {
                identity_check,
                acks: Arc::default(),
                peer_levels: Arc::default(),
                rejection_log_throttle: Arc::default(),
                removal_log_throttle: Arc::default(),
                snapshot_log_throttle: Arc::default(),
                silence_log: Arc::default(),
                snapshot_suspicions: Arc::default(),
                lag_bound,
                turns,
            },
            transport: for_role(&transport, Role::Store),
            channels: Arc::default(),
            runtime: Handle::current(),
        }
    }

    /// Returns the format levels that the peers support.
    pub(crate) fn peer_levels(&self) -> &PeerLevels {
        &self.context.peer_levels
    }

    /// Returns a notification that a receiver rejected a snapshot of this node as damaged, or that
    /// it did not read back.
    pub(crate) fn snapshot_suspicions(&self) -> Arc<Notify> {
        self.context.snapshot_suspicions.clone()
    }

    pub(crate) fn connect(&self, target: u64, peer: &Peer) -> PeerClient {
        PeerClient {
            client: self.kept_channel(&peer.address).map(|channel| {
                RaftClient::new(channel)
                    .max_decoding_message_size(MESSAGE_BYTES_MAX)
                    .max_encoding_message_size(MESSAGE_BYTES_MAX)
            }),
            context: self.context.clone(),
            target,
            peer: peer.clone(),
        }
    }

    /// Addresses come from the membership, so the map is bounded by its size over time.
    fn kept_channel(&self, address: &str) -> Result<Channel, String> {
        let mut channels = self.channels.lock();
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let channel = self.new_channel(address)?;
        channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    /// Returns a channel that is not kept.
    pub(crate) fn new_channel(&self, address: &str) -> Result<Channel, String> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|e| format!("{address} is not an address: {e}"))?
            .connect_timeout(KEEP_ALIVE_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE_TIMEOUT)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        let _in = self.runtime.enter();
        Ok(connect_lazy(self.transport.clone(), &endpoint))
    }
}

impl RaftNetworkFactory<TypeConfig> for PeerNetwork {
    type Network = PeerClient;

    async fn new_client(&mut self, target: u64, node: &Peer) -> PeerClient {
        self.connect(target, node)
    }
}
