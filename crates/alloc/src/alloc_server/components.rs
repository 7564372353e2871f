//! Builds the components of one AllocSvr, lowest layer first. Each gets what all share, and of the
//! others those that it uses; only the server holds them all.

use std::sync::Arc;

use seqsvr_net::{CallLimiter, ConnectionLimiter};
use seqsvr_proto::limits::ITEMS_MAX;
use tokio::runtime::Handle;

use crate::api::admin_service::AdminService;
use crate::api::collector::AllocCollector;
use crate::api::grpc_server::{BUFFERED_BYTES_MAX, GrpcServer, OTHER_CALLS, call_rule};
use crate::api::ids_service::IdsService;
use crate::api::sequence_parts::SequenceParts;
use crate::api::slot_operations::SlotOperations;
use crate::fast_path::FastPath;
use crate::ids::family_holders::FamilyHolders;
use crate::ids::worker_relay::WorkerRelay;
use crate::lease::address_check::AddressCheck;
use crate::lease::lease_keeper::LeaseKeeper;
use crate::lease::table_watcher::TableWatcher;
use crate::metrics::recent_load::LoadSampler;
use crate::options::Options;
use crate::sections::evictor::Evictor;
use crate::sections::refiller::Refiller;
use crate::sections::section_lifecycle::SectionLifecycle;
use crate::sections::section_map::SectionMap;
use crate::sections::table_updater::TableUpdater;
use crate::session::state_dir::StateDir;
use crate::shared_parts::SharedParts;
use crate::slots::slot_move_tracker::SlotMoveTracker;
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

/// Components that the server keeps.
pub(crate) struct AllocComponents {
    pub(crate) shared: SharedParts,
    pub(crate) stores: StoreGroupClient,
    pub(crate) sections: Arc<SectionMap>,
    pub(crate) slot_mover: Arc<SlotMover>,
    pub(crate) sequence: Arc<SequenceParts>,
    pub(crate) worker_relay: WorkerRelay,
    pub(crate) admin: AdminService,
    pub(crate) collector: AllocCollector,
    pub(crate) address_check: Arc<AddressCheck>,
}

/// Components that run as tasks of their own.
pub(super) struct AllocTasks {
    pub(super) cluster_watch: ClusterWatch,
    pub(super) lease_keeper: LeaseKeeper,
    pub(super) table_watcher: TableWatcher,
    pub(super) grpc_server: GrpcServer,
    pub(super) ownership_verifier: Arc<OwnershipVerifier>,
    pub(super) section_reader: Arc<SectionReader>,
    pub(super) evictor: Evictor,
    pub(super) command_queue: CommandQueue,
    pub(super) worker_relay: WorkerRelay,
    pub(super) load_sampler: LoadSampler,
}

