//! Operator of a run: initializes the cluster and administers it.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_client::Admin;
use seqsvr_core::family::{FamilyLimits, FamilySpec};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::layout::TickScale;
use seqsvr_core::namespace::{NamespaceLimits, NamespaceSpec};
use seqsvr_net::ChannelPool;
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::v1;
use seqsvr_proto::v1::store_client::StoreClient;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

use super::replaceable_client::create_client;
use super::run_context::{FAMILY, NAMESPACE, OperatorReport, RunContext, UIDS_PER_SECTION};
use crate::cluster::{initial_store_ids, store_address};
use crate::faults::OperatorCommand;
use crate::judges::id_judge::EPOCH_MS;
use crate::network::{MachineId, machine_transport};
use crate::plan::{ClusterSetup, FamilySetup, RunPlan};

const UID_MAX: u64 = 1_000;
/// Timeout of one request to a store.
const STORE_CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of the initialization of a cluster. After it, all disks are wiped.
const INIT_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of a change of the members. After it, the change is not retried.
const MEMBER_CHANGE_TIMEOUT: Duration = Duration::from_secs(20);

/// Operator, on the machine of a client.
pub struct ClusterOperator {
    id: MachineId,
    plan: RunPlan,
    context: Arc<RunContext>,
}

impl ClusterOperator {
    /// Creates the operator of a run.
    pub fn new(id: MachineId, plan: &RunPlan, context: Arc<RunContext>) -> ClusterOperator {
        ClusterOperator {
            id,
            plan: plan.clone(),
            context,
        }
    }

