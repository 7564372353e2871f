//! Builds the components of one AllocSvr, lowest layer first. Each gets what it needs and nothing
//! else; only the server holds them all.

use std::sync::Arc;

use seqsvr_net::{CallLimiter, ChannelPool, ConnectionLimiter};
use seqsvr_proto::limits::ITEMS_MAX;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alloc_identity::AllocIdentity;
use crate::api::admin_service::AdminService;
use crate::api::collector::AllocCollector;
use crate::api::grpc_server::{BUFFERED_BYTES_MAX, GrpcServer, call_shape};
use crate::api::sequence_parts::SequenceParts;
use crate::api::slot_operations::SlotOperations;
use crate::background_executor::BackgroundExecutor;
use crate::fast_path::FastPath;
use crate::lease::address_check::AddressCheck;
use crate::lease::lease_keeper::LeaseKeeper;
use crate::lease::table_watcher::TableWatcher;
use crate::metrics::call_metrics::CallMetrics;
use crate::metrics::counters::AllocCounters;
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
use crate::slots::slot_mover::SlotMover;
use crate::slow_path::SlowPath;
use crate::slow_path::forwarder::Forwarder;
use crate::slow_path::wait_limiter::WaitLimiter;
use crate::store_client::cluster_votes::ExpectedCluster;
use crate::store_client::cluster_watch::ClusterWatch;
use crate::store_client::command_queue::CommandQueue;
use crate::store_client::ownership_verifier::OwnershipVerifier;
use crate::store_client::section_reader::SectionReader;
use crate::store_client::store_group::StoreGroupClient;

/// Components that the server keeps, and those that run as tasks of their own.
pub(super) struct AllocComponents {
    pub(super) stores: StoreGroupClient,
    pub(super) sections: Arc<SectionMap>,
    pub(super) slot_mover: Arc<SlotMover>,
    pub(super) sequence: Arc<SequenceParts>,
    pub(super) admin: AdminService,
    pub(super) collector: AllocCollector,
    pub(super) address_check: Arc<AddressCheck>,
    pub(super) cluster_watch: ClusterWatch,
    pub(super) lease_keeper: LeaseKeeper,
    pub(super) table_watcher: TableWatcher,
    pub(super) grpc_server: GrpcServer,
    pub(super) ownership_verifier: Arc<OwnershipVerifier>,
    pub(super) section_reader: Arc<SectionReader>,
    pub(super) evictor: Evictor,
    pub(super) command_queue: CommandQueue,
    pub(super) background: BackgroundExecutor,
    /// Runtime of the lease.
    pub(super) lease: Handle,
    pub(super) tasks: TaskTracker,
    pub(super) stopping: CancellationToken,
}

