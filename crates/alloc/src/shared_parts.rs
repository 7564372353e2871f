//! What the components of one AllocSvr share.

use std::sync::{Arc, OnceLock};

use seqsvr_net::tls::Role;
use seqsvr_net::{ChannelPool, Transport, for_role};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alloc_identity::AllocIdentity;
use crate::background_executor::BackgroundExecutor;
use crate::metrics::call_metrics::CallMetrics;
use crate::metrics::counters::AllocCounters;
use crate::options::{AllocEnvironment, Options};
use crate::own_cluster::OwnCluster;
use crate::random::RandomSource;
use crate::session::current_session::CurrentSession;
use crate::session::renewal_signal::RenewalSignal;
use crate::session::routing_table_cell::RoutingTableCell;

/// Parts that components of one AllocSvr share. Each component has a clone of its own, so that it
/// reaches a part by one pointer.
#[derive(Clone)]
pub(crate) struct SharedParts {
    pub(crate) identity: Arc<AllocIdentity>,
    pub(crate) own_cluster: Arc<OwnCluster>,
    pub(crate) session: Arc<CurrentSession>,
    pub(crate) table: Arc<RoutingTableCell>,
    pub(crate) renewals: Arc<RenewalSignal>,
    pub(crate) counters: Arc<AllocCounters>,
    pub(crate) call_metrics: Arc<CallMetrics>,
    /// Connections to other AllocSvrs.
    pub(crate) channels: ChannelPool,
    /// Network to all servers.
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) random: RandomSource,
    pub(crate) background: BackgroundExecutor,
    /// Tasks that a shutdown waits for.
    pub(crate) tasks: TaskTracker,
    /// Canceled when calls in progress must end.
    pub(crate) stopping: CancellationToken,
}

impl SharedParts {
    /// Creates the parts of an AllocSvr that listens at `local_address`.
    pub(crate) fn new(
        options: &Options,
        environment: AllocEnvironment,
        local_address: String,
    ) -> SharedParts {
        let tasks = TaskTracker::new();
        let random = RandomSource::new(options.seed);
        let own_cluster = Arc::new(OwnCluster::default());
        SharedParts {
            identity: Arc::new(AllocIdentity {
                name: options.name.clone(),
                address: options.advertise.clone().unwrap_or(local_address),
                incarnation: random.draw(),
                http_address: OnceLock::new(),
            }),
            session: Arc::new(CurrentSession::new(environment.clock)),
            table: Arc::new(RoutingTableCell::new(own_cluster.clone())),
            own_cluster,
            renewals: Arc::default(),
            counters: Arc::default(),
            call_metrics: Arc::default(),
            channels: ChannelPool::with_transport(for_role(&environment.transport, Role::Alloc)),
            transport: environment.transport.clone(),
            random,
            background: BackgroundExecutor::new(environment.background, tasks.clone()),
            tasks,
            stopping: CancellationToken::new(),
        }
    }
}
