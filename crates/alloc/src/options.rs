//! How an AllocSvr is set up, what it has of the world, and why it may not start. Plain data.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_proto::limits::{
    CONNECTIONS_DEFAULT, ITEMS_MAX, MESSAGE_MAX, STREAMS_DEFAULT, WAITING_DEFAULT,
};
use seqsvr_proto::transport::{Tcp, Transport};
use tokio::runtime::Handle;

use crate::clock::{Clock, SystemClock};

/// How an AllocSvr is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Unique among living AllocSvrs: 1 to 64 of `a-z A-Z 0-9 _ . -`.
    pub name: String,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where clients reach it, if that is not `listen`.
    pub advertise: Option<String>,
    /// Addresses of StoreSvrs, at least one.
    pub stores: Vec<String>,
    /// Where the session's proof is kept, so that a restart on this host takes its place at once;
    /// None: an older session is waited for.
    pub state_dir: Option<PathBuf>,
    /// How long to wait for an older session under the name to end before giving up.
    pub name_wait: Duration,
    /// A section unused for about this long is closed.
    pub idle_after: Duration,
    /// Bytes of section memory above which sections are closed even if busy.
    pub memory_budget: u64,
    /// Most connections at a time; more are refused.
    pub connections_max: usize,
    /// Most calls of one connection at a time; more wait at the caller's side.
    pub streams_max: u32,
    /// Most items of calls that have to wait, at a time; more are refused, to come again. Less than
    /// `items_max` counts as `items_max`.
    pub waiting_max: usize,
    /// Most items of one NextMany or CurrentMany, at most [`ITEMS_MAX`]; the same on all AllocSvrs
    /// of a cluster, because a batch may be forwarded.
    pub items_max: usize,
    /// Largest message, bytes, at most [`MESSAGE_MAX`]; the same on all AllocSvrs of a cluster.
    pub message_max: usize,
    /// Seed of nonces and jitter, so that a simulation repeats; None: random.
    pub seed: Option<u64>,
}

/// What an AllocSvr has of the world: a simulation brings its own.
#[derive(Clone)]
pub struct Environment {
    /// The owner's clock.
    pub clock: Arc<dyn Clock>,
    /// Where others are reached, and reach it.
    pub transport: Arc<dyn Transport>,
    /// Where calls are served that memory cannot answer at once, lest they keep others waiting;
    /// None: where everything else runs.
    pub background: Option<Handle>,
}

impl Environment {
    /// This machine's.
    pub fn system() -> Environment {
        Environment {
            clock: Arc::new(SystemClock),
            transport: Arc::new(Tcp),
            background: None,
        }
    }
}

impl Options {
    /// Defaults for everything but name, listen address and stores.
    pub fn new(name: impl Into<String>, listen: SocketAddr, stores: Vec<String>) -> Options {
        Options {
            name: name.into(),
            listen,
            advertise: None,
            stores,
            state_dir: None,
            name_wait: Duration::from_secs(20),
            idle_after: Duration::from_secs(600),
            memory_budget: 8 << 30,
            connections_max: CONNECTIONS_DEFAULT,
            streams_max: STREAMS_DEFAULT,
            waiting_max: WAITING_DEFAULT,
            items_max: ITEMS_MAX,
            message_max: MESSAGE_MAX,
            seed: None,
        }
    }
}
