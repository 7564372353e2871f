//! A running store: starts everything in order, ends everything in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use seqsvr_core::server_address::is_unspecified_address;
use seqsvr_core::state::State;
use seqsvr_metrics::{HealthCheck, Registry, ServerProbe};
use seqsvr_net::{CallLimiter, ConnectionLimiter, Listener, SharedCall, TcpTransport, Transport};
use seqsvr_raft::RaftNode;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::address_check;
use crate::clock::{self, ArbiterClock, WallClock};
use crate::connection_server::StoreRuntimes;
use crate::context::{BACKUPS_MAX, STATUS_INTERVAL, StoreContext, WATCH_STREAMS_MAX};
use crate::drivers::{arbiter_driver, clock_requests};
use crate::error::Error;
use crate::grpc_server;
use crate::metrics;
use crate::options::Options;
use crate::proposer::Proposer;
use crate::read_index;
use crate::store_time::StoreTime;

/// Clocks and transport of a store: a simulation brings its own.
#[derive(Clone)]
pub struct StoreEnvironment {
    /// The arbiter's clocks.
    pub clock: ArbiterClock,
    /// The clock that store time is read from.
    pub wall_clock: WallClock,
    /// Network through which it reaches others, and they reach it.
    pub transport: Arc<dyn Transport>,
    /// Runtime of Raft, the arbiter, the proposer, and of the connections of other stores and of
    /// renewals: no other call waits before theirs. None: the runtime of everything else.
    pub core: Option<Handle>,
}

impl StoreEnvironment {
    /// Returns this machine's environment.
    pub fn system() -> StoreEnvironment {
        StoreEnvironment {
            clock: clock::system_clock(),
            wall_clock: clock::system_wall_clock(),
            transport: Arc::new(TcpTransport),
            core: None,
        }
    }
}

/// Handle to a running store; clones are cheap. Dropping it does not stop the store.
#[derive(Clone)]
pub struct StoreServer {
    pub(crate) context: Arc<StoreContext>,
    tasks: TaskTracker,
    listen_address: SocketAddr,
    server_failure: watch::Receiver<Option<String>>,
}

impl StoreServer {
    /// Starts a store: listens, opens the data directory, takes part. A store that belongs to no
    /// cluster waits for `seqsvr init`.
    ///
    /// # Errors
    /// The address is in use, or the data directory is not this store's or damaged; see [`Error`].
    pub async fn start(options: Options) -> Result<StoreServer, Error> {
        StoreServer::start_in(options, StoreEnvironment::system()).await
    }

    /// Starts a store, as [`StoreServer::start`] does, in another environment.
    ///
    /// # Errors
    /// As [`StoreServer::start`].
    pub async fn start_in(
        options: Options,
        environment: StoreEnvironment,
    ) -> Result<StoreServer, Error> {
        let runtimes = StoreRuntimes::new(environment.core.clone());
        let Some(core) = environment.core.clone() else {
            return StoreServer::start_on_core(options, environment, runtimes).await;
        };
        let starting = core.spawn(StoreServer::start_on_core(options, environment, runtimes));
        match AbortOnDropHandle::new(starting).await {
            Ok(started) => started,
            Err(error) => Err(seqsvr_raft::Error::Stopped(error.to_string()).into()),
        }
    }