impl AllocComponents {
    /// Builds the components of an AllocSvr that listens at `local_address`.
    pub(super) fn build(
        options: &Options,
        environment: AllocEnvironment,
        local_address: String,
        state_dir: Option<Arc<StateDir>>,
        expected_cluster: Option<ExpectedCluster>,
    ) -> AllocComponents {
        let AllocEnvironment {
            clock,
            transport,
            background,
            lease,
        } = environment;
        let lease = lease.unwrap_or_else(Handle::current);
        let batch_items_max = options.batch_items_max.min(ITEMS_MAX);

        // Shared by all.
        let counters = Arc::new(AllocCounters::default());
        let call_metrics = Arc::new(CallMetrics::default());
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        let background = BackgroundExecutor::new(background, tasks.clone());
        let random = RandomSource::new(options.seed);
        let channels = ChannelPool::with_transport(transport);
        let own_cluster = Arc::new(OwnCluster::default());
        let identity = Arc::new(AllocIdentity {
            name: options.name.clone(),
            address: options.advertise.clone().unwrap_or(local_address),
            incarnation: random.draw(),
        });

        // Session and table, and the store.
        let session = Arc::new(CurrentSession::new(clock.clone()));
        let table = Arc::new(RoutingTableCell::new(own_cluster.clone()));
        let renewals = Arc::new(RenewalSignal::new());
        let lease_stores = StoreGroupClient::new(
            &options.stores,
            channels.separate(),
            random.clone(),
            own_cluster.clone(),
            lease.clone(),
        );
        let stores = lease_stores.on_own_connections();
        let relay_stores = lease_stores.for_relayed_calls();
        let command_queue = CommandQueue::new(stores.clone());
        let ownership_verifier = Arc::new(OwnershipVerifier::new(stores.clone(), counters.clone()));
        let section_reader = Arc::new(SectionReader::new(stores.clone()));
        let cluster_watch = ClusterWatch::new(
            stores.clone(),
            own_cluster.clone(),
            expected_cluster,
            random.clone(),
        );

        // Sections.
        let sections = Arc::new(SectionMap::new(random.draw()));
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
        let evictor = Evictor::new(
            sections.clone(),
            lifecycle.clone(),
            renewals.clone(),
            options.section_idle_timeout,
            options.memory_budget,
        );
        let table_updater = Arc::new(TableUpdater::new(
            table.clone(),
            sections.clone(),
            renewals.clone(),
            counters.clone(),
        ));

        // Fast path and slots.
        let fast_path = Arc::new(FastPath::new(
            table.clone(),
            session.clone(),
            sections.clone(),
            refiller.clone(),
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

        // Slow path and lease.
        let slow_path = Arc::new(SlowPath::new(
            identity.clone(),
            own_cluster.clone(),
            session.clone(),
            table.clone(),
            renewals.clone(),
            sections.clone(),
            lifecycle,
            refiller,
            stores.clone(),
            ownership_verifier.clone(),
            section_reader.clone(),
            Forwarder::new(
                channels.clone(),
                own_cluster.clone(),
                table.clone(),
                renewals.clone(),
                counters.clone(),
                random.clone(),
            ),
            WaitLimiter::new(options.queued_items_max.max(batch_items_max)),
            counters.clone(),
            call_metrics.clone(),
            random.clone(),
        ));
        let address_check = Arc::new(AddressCheck::new(
            identity.clone(),
            channels.clone(),
            random.clone(),
        ));
        let lease_keeper = LeaseKeeper::new(
            identity.clone(),
            options.name_conflict_timeout,
            state_dir,
            clock,
            address_check.clone(),
            lease_stores.clone(),
            own_cluster.clone(),
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
            lease_stores,
            own_cluster.clone(),
            table.clone(),
            table_updater,
            random.clone(),
        );

        // Metrics and services.
        let connections = ConnectionLimiter::new(options.connections_max);
        let calls = CallLimiter::new(BUFFERED_BYTES_MAX, call_shape);
        let collector = AllocCollector::new(
            identity.clone(),
            own_cluster.clone(),
            session.clone(),
            table.clone(),
            renewals.clone(),
            sections.clone(),
            slot_mover.clone(),
            slow_path.clone(),
            counters,
            call_metrics.clone(),
            connections.clone(),
            calls.clone(),
            options.insecure,
        );
        let slot_operations = SlotOperations::new(
            identity,
            own_cluster.clone(),
            session.clone(),
            table.clone(),
            renewals.clone(),
            relay_stores.clone(),
            channels,
            slot_mover.clone(),
            random,
            tasks.clone(),
        );
        let admin = AdminService::new(
            own_cluster.clone(),
            relay_stores,
            renewals.clone(),
            slot_operations,
            collector.clone(),
        );
        let sequence = Arc::new(SequenceParts {
            fast_path,
            slow_path,
            own_cluster,
            session,
            table,
            renewals,
            call_metrics,
            background: background.clone(),
            batch_items_max,
            stopping: stopping.clone(),
        });
        let grpc_server = GrpcServer {
            sequence: sequence.clone(),
            admin: admin.clone(),
            connections,
            calls,
            tasks: tasks.clone(),
            streams_max: options.streams_max,
            message_max: options.message_max,
        };
        AllocComponents {
            stores,
            sections,
            slot_mover,
            sequence,
            admin,
            collector,
            address_check,
            cluster_watch,
            lease_keeper,
            table_watcher,
            grpc_server,
            ownership_verifier,
            section_reader,
            evictor,
            command_queue,
            background,
            lease,
            tasks,
            stopping,
        }
    }
}