    /// Initializes the cluster as `seqsvr init` does, and creates its namespace and its family.
    pub async fn init_cluster(&self) {
        while timeout(
            INIT_TIMEOUT,
            self.init_with_id(self.context.next_cluster_id()),
        )
        .await
        .is_err()
        {
            self.context.reports.lock().push(OperatorReport::InitFailed);
        }
        let spec = namespace_spec(&self.plan.setup);
        // Each command has a client of its own. AllocSvrs of the former cluster may decide the
        // cluster of one, which then acts on no other.
        while create_client(self.id, &self.plan, &self.context)
            .admin()
            .create_namespace(&spec)
            .await
            .is_err()
        {
            sleep(Duration::from_millis(50)).await;
        }
        while let Some(family) = self.plan.setup.family
            && !self.create_family(family).await
        {
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Creates the family of ids. Returns whether the stores have it: until each of them is known
    /// to support families, they reject it.
    async fn create_family(&self, setup: FamilySetup) -> bool {
        let FamilySetup {
            worker_bits,
            seq_bits,
            ..
        } = setup;
        let layout = format!("0:1,time:41,worker:{worker_bits},seq:{seq_bits}").parse();
        let (Ok(layout), Ok(scale)) = (layout, TickScale::new(EPOCH_MS, setup.unit_ms)) else {
            unreachable!("a plan has a layout and a unit that are valid")
        };
        let limits = FamilyLimits {
            window_ms: setup.window_ms,
            ahead_ms: setup.ahead_ms,
            workers_per_holder: setup.workers_per_holder,
            ..FamilyLimits::DEFAULT
        };
        let admin = create_client(self.id, &self.plan, &self.context).admin();
        let spec = FamilySpec::new(FAMILY, layout, scale);
        admin.create_family(&spec, limits).await.is_ok()
    }

    /// Requests a cluster of this id from the stores, until one of them has initialized it. If a
    /// store already belongs to a cluster, finishes that one.
    async fn init_with_id(&self, new_cluster_id: u128) {
        let setup = &self.plan.setup;
        let channels = ChannelPool::with_transport(machine_transport(&self.context.net, self.id));
        let mut first_recipient = None;
        let mut descriptions = Vec::new();
        for id in initial_store_ids(setup) {
            descriptions.push(describe_store(&channels, id).await);
        }
        loop {
            // For a store that does not answer, the last description is used.
            for (id, description) in initial_store_ids(setup).zip(&mut descriptions) {
                if let Ok(newer) = timeout(STORE_CALL_TIMEOUT, describe_store(&channels, id)).await
                {
                    *description = newer;
                }
            }
            // Any store may receive the first request.
            let rotation = seqsvr_core::sim::draw_number("init") as usize % descriptions.len();
            descriptions.rotate_left(rotation);
            let initialized = descriptions
                .iter()
                .find(|description| !description.cluster.is_empty());
            let cluster = initialized.map_or_else(
                || u128_to_bytes(new_cluster_id),
                |description| description.cluster.clone(),
            );
            let member = |description: &v1::DescribeResponse| v1::Member {
                id: description.node,
                address: description.address.clone(),
                incarnation: description.incarnation,
            };
            let request = v1::InitRequest {
                cluster,
                members: descriptions.iter().map(member).collect(),
                lease_ms: setup.lease_ms as u32,
                slots: setup.slots,
            };
            // A store without the cluster would begin it a second time, unless it is the one that
            // received the first request.
            let recipient = first_recipient;
            let may_begin_cluster = |description: &&v1::DescribeResponse| {
                recipient.is_none_or(|recipient| {
                    recipient == (description.node, description.incarnation)
                })
            };
            let candidates = descriptions.iter().filter(|description| {
                !description.cluster.is_empty()
                    || (initialized.is_none() && may_begin_cluster(description))
            });
            let count = if initialized.is_none() { 1 } else { usize::MAX };
            for description in candidates.take(count) {
                first_recipient.get_or_insert((description.node, description.incarnation));
                let Ok(channel) = channels.get(&description.address) else {
                    continue;
                };
                let mut store = StoreClient::new(channel);
                if matches!(
                    timeout(STORE_CALL_TIMEOUT, store.init(request.clone())).await,
                    Ok(Ok(_))
                ) {
                    return;
                }
            }
            descriptions.sort_by_key(|description| description.node);
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Receives commands and executes them in order. A new cluster is initialized immediately: the
    /// commands before it are for a cluster that no longer exists.
    pub async fn serve_commands(self, mut commands: UnboundedReceiver<OperatorCommand>) {
        let operator = Arc::new(self);
        let start_task = || {
            let (sender, receiver) = unbounded_channel();
            let task = tokio::spawn(operator.clone().execute_commands(receiver));
            (sender, task)
        };
        let (mut sender, mut task) = start_task();
        while let Some(command) = commands.recv().await {
            if matches!(command, OperatorCommand::InitCluster) {
                task.abort();
                (sender, task) = start_task();
                let initiator = operator.clone();
                tokio::spawn(async move { initiator.init_cluster().await });
            } else {
                // The task lives until it is aborted.
                let _ = sender.send(command);
            }
        }
    }

    /// Executes commands. Faults make some of them fail; the next ones are executed anyway.
    async fn execute_commands(
        self: Arc<ClusterOperator>,
        mut commands: UnboundedReceiver<OperatorCommand>,
    ) {
        while let Some(command) = commands.recv().await {
            let client = create_client(self.id, &self.plan, &self.context);
            let (operator, admin) = (self.clone(), client.admin());
            match command {
                OperatorCommand::InitCluster | OperatorCommand::ShutDownAlloc(_) => {}
                OperatorCommand::MoveSlot(slot, to) => drop(admin.move_slot(slot, &to).await),
                OperatorCommand::DrainAlloc { name, cancels } => {
                    drop(admin.drain(&name, cancels).await)
                }
                OperatorCommand::TransferLeadership => drop(admin.transfer_leader(None).await),
                OperatorCommand::ReplaceStore {
                    id,
                    old,
                    new,
                    removes_first,
                } => drop(tokio::spawn(async move {
                    operator
                        .replace_store(&admin, id, old, new, removes_first)
                        .await;
                })),
                OperatorCommand::ReuseStoreId { id, old, new } => drop(tokio::spawn(async move {
                    operator.reuse_store_id(&admin, id, old, new).await;
                })),
            }
        }
    }

    async fn replace_store(
        &self,
        admin: &Admin,
        id: u64,
        old: MachineId,
        new: MachineId,
        removes_first: bool,
    ) {
        if removes_first && !self.remove_store(admin, id, old).await {
            return;
        }
        if !add_store(admin, u64::from(new), new).await {
            self.context
                .reports
                .lock()
                .push(OperatorReport::StoreRejected(new));
            return;
        }
        seqsvr_core::reached!("operator: a store joined");
        if !removes_first {
            self.remove_store(admin, id, old).await;
        }
    }

    async fn reuse_store_id(&self, admin: &Admin, id: u64, old: MachineId, new: MachineId) {
        if !self.remove_store(admin, id, old).await || !add_store(admin, id, new).await {
            seqsvr_core::reached!("operator: an id was not given again");
            self.context
                .reports
                .lock()
                .push(OperatorReport::StoreRejected(new));
            return;
        }
        // The schedule of raft's `sender.rs` continues: the new store becomes the leader.
        for _ in 0..10 {
            if admin.transfer_leader(Some(id)).await.is_ok() {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn remove_store(&self, admin: &Admin, id: u64, old: MachineId) -> bool {
        let removing = || async { admin.remove_member(id).await.ok() };
        let is_removed = retry_until_timeout(removing).await.is_some();
        if is_removed {
            seqsvr_core::reached!("operator: a store was removed");
            self.context
                .reports
                .lock()
                .push(OperatorReport::StoreRemoved(old));
        }
        is_removed
    }
}

async fn add_store(admin: &Admin, id: u64, machine: MachineId) -> bool {
    let address = store_address(machine).to_string();
    let adding = || async {
        match admin.add_member(id, &address).await {
            Ok(_) => Some(true),
            // A permanent error, which no retry changes.
            Err(e) if e.message().contains("never reused") => Some(false),
            Err(_) => None,
        }
    };
    retry_until_timeout(adding).await == Some(true)
}

/// Retries until there is a result or [`MEMBER_CHANGE_TIMEOUT`] is over.
async fn retry_until_timeout<T, F: Future<Output = Option<T>>>(
    mut step: impl FnMut() -> F,
) -> Option<T> {
    let deadline = Instant::now() + MEMBER_CHANGE_TIMEOUT;
    while Instant::now() < deadline {
        if let Some(result) = step().await {
            return Some(result);
        }
        sleep(Duration::from_millis(200)).await;
    }
    None
}

async fn describe_store(channels: &ChannelPool, id: MachineId) -> v1::DescribeResponse {
    let address = store_address(id).to_string();
    loop {
        if let Ok(channel) = channels.get(&address)
            && let Ok(Ok(description)) = timeout(
                STORE_CALL_TIMEOUT,
                StoreClient::new(channel).describe(v1::DescribeRequest {}),
            )
            .await
        {
            return description.into_inner();
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn namespace_spec(setup: &ClusterSetup) -> NamespaceSpec {
    let geometry = Geometry::Dense {
        section_size: UIDS_PER_SECTION,
        max_uid: UID_MAX,
    };
    NamespaceSpec {
        step: setup.step,
        limits: NamespaceLimits {
            step_max: 2 * setup.step,
            ..NamespaceLimits::DEFAULT
        },
        ..NamespaceSpec::new(NAMESPACE, geometry)
    }
}
