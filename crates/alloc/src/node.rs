//! State that all parts of one AllocSvr share.

use std::sync::Arc;

use seqsvr_net::{CallLimiter, ChannelPool, ConnectionLimiter};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alloc_identity::AllocIdentity;
use crate::background_executor::BackgroundExecutor;
use crate::fast_path::FastPath;
use crate::metrics::call_metrics::CallMetrics;
use crate::metrics::counters::AllocCounters;
use crate::own_cluster::OwnCluster;
use crate::random::RandomSource;
use crate::sections::section_lifecycle::SectionLifecycle;
use crate::sections::section_map::SectionMap;
use crate::session::current_session::CurrentSession;
use crate::session::renewal_signal::RenewalSignal;
use crate::session::routing_table_cell::RoutingTableCell;
use crate::slots::slot_mover::SlotMover;
use crate::slow_path::SlowPath;
use crate::store_client::command_queue::CommandQueue;
use crate::store_client::ownership_verifier::OwnershipVerifier;
use crate::store_client::section_reader::SectionReader;
use crate::store_client::store_group::StoreGroupClient;

/// State of one AllocSvr process.
pub(crate) struct Node {
    pub(crate) identity: Arc<AllocIdentity>,
    pub(crate) channels: ChannelPool,
    pub(crate) stores: StoreGroupClient,
    pub(crate) command_queue: CommandQueue,
    pub(crate) own_cluster: Arc<OwnCluster>,
    pub(crate) table: Arc<RoutingTableCell>,
    pub(crate) session: Arc<CurrentSession>,
    pub(crate) sections: Arc<SectionMap>,
    pub(crate) lifecycle: Arc<SectionLifecycle>,
    pub(crate) ownership_verifier: Arc<OwnershipVerifier>,
    pub(crate) section_reader: Arc<SectionReader>,
    pub(crate) slow_path: Arc<SlowPath>,
    pub(crate) fast_path: Arc<FastPath>,
    pub(crate) slot_mover: Arc<SlotMover>,
    pub(crate) renewals: Arc<RenewalSignal>,
    pub(crate) counters: Arc<AllocCounters>,
    pub(crate) call_metrics: Arc<CallMetrics>,
    pub(crate) connections: Arc<ConnectionLimiter>,
    pub(crate) calls: CallLimiter,
    /// Maximum items of one NextMany or CurrentMany; a larger request is rejected.
    pub(crate) items_max: usize,
    pub(crate) random: RandomSource,
    pub(crate) background: BackgroundExecutor,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when calls in progress must end.
    pub(crate) stopping: CancellationToken,
}
