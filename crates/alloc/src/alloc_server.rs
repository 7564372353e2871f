//! A running AllocSvr: builds its parts, runs its tasks, shuts down.

#[cfg(sim)]
pub(crate) mod sim_view;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_net::{CallLimiter, ChannelPool, ConnectionLimiter, Listener, LocalSequence};
use seqsvr_proto::limits::ITEMS_MAX;
use seqsvr_proto::v1::admin_server::Admin;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alloc_identity::AllocIdentity;
use crate::api::{admin_service, grpc_server, sequence_service};
use crate::background_executor::BackgroundExecutor;
use crate::error::Error;
use crate::fast_path::FastPath;
use crate::lease::lease_keeper::LeaseKeeper;
use crate::lease::table_watcher::TableWatcher;
use crate::metrics::call_metrics::CallMetrics;
use crate::metrics::counters::AllocCounters;
use crate::node::Node;
use crate::options::{AllocEnvironment, Options};
use crate::own_cluster::OwnCluster;
use crate::random::RandomSource;
use crate::sections::evictor::Evictor;
use crate::sections::refiller::Refiller;
use crate::sections::section_lifecycle::SectionLifecycle;
use crate::sections::section_map::SectionMap;
use crate::sections::table_updater::TableUpdater;
use crate::session::current_session::CurrentSession;
use crate::session::renewal_signal::RenewalSignal;
use crate::session::routing_table_cell::RoutingTableCell;
use crate::session::state_dir::StateDir;
use crate::slots::close_session::close_session;
use crate::slots::slot_mover::SlotMover;
use crate::slow_path::SlowPath;
use crate::slow_path::forwarder::Forwarder;
use crate::slow_path::wait_limiter::WaitLimiter;
use crate::store_client::command_queue::CommandQueue;
use crate::store_client::ownership_verifier::OwnershipVerifier;
use crate::store_client::section_reader::SectionReader;
use crate::store_client::store_group::StoreGroupClient;

/// Maximum time of a shutdown to hand over its slots. Slots that remain are freed with the session.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum wait of a shutdown for calls in flight, because a client may keep a stream open without
/// end. After it the shutdown completes without them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(6);

/// A running AllocSvr.
#[derive(Clone)]
pub struct AllocServer {
    pub(crate) node: Arc<Node>,
    local_addr: SocketAddr,
    lease_keeper: CancellationToken,
    lease_keeper_ended: CancellationToken,
    stopping: CancellationToken,
    /// Held until the server is gone, because its lock stands for the session. Schedule that breaks
    /// it, if only the lease keeper held it: a shutdown stops the keeper and waits for moves; the
    /// next process gets the lock and supersedes a session that still serves.
    _state_dir: Option<Arc<StateDir>>,
    pub(crate) failed: watch::Receiver<Option<Error>>,
}

impl AllocServer {
    /// Starts serving. Registration continues in the background. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Options`], [`Error::Listen`], [`Error::StateDir`].
    pub async fn start(options: Options) -> Result<AllocServer, Error> {
        AllocServer::start_in(options, AllocEnvironment::system()).await
    }

