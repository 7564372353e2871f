//! AllocSvr: hands out numbers from memory for the slots it owns under a lease.
//!
//! What lives here, in the order a request meets it:
//!
//! ```text
//! service ──> serve ──> take ──> core::section        the local path: no lock, one clock read
//!               │ miss
//!               ├─> sections  opens a section at the store
//!               ├─> refill    raises max_seq ahead of need
//!               ├─> guard     confirms with the store when a caller has seen more than we have
//!               └─> forward   sends the item on to its owner
//! moves: hands slots over to other owners, when the store has planned it or an operator asks
//! keeper: registers, renews the lease, learns the routing table      idle: closes idle sections
//! submit ──> stores: section commands, coalesced, to the StoreSvr leader
//! ```
//!
//! What it may not know: Raft, disks (but for the one small file of a state directory). It sees StoreSvr only through `Store` and `Admin` calls, and
//! time, randomness and network only through [`Environment`], its seed and tokio's timers, so that a
//! simulation can drive it.

mod admin;
mod ask;
mod clock;
mod counters;
mod forward;
mod guard;
mod idle;
mod keeper;
mod loaded;
mod moves;
mod node;
mod operate;
mod random;
mod refill;
mod sections;
mod serve;
mod service;
mod session;
mod shutdown;
mod state_dir;
mod stores;
mod submit;
mod table;
mod take;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use seqsvr_client::Channels;
use seqsvr_proto::limits::{CONNECTIONS_DEFAULT, ITEMS_MAX, MESSAGE_MAX, STREAMS_DEFAULT};
use seqsvr_proto::transport::{Connections, Listener, Tcp, Transport, incoming};
use seqsvr_proto::v1::admin_server::AdminServer;
use seqsvr_proto::v1::sequence_server::SequenceServer;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;

pub use clock::{Clock, SystemClock};

use crate::counters::Counters;
use crate::node::Node;
use crate::random::Random;
use crate::state_dir::StateDir;

/// How long a shutdown may take to hand over its slots; what is left then is freed with the session.
const HAND_OVER_MAX: Duration = Duration::from_secs(10);
/// How long a shutdown waits for calls in flight; a client may keep a stream open for ever.
const DRAIN_MAX: Duration = Duration::from_secs(6);

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
    /// Where the session's proof is kept, so that a restart on this host takes its place at once; None:
    /// an older session is waited for.
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
    /// Most items of one NextMany or CurrentMany, at most [`ITEMS_MAX`]; the same on all AllocSvrs of
    /// a cluster, because a batch may be forwarded.
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
}

impl Environment {
    /// This machine's.
    pub fn system() -> Environment {
        Environment {
            clock: Arc::new(SystemClock),
            transport: Arc::new(Tcp),
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
            items_max: ITEMS_MAX,
            message_max: MESSAGE_MAX,
            seed: None,
        }
    }
}

/// Why an AllocSvr did not start, or stopped by itself.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The options cannot be used.
    #[error("{0}")]
    Options(String),
    /// The listen address cannot be used.
    #[error(
        "cannot listen on {address}: {reason}; stop what uses it or choose another with --listen"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        reason: String,
    },
    /// The state directory cannot be used; the text says why and what to do.
    #[error("{0}")]
    StateDir(String),
    /// A living AllocSvr has the name.
    #[error(
        "the name {name:?} is taken by a living AllocSvr ({holder}); give this one another --name or stop the other"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// What the store says of the holder.
        holder: String,
    },
    /// The store refuses this AllocSvr for good.
    #[error("the store refuses this AllocSvr: {0}")]
    Refused(String),
    /// The gRPC server failed.
    #[error("the gRPC server failed: {0}")]
    Serve(String),
}

/// A running AllocSvr.
#[derive(Clone)]
pub struct Alloc {
    node: Arc<Node>,
    local_addr: SocketAddr,
    keeper: CancellationToken,
    all: CancellationToken,
    failed: watch::Receiver<Option<Error>>,
}

impl Alloc {
    /// Starts serving; registration goes on in the background. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Options`], [`Error::Listen`], [`Error::StateDir`].
    pub async fn start(options: Options) -> Result<Alloc, Error> {
        Alloc::start_in(options, Environment::system()).await
    }

    /// The same in another environment.
    ///
    /// # Errors
    /// As [`Alloc::start`].
    pub async fn start_in(options: Options, environment: Environment) -> Result<Alloc, Error> {
        let Environment { clock, transport } = environment;
        seqsvr_core::namespace::check_name("AllocSvr", &options.name).map_err(Error::Options)?;
        if options.stores.is_empty() {
            return Err(Error::Options(
                "name at least one store with --stores".into(),
            ));
        }
        let state_dir = options
            .state_dir
            .as_deref()
            .map(StateDir::open)
            .transpose()?;
        let refused = |e: std::io::Error| Error::Listen {
            address: options.listen,
            reason: e.to_string(),
        };
        let listener = transport.listen(options.listen).await.map_err(refused)?;
        let local_addr = listener.local_addr().map_err(refused)?;
        let channels = Channels::over(transport);
        let random = Random::new(options.seed);
        let stores = stores::Stores::new(&options.stores, channels.clone(), random.clone());
        let node = Arc::new(Node {
            address: options
                .advertise
                .clone()
                .unwrap_or_else(|| local_addr.to_string()),
            name: options.name.clone(),
            incarnation: random.draw(),
            name_wait: options.name_wait,
            state_dir: state_dir.map(Arc::new),
            clock,
            channels,
            submitter: submit::Submitter::new(stores.clone()),
            stores,
            table: table::Table::new(),
            session: ArcSwapOption::empty(),
            sections: sections::Sections::new(random.draw()),
            guard: guard::Guard::default(),
            moves: moves::Moves::new(),
            rounds: keeper::Rounds::new(),
            counters: Counters::default(),
            connections: Connections::new(options.connections_max),
            items_max: options.items_max.min(ITEMS_MAX),
            random,
            tasks: TaskTracker::new(),
        });
        let (failed_tx, failed) = watch::channel(None);
        let alloc = Alloc {
            node,
            local_addr,
            keeper: CancellationToken::new(),
            all: CancellationToken::new(),
            failed,
        };
        alloc.spawn(&options, listener, failed_tx);
        Ok(alloc)
    }