    /// Starts a store whose core is the current runtime.
    async fn start_on_core(
        options: Options,
        environment: StoreEnvironment,
        runtimes: StoreRuntimes,
    ) -> Result<StoreServer, Error> {
        let StoreEnvironment {
            clock,
            wall_clock,
            transport,
            ..
        } = environment;
        let listener = bind_listener(transport.as_ref(), options.listen_address).await?;
        let listen_address = listener.local_addr().map_err(|source| Error::Listen {
            address: options.listen_address,
            source,
        })?;
        let listen_text = listen_address.to_string();
        let address = options.advertise_address.clone().unwrap_or(listen_text);
        if is_unspecified_address(&address) {
            return Err(Error::NoAdvertiseAddress(address));
        }
        let node = RaftNode::open(options.raft_options(address.clone()), transport).await?;
        let (read_index, read_index_runner) = read_index::create_batcher();
        let calls = CallLimiter::new(
            grpc_server::BUFFERED_BYTES_MAX,
            grpc_server::call_rule,
            grpc_server::OTHER_CALLS,
        );
        let context = Arc::new(StoreContext {
            node,
            address,
            own_address_reached: AtomicBool::new(false),
            proposer: Proposer::default(),
            read_index,
            arbiter: Mutex::default(),
            arbiter_due: Notify::new(),
            clock,
            store_time: StoreTime::new(wall_clock),
            watch_permits: Arc::new(Semaphore::new(WATCH_STREAMS_MAX)),
            connections: ConnectionLimiter::of_store("gRPC", options.connections_max),
            calls,
            backup_permits: Arc::new(Semaphore::new(BACKUPS_MAX)),
            cluster_status: SharedCall::new(STATUS_INTERVAL),
            namespaces: SharedCall::new(STATUS_INTERVAL),
            node_status: SharedCall::new(STATUS_INTERVAL),
            alteration_lock: tokio::sync::Mutex::default(),
            stop: CancellationToken::new(),
            security: options.security,
        });
        let serving = match grpc_server::serve(&context, listener, options.streams_max, runtimes) {
            Ok(serving) => serving,
            Err(e) => {
                context.node.shutdown().await;
                return Err(e);
            }
        };

        let tasks = TaskTracker::new();
        let (failure_sender, server_failure) = watch::channel(None);
        tasks.spawn(async move {
            if let Err(reason) = serving.await {
                failure_sender.send_replace(Some(format!("the store's server stopped: {reason}")));
            }
        });
        let (shared, stop) = (context.clone(), context.stop.clone());
        tasks.spawn(async move {
            read_index_runner
                .run(|| shared.run_quorum_round(), stop)
                .await
        });
        let (shared, stop) = (context.clone(), context.stop.clone());
        tasks.spawn(async move {
            shared
                .proposer
                .run(|batch| shared.write_entry(batch), stop)
                .await
        });
        tasks.spawn(arbiter_driver::run(context.clone()));
        tasks.spawn(clock_requests::run(context.clone()));
        let (shared, stop) = (context.clone(), context.stop.clone());
        tasks.spawn(async move {
            let checks = async {
                tokio::join!(
                    address_check::run(&shared),
                    address_check::warn_of_changed_address(&shared)
                )
            };
            stop.run_until_cancelled(checks).await;
        });
        tasks.close();
        Ok(StoreServer {
            context,
            tasks,
            listen_address,
            server_failure,
        })
    }

    /// Returns the address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.listen_address
    }

    /// Returns the address at which others reach it.
    pub fn advertise_address(&self) -> &str {
        &self.context.address
    }

    /// Returns the identity of this store.
    pub fn identity(&self) -> seqsvr_raft::NodeIdentity {
        self.context.node.identity()
    }

    /// Returns the format level of the cluster, as this store has applied it.
    pub fn format_level(&self) -> u32 {
        self.context.node.with_state(State::format_level)
    }

    /// Waits until the store has stopped by itself, and returns why: mostly a failed disk. The
    /// process should end with that as its last line.
    pub async fn wait_for_failure(&self) -> String {
        let mut raft = self.context.node.watch_failure();
        let mut server = self.server_failure.clone();
        let reason = tokio::select! {
            Ok(reason) = raft.wait_for(Option::is_some) => reason.clone(),
            Ok(reason) = server.wait_for(Option::is_some) => reason.clone(),
            // Both ended without a reason: the store received the stop signal.
            else => return std::future::pending().await,
        };
        reason.unwrap_or_default()
    }

    /// Stops serving, then taking part, and releases the data directory.
    pub async fn shutdown(&self) {
        self.context.stop.cancel();
        self.tasks.wait().await;
        self.context.node.shutdown().await;
    }
}

impl ServerProbe for StoreServer {
    fn register_metrics(&self, registry: &mut Registry) {
        metrics::register_collectors(&self.context, registry);
    }

    fn permanent_failure(&self) -> Option<String> {
        let raft = self.context.node.watch_failure().borrow().clone();
        raft.or_else(|| self.server_failure.borrow().clone())
    }

    fn health_checks(&self) -> Vec<HealthCheck> {
        metrics::health_checks(&self.context)
    }
}

/// View of a running store for the judges of a simulation.
#[cfg(sim)]
impl StoreServer {
    /// Returns a view of the node of this store. Waits for nothing.
    pub fn look(&self) -> seqsvr_raft::sim::NodeView {
        self.context.node.look()
    }

    /// Reads the state that this store has applied.
    pub fn with_state<T>(&self, read: impl FnOnce(&seqsvr_core::state::State) -> T) -> T {
        self.context.node.with_state(read)
    }
}

/// Listens, or returns which process is in the way.
async fn bind_listener(
    transport: &dyn Transport,
    address: SocketAddr,
) -> Result<Box<dyn Listener>, Error> {
    transport.listen(address).await.map_err(|source| {
        if source.kind() == io::ErrorKind::AddrInUse {
            Error::AddressInUse(address)
        } else {
            Error::Listen { address, source }
        }
    })
}