    /// Starts serving in this environment. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Options`], [`Error::Listen`], [`Error::StateDir`].
    pub async fn start_in(
        options: Options,
        environment: AllocEnvironment,
    ) -> Result<AllocServer, Error> {
        if cfg!(unleased) {
            tracing::warn!(
                "BUILT WITHOUT LEASE CHECKS (`--cfg unleased`), for tests only: all but strict answers may be out of order. Never run this build as a service"
            );
        }
        let AllocEnvironment {
            clock,
            transport,
            background,
        } = environment;
        seqsvr_core::namespace::validate_name("AllocSvr", &options.name).map_err(Error::Options)?;
        if options.stores.is_empty() {
            return Err(Error::Options(
                "name at least one store with --stores".into(),
            ));
        }
        let state_dir = options
            .state_dir
            .as_deref()
            .map(StateDir::open)
            .transpose()?
            .map(Arc::new);
        let listen_error = |e: std::io::Error| Error::Listen {
            address: options.listen,
            reason: e.to_string(),
        };
        let listener = transport
            .listen(options.listen)
            .await
            .map_err(listen_error)?;
        let local_addr = listener.local_addr().map_err(listen_error)?;
        let channels = ChannelPool::with_transport(transport);
        let random = RandomSource::new(options.seed);
        let cluster = Arc::new(OwnCluster::default());
        let stores = StoreGroupClient::new(
            &options.stores,
            channels.clone(),
            random.clone(),
            cluster.clone(),
        );
        let items_max = options.items_max.min(ITEMS_MAX);
        let (counters, tasks) = (Arc::new(AllocCounters::default()), TaskTracker::new());
        let stopping = CancellationToken::new();
        let background = BackgroundExecutor::new(background, tasks.clone());
        let identity = Arc::new(AllocIdentity {
            name: options.name.clone(),
            address: options
                .advertise
                .clone()
                .unwrap_or_else(|| local_addr.to_string()),
            incarnation: random.draw(),
        });
        let session = Arc::new(CurrentSession::new(clock.clone()));
        let table = Arc::new(RoutingTableCell::new(cluster.clone()));
        let renewals = Arc::new(RenewalSignal::new());
        let sections = Arc::new(SectionMap::new(random.draw()));
        let command_queue = CommandQueue::new(stores.clone());
        let lifecycle = Arc::new(SectionLifecycle::new(
            sections.clone(),
            table.clone(),
            renewals.clone(),
            command_queue.clone(),
            counters.clone(),
            random.clone(),
            background.clone(),
        ));
        let refiller = Arc::new(Refiller::new(
            sections.clone(),
            table.clone(),
            renewals.clone(),
            stores.clone(),
            command_queue.clone(),
            counters.clone(),
            clock.clone(),
            random.clone(),
            background.clone(),
            stopping.clone(),
        ));
        let table_updater = Arc::new(TableUpdater::new(
            table.clone(),
            sections.clone(),
            renewals.clone(),
            counters.clone(),
        ));
        let slot_mover = Arc::new(SlotMover::new(
            session.clone(),
            table.clone(),
            renewals.clone(),
            sections.clone(),
            stores.clone(),
            command_queue.clone(),
            counters.clone(),
            random.clone(),
            tasks.clone(),
        ));
        let fast_path = Arc::new(FastPath::new(
            table.clone(),
            session.clone(),
            sections.clone(),
            refiller.clone(),
            counters.clone(),
        ));
        let ownership_verifier = Arc::new(OwnershipVerifier::new(stores.clone(), counters.clone()));
        let section_reader = Arc::new(SectionReader::new(stores.clone()));
        let call_metrics = Arc::new(CallMetrics::default());
        let slow_path = Arc::new(SlowPath::new(
            identity.clone(),
            cluster.clone(),
            session.clone(),
            table.clone(),
            renewals.clone(),
            sections.clone(),
            lifecycle.clone(),
            refiller,
            stores.clone(),
            ownership_verifier.clone(),
            section_reader.clone(),
            Forwarder::new(
                channels.clone(),
                cluster.clone(),
                table.clone(),
                table_updater.clone(),
                counters.clone(),
                random.clone(),
            ),
            WaitLimiter::new(options.waiting_max.max(items_max)),
            counters.clone(),
            call_metrics.clone(),
            random.clone(),
        ));
        let lease_keeper = LeaseKeeper::new(
            identity.clone(),
            options.name_wait,
            state_dir.clone(),
            clock,
            stores.clone(),
            cluster.clone(),
            session.clone(),
            table.clone(),
            renewals.clone(),
            sections.clone(),
            table_updater.clone(),
            slot_mover.clone(),
            counters.clone(),
            random.clone(),
            tasks.clone(),
        );
        let table_watcher = TableWatcher::new(
            stores.clone(),
            cluster.clone(),
            table.clone(),
            table_updater,
            random.clone(),
        );
        let node = Arc::new(Node {
            identity,
            session,
            channels,
            command_queue,
            table,
            own_cluster: cluster,
            sections,
            lifecycle,
            ownership_verifier,
            section_reader,
            stores,
            slow_path,
            fast_path,
            slot_mover,
            renewals,
            counters,
            call_metrics,
            connections: ConnectionLimiter::new(options.connections_max),
            calls: CallLimiter::new("/seqsvr.v1.Sequence/", "Pipe"),
            items_max,
            random,
            background,
            tasks,
            stopping,
        });
        let (failed_tx, failed) = watch::channel(None);
        // All AllocSvrs of a process share the memory of its counters.
        seqsvr_core::section::add_memory_limit(options.memory_budget);
        let alloc = AllocServer {
            stopping: node.stopping.clone(),
            node,
            local_addr,
            lease_keeper: CancellationToken::new(),
            lease_keeper_ended: CancellationToken::new(),
            _state_dir: state_dir,
            failed,
        };
        alloc.spawn_tasks(&options, listener, lease_keeper, table_watcher, failed_tx);
        Ok(alloc)
    }