impl AllocComponents {
    /// Builds the components that the server keeps.
    pub(super) fn build(
        options: &Options,
        shared: SharedParts,
        lease_stores: &StoreGroupClient,
    ) -> AllocComponents {
        let batch_items_max = options.batch_items_max.min(ITEMS_MAX);

        // The store.
        let stores = lease_stores.on_own_connections();
        let relay_stores = lease_stores.for_relayed_calls();
        let command_queue = CommandQueue::new(stores.clone());
        let worker_relay =
            WorkerRelay::new(shared.own_cluster.clone(), lease_stores.for_relayed_calls());

        // Sections.
        let sections = Arc::new(SectionMap::new(shared.random.draw()));
        let lifecycle = Arc::new(SectionLifecycle::new(
            shared.clone(),
            sections.clone(),
            command_queue.clone(),
        ));
        let refiller = Arc::new(Refiller {
            shared: shared.clone(),
            sections: sections.clone(),
            stores: stores.clone(),
            command_queue: command_queue.clone(),
        });

        // Fast path, slots and slow path.
        let fast_path = Arc::new(FastPath {
            shared: shared.clone(),
            sections: sections.clone(),
            refiller: refiller.clone(),
        });
        let slot_mover = Arc::new(SlotMover {
            shared: shared.clone(),
            sections: sections.clone(),
            stores: stores.clone(),
            command_queue,
            runtime: Handle::current(),
            tracker: SlotMoveTracker::new(),
        });
        let counters = shared.counters.clone();
        let slow_path = Arc::new(SlowPath {
            shared: shared.clone(),
            sections: sections.clone(),
            lifecycle,
            refiller,
            stores: stores.clone(),
            ownership_verifier: Arc::new(OwnershipVerifier::new(stores.clone(), counters)),
            section_reader: Arc::new(SectionReader::new(stores.clone())),
            forwarder: Forwarder {
                shared: shared.clone(),
            },
            wait_limiter: WaitLimiter::new(options.queued_items_max.max(batch_items_max)),
        });

        // Ids.
        let families = Arc::new(FamilyHolders::new(shared.clone(), worker_relay.clone()));

        // Metrics and services.
        let collector = AllocCollector {
            shared: shared.clone(),
            sections: sections.clone(),
            slot_mover: slot_mover.clone(),
            slow_path: slow_path.clone(),
            families: families.clone(),
            connections: ConnectionLimiter::new("gRPC", options.connections_max),
            calls: CallLimiter::new(BUFFERED_BYTES_MAX, call_rule, OTHER_CALLS)
                .with_access(options.access.clone()),
            recent_load: Arc::default(),
            security: options.security,
        };
        let slot_operations = SlotOperations {
            shared: shared.clone(),
            stores: relay_stores.clone(),
            slot_mover: slot_mover.clone(),
        };
        let admin = AdminService::new(
            shared.clone(),
            relay_stores,
            slot_operations,
            collector.clone(),
        );
        AllocComponents {
            sequence: Arc::new(SequenceParts {
                shared: shared.clone(),
                fast_path,
                slow_path,
                families,
                batch_items_max,
                changes: collector.calls.changes(),
                access: options.access.clone(),
            }),
            address_check: Arc::new(AddressCheck::new(shared.clone())),
            shared,
            stores,
            sections,
            slot_mover,
            worker_relay,
            admin,
            collector,
        }
    }

    /// Builds the components that run as tasks of their own.
    pub(super) fn build_tasks(
        &self,
        options: &Options,
        lease_stores: StoreGroupClient,
        state_dir: Option<Arc<StateDir>>,
        expected_cluster: Option<ExpectedCluster>,
    ) -> AllocTasks {
        let table_updater = Arc::new(TableUpdater {
            shared: self.shared.clone(),
            sections: self.sections.clone(),
        });
        let slow_path = &self.sequence.slow_path;
        AllocTasks {
            cluster_watch: ClusterWatch {
                shared: self.shared.clone(),
                stores: self.stores.clone(),
                expected: expected_cluster,
            },
            lease_keeper: LeaseKeeper {
                shared: self.shared.clone(),
                name_conflict_timeout: options.name_conflict_timeout,
                state_dir,
                address_check: self.address_check.clone(),
                stores: lease_stores.clone(),
                sections: self.sections.clone(),
                table_updater: table_updater.clone(),
                slot_mover: self.slot_mover.clone(),
            },
            table_watcher: TableWatcher {
                shared: self.shared.clone(),
                stores: lease_stores,
                table_updater,
            },
            grpc_server: GrpcServer {
                sequence: self.sequence.clone(),
                ids: IdsService {
                    sequence: self.sequence.clone(),
                    worker_relay: self.worker_relay.for_callers(),
                },
                admin: self.admin.clone(),
                connections: self.collector.connections.clone(),
                calls: self.collector.calls.clone(),
                streams_max: options.streams_max,
                message_max: options.message_max,
            },
            ownership_verifier: slow_path.ownership_verifier.clone(),
            section_reader: slow_path.section_reader.clone(),
            evictor: Evictor {
                shared: self.shared.clone(),
                sections: self.sections.clone(),
                lifecycle: slow_path.lifecycle.clone(),
                section_idle_timeout: options.section_idle_timeout,
                budget: options.memory_budget,
            },
            command_queue: self.slot_mover.command_queue.clone(),
            worker_relay: self.worker_relay.clone(),
            load_sampler: LoadSampler {
                counters: self.shared.counters.clone(),
                call_metrics: self.shared.call_metrics.clone(),
                recent_load: self.collector.recent_load.clone(),
            },
        }
    }
}
