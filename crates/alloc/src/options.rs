//! Configuration of an AllocSvr, and its environment. Plain data.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_access::Access;
use seqsvr_core::ids::ClusterId;
use seqsvr_metrics::ServerSecurity;
use seqsvr_net::{TcpTransport, Transport};
use seqsvr_proto::limits::{
    CALLS_PER_CONNECTION_DEFAULT, CONNECTIONS_DEFAULT, ITEMS_MAX, MESSAGE_BYTES_MAX,
    QUEUED_ITEMS_DEFAULT,
};
use tokio::runtime::Handle;

use crate::clock::{Clock, SystemClock};

/// Configuration of an AllocSvr.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name, unique among live AllocSvrs: 1 to 64 of `a-z A-Z 0-9 _ . -`.
    pub name: String,
    /// Address on which it listens; port 0 takes a free port.
    pub listen: SocketAddr,
    /// Address at which clients reach it, if that is not `listen`. Needed if `listen` is 0.0.0.0 or
    /// `[::]`.
    pub advertise: Option<String>,
    /// Addresses of StoreSvrs, at least one.
    pub stores: Vec<String>,
    /// Directory of the session's proof, with which a restart on this host takes the place of its
    /// earlier session at once. None: a restart waits for that session to end.
    ///
    /// It also records the cluster: a process on it belongs to no other one.
    pub state_dir: Option<PathBuf>,
    /// Cluster to which this AllocSvr may change, although its state directory records another one.
    pub join_cluster: Option<ClusterId>,
    /// Maximum wait for an older session under the name or address to end; after it the start
    /// fails.
    pub name_conflict_timeout: Duration,
    /// Time without use after which a section is closed, approximately.
    pub section_idle_timeout: Duration,
    /// Memory of sections, in bytes, above which sections are closed even if they are busy.
    pub memory_budget: u64,
    /// Maximum connections; above it new connections are rejected.
    pub connections_max: usize,
    /// Maximum calls in progress on one connection; above it calls wait at the caller's side.
    pub streams_max: u32,
    /// Maximum items of calls that wait; above it calls are rejected with a retry hint. Less than
    /// `batch_items_max` counts as `batch_items_max`.
    pub queued_items_max: usize,
    /// Maximum items of one NextMany or CurrentMany, at most [`ITEMS_MAX`]; above it the request is
    /// rejected. The same on all AllocSvrs of a cluster, because a batch may be forwarded.
    pub batch_items_max: usize,
    /// Maximum size of a message in bytes, at most [`MESSAGE_BYTES_MAX`]. The same on all AllocSvrs
    /// of a cluster.
    pub message_max: usize,
    /// Judge of callers.
    pub access: Access,
    /// Protection of the server. It only shows in the status and the metrics.
    pub security: ServerSecurity,
    /// Seed of nonces and jitter, so that a simulation repeats; None: random.
    pub seed: Option<u64>,
}

/// Environment of an AllocSvr; a simulation provides its own.
#[derive(Clone)]
pub struct AllocEnvironment {
    /// The owner's clock.
    pub clock: Arc<dyn Clock>,
    /// Network.
    pub transport: Arc<dyn Transport>,
    /// Runtime of calls that memory cannot answer at once, so that they do not delay others. None:
    /// the runtime of everything else.
    pub background: Option<Handle>,
    /// Runtime of the lease: its keeper, the watcher of the routing table, and their connections to
    /// the stores. No call waits before a renewal there. None: the runtime of everything else.
    pub lease: Option<Handle>,
}

impl AllocEnvironment {
    /// Returns the environment of this machine.
    pub fn system() -> AllocEnvironment {
        AllocEnvironment {
            clock: Arc::new(SystemClock),
            transport: Arc::new(TcpTransport),
            background: None,
            lease: None,
        }
    }
}

impl Options {
    /// Returns defaults for everything but name, listen address and stores.
    pub fn new(name: impl Into<String>, listen: SocketAddr, stores: Vec<String>) -> Options {
        Options {
            name: name.into(),
            listen,
            advertise: None,
            stores,
            state_dir: None,
            join_cluster: None,
            name_conflict_timeout: Duration::from_secs(20),
            section_idle_timeout: Duration::from_secs(600),
            memory_budget: 8 << 30,
            connections_max: CONNECTIONS_DEFAULT,
            streams_max: CALLS_PER_CONNECTION_DEFAULT,
            queued_items_max: QUEUED_ITEMS_DEFAULT,
            batch_items_max: ITEMS_MAX,
            message_max: MESSAGE_BYTES_MAX,
            access: Access::by_role(),
            security: ServerSecurity::default(),
            seed: None,
        }
    }
}