    fn spawn_tasks(
        &self,
        options: &Options,
        listener: Box<dyn Listener>,
        lease_keeper: LeaseKeeper,
        table_watcher: TableWatcher,
        failed: watch::Sender<Option<Error>>,
    ) {
        let node = &self.node;
        let lease_keeper = lease_keeper.run(self.lease_keeper.clone());
        let server =
            grpc_server::serve_grpc(node.clone(), listener, options, self.stopping.clone());
        let stopping = self.stopping.clone();
        let failed = Arc::new(failed);
        let failed_of_keeper = failed.clone();
        let ended_guard = self.lease_keeper_ended.clone().drop_guard();
        node.tasks.spawn(async move {
            let _ended_guard = ended_guard;
            if let Err(error) = lease_keeper.await {
                failed_of_keeper.send_replace(Some(error));
            }
        });
        // The table is followed until the last connection has ended, because calls still in flight
        // at a shutdown are forwarded to the new owners.
        let connections_ended = CancellationToken::new();
        node.tasks
            .spawn(table_watcher.run(connections_ended.clone()));
        node.tasks.spawn(async move {
            if let Err(error) = server.await {
                failed.send_replace(Some(error));
            }
            connections_ended.cancel();
        });
        let background = &node.background;
        background.spawn_tracked(node.ownership_verifier.clone().run(stopping.clone()));
        background.spawn_tracked(node.section_reader.clone().run(stopping.clone()));
        let evictor = Evictor::new(
            node.sections.clone(),
            node.lifecycle.clone(),
            node.renewals.clone(),
            options.idle_after,
            options.memory_budget,
        );
        background.spawn_tracked(evictor.run(self.lease_keeper.clone()));
        background.spawn_tracked(node.command_queue.clone().run(stopping));
    }

    /// Returns the address on which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Returns the `Sequence` service for calls within this process. A server of another protocol
    /// bounds its requests itself.
    pub fn sequence(&self) -> impl LocalSequence + use<> {
        sequence_service::SequenceService(self.node.clone())
    }

    /// Returns the `Admin` service for calls within this process.
    pub fn admin(&self) -> impl Admin + use<> {
        admin_service::AdminService(self.node.clone())
    }

    /// Whether it holds a valid lease now.
    pub fn has_lease(&self) -> bool {
        self.node.session.has_lease()
    }

    /// Waits for a fatal error and returns it. Never returns while there is none.
    pub async fn failed(&self) -> Error {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await {
            Ok(error) => error
                .clone()
                .unwrap_or_else(|| Error::Serve("unknown".into())),
            Err(_) => std::future::pending().await,
        }
    }

    /// Hands slots over to other AllocSvrs, if there are any, then ends the session and stops.
    /// Calls in flight have 6 s to end.
    pub async fn shutdown(&self) {
        self.node
            .slot_mover
            .drain_slots(Instant::now() + HANDOVER_TIMEOUT)
            .await;
        self.lease_keeper.cancel();
        self.lease_keeper_ended.cancelled().await;
        close_session(
            &self.node.session,
            &self.node.sections,
            self.node.slot_mover.tracker(),
            &self.node.stores,
        )
        .await;
        self.stopping.cancel();
        self.node.tasks.close();
        let drained = tokio::time::timeout(DRAIN_TIMEOUT, self.node.tasks.wait()).await;
        if drained.is_err() {
            tracing::warn!(timeout = ?DRAIN_TIMEOUT, "calls or streams are still open; shutdown does not wait for them");
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
    async fn shutdown_with_open_stream_ends() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options::new("a1", any, vec!["127.0.0.1:1".into()]);
        let alloc = AllocServer::start(options).await.unwrap();
        let channel = ChannelPool::new().get(&alloc.local_addr().to_string());
        let mut client = HealthClient::new(channel.unwrap());
        let watched = client.watch(HealthCheckRequest::default()).await.unwrap();
        let mut stream = watched.into_inner();
        stream.message().await.unwrap().expect("the first state");
        tokio::time::timeout(2 * DRAIN_TIMEOUT, alloc.shutdown())
            .await
            .expect("the shutdown ends");
    }
}
