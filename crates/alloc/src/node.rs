//! State that all parts of one AllocSvr share.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::routing_table::RoutingTable;
use seqsvr_net::{CallLimiter, ChannelPool, ConnectionLimiter};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::background_executor::BackgroundExecutor;
use crate::clock::Clock;
use crate::metrics::call_metrics::CallMetrics;
use crate::metrics::counters::AllocCounters;
use crate::own_cluster::OwnCluster;
use crate::random::RandomSource;
use crate::sections::section_map::SectionMap;
use crate::session::current_session::CurrentSession;
use crate::session::renewal_signal::RenewalSignal;
use crate::session::routing_table_cell::RoutingTableCell;
use crate::session::state_dir::StateDir;
use crate::slots::slot_move_tracker::SlotMoveTracker;
use crate::slow_path::wait_limiter::WaitLimiter;
use crate::store_client::command_queue::CommandQueue;
use crate::store_client::ownership_verifier::OwnershipVerifier;
use crate::store_client::section_reader::SectionReader;
use crate::store_client::store_group::StoreGroupClient;

/// State of one AllocSvr process.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) incarnation: u64,
    pub(crate) name_wait: Duration,
    pub(crate) state_dir: Option<Arc<StateDir>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) channels: ChannelPool,
    pub(crate) store_group: StoreGroupClient,
    pub(crate) command_queue: CommandQueue,
    pub(crate) own_cluster: Arc<OwnCluster>,
    pub(crate) table: RoutingTableCell,
    pub(crate) session: Arc<CurrentSession>,
    pub(crate) sections: SectionMap,
    pub(crate) ownership_verifier: OwnershipVerifier,
    pub(crate) section_reader: SectionReader,
    pub(crate) wait_limiter: WaitLimiter,
    pub(crate) slot_moves: SlotMoveTracker,
    pub(crate) renewals: RenewalSignal,
    pub(crate) counters: AllocCounters,
    pub(crate) call_metrics: CallMetrics,
    pub(crate) connections: Arc<ConnectionLimiter>,
    pub(crate) calls: CallLimiter,
    /// Maximum items of one NextMany or CurrentMany; a larger request is rejected.
    pub(crate) items_max: usize,
    pub(crate) random: RandomSource,
    pub(crate) background_executor: BackgroundExecutor,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when calls in progress must end.
    pub(crate) stopping: CancellationToken,
}

impl Node {
    /// Spawns a background task that a shutdown waits for.
    pub(crate) fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.background_executor.spawn_tracked(&self.tasks, task);
    }

    /// Returns the routing table; waits for the first one until the deadline.
    pub(crate) async fn wait_for_table(
        &self,
        deadline: Instant,
    ) -> Result<Arc<RoutingTable>, RpcError> {
        if let Some(table) = self.table.load() {
            return Ok(table);
        }
        let mut version = self.table.subscribe();
        let _ = timeout_at(deadline, version.wait_for(|v| *v > 0)).await;
        self.table.load().ok_or_else(|| {
            let text = format!(
                "AllocSvr {} has no routing table yet; check that a store is reachable at {} and that the cluster is initialized",
                self.name,
                self.store_group.address_list()
            );
            RpcError::new(Reason::Unreachable, text)
        })
    }
}