    fn spawn(
        &self,
        options: &Options,
        listener: Box<dyn Listener>,
        failed: watch::Sender<Option<Error>>,
    ) {
        let node = &self.node;
        let keeper = node.clone().run_keeper(self.keeper.clone());
        let server = serve_grpc(node.clone(), listener, options, self.all.clone());
        let all = self.all.clone();
        let failed = Arc::new(failed);
        let reported = failed.clone();
        node.tasks.spawn(async move {
            if let Err(error) = keeper.await {
                reported.send_replace(Some(error));
            }
        });
        // Routes are followed until the last connection has ended: calls still in flight at a
        // shutdown are sent on to the new owners.
        let served = CancellationToken::new();
        node.tasks.spawn(node.clone().run_watch(served.clone()));
        node.tasks.spawn(async move {
            if let Err(error) = server.await {
                failed.send_replace(Some(error));
            }
            served.cancel();
        });
        node.tasks.spawn(node.clone().run_guard(all.clone()));
        node.tasks.spawn(node.clone().run_idle(
            options.idle_after,
            options.memory_budget,
            self.keeper.clone(),
        ));
        node.tasks.spawn(node.submitter.clone().run(all));
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Whether it holds a valid lease now.
    pub fn has_lease(&self) -> bool {
        self.node.has_lease()
    }

    /// Waits for a reason to stop; never returns while all is well.
    pub async fn failed(&self) -> Error {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await {
            Ok(error) => error
                .clone()
                .unwrap_or_else(|| Error::Serve("unknown".into())),
            Err(_) => std::future::pending().await,
        }
    }

    /// Hands slots over to others, as far as there are others; then ends the session and stops. Calls
    /// still in flight have 6 s to end.
    pub async fn shutdown(&self) {
        self.node.drain(Instant::now() + HAND_OVER_MAX).await;
        self.keeper.cancel();
        self.node.close_session().await;
        self.all.cancel();
        self.node.tasks.close();
        let ended = tokio::time::timeout(DRAIN_MAX, self.node.tasks.wait()).await;
        if ended.is_err() {
            tracing::warn!("calls or streams are still open after {DRAIN_MAX:?}; not waited for");
        }
    }
}

fn serve_grpc(
    node: Arc<Node>,
    listener: Box<dyn Listener>,
    options: &Options,
    cancel: CancellationToken,
) -> impl Future<Output = Result<(), Error>> + use<> {
    let streams_max = options.streams_max;
    let message_max = options.message_max.min(MESSAGE_MAX);
    async move {
        let failed = |e: &dyn std::fmt::Display| Error::Serve(e.to_string());
        let (health_reporter, health) = tonic_health::server::health_reporter();
        let reporting = report_health(node.clone(), health_reporter, cancel.clone());
        node.tasks.spawn(reporting);
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(seqsvr_proto::DESCRIPTORS)
            .build_v1()
            .map_err(|e| failed(&e))?;
        let sequence = SequenceServer::new(service::SequenceService(node.clone()))
            .max_decoding_message_size(message_max)
            .max_encoding_message_size(MESSAGE_MAX);
        let incoming = incoming(listener, node.connections.clone());
        Server::builder()
            .max_concurrent_streams(streams_max)
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .add_service(health)
            .add_service(reflection)
            .add_service(sequence)
            .add_service(AdminServer::new(admin::AdminService(node)))
            .serve_with_incoming_shutdown(incoming, cancel.cancelled_owned())
            .await
            .map_err(|e| failed(&e))
    }
}

/// SERVING while the lease holds.
async fn report_health(
    node: Arc<Node>,
    reporter: tonic_health::server::HealthReporter,
    cancel: CancellationToken,
) {
    loop {
        if node.has_lease() {
            reporter
                .set_serving::<SequenceServer<service::SequenceService>>()
                .await;
        } else {
            reporter
                .set_not_serving::<SequenceServer<service::SequenceService>>()
                .await;
        }
        if cancel
            .run_until_cancelled(tokio::time::sleep(Duration::from_millis(500)))
            .await
            .is_none()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    use super::*;

    /// A health watch never ends by itself, and the server waits for its connections.
    #[tokio::test]
    async fn a_stream_that_stays_open_does_not_keep_a_shutdown_from_ending() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options::new("a1", any, vec!["127.0.0.1:1".into()]);
        let alloc = Alloc::start(options).await.unwrap();
        let channel = Channels::new().get(&alloc.local_addr().to_string());
        let mut client = HealthClient::new(channel.unwrap());
        let watched = client.watch(HealthCheckRequest::default()).await.unwrap();
        let mut stream = watched.into_inner();
        stream.message().await.unwrap().expect("the first state");
        tokio::time::timeout(2 * DRAIN_MAX, alloc.shutdown())
            .await
            .expect("the shutdown ends");
    }
}
