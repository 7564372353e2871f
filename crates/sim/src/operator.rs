//! Operator of a run: initializes the cluster and administers it.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_client::{Admin, Channels, Client};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::{Limits, Spec};
use seqsvr_proto::convert::u128_bytes;
use seqsvr_proto::v1;
use seqsvr_proto::v1::store_client::StoreClient;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{alloc_address, allocs, store_address, stores};
use crate::faults::Order;
use crate::net::MachineId;
use crate::plan::{Plan, Setup};
use crate::record::{NAMESPACE, Report, Shared};

/// Number of uids of a section.
pub const SECTION: u32 = 10;
const UID_MAX: u64 = 1_000;
/// Timeout of one request to a store.
const TRY: Duration = Duration::from_secs(2);
/// Timeout of the initialization of a cluster. After it, all disks are wiped.
const MAKE_MAX: Duration = Duration::from_secs(15);
/// Timeout of a change of the members. After it, the change is not retried.
const CHANGE_MAX: Duration = Duration::from_secs(20);

/// Operator, on the machine of a client.
pub struct Operator {
    id: MachineId,
    plan: Plan,
    shared: Arc<Shared>,
}

/// Creates the SDK client of a machine.
pub fn new_client(id: MachineId, plan: &Plan, shared: &Shared) -> Client {
    let servers = allocs(&plan.setup).map(|id| alloc_address(id).to_string());
    let options = seqsvr_client::Options {
        seed: Some(seqsvr_core::sim::draw("client")),
        ..seqsvr_client::Options::new(servers)
    };
    let client = Client::over(Channels::over(shared.net.transport(id)), options);
    // All addresses are those of simulated machines.
    client.expect("valid addresses")
}

impl Operator {
    /// Creates the operator of a run.
    pub fn new(id: MachineId, plan: &Plan, shared: Arc<Shared>) -> Operator {
        Operator {
            id,
            plan: plan.clone(),
            shared,
        }
    }

    /// Initializes the cluster as `seqsvr init` does, and creates its namespace.
    pub async fn make_cluster(&self) {
        while timeout(MAKE_MAX, self.init(self.shared.next_cluster()))
            .await
            .is_err()
        {
            self.shared.reports.lock().push(Report::CannotMake);
        }
        let client = new_client(self.id, &self.plan, &self.shared);
        let spec = namespace_spec(&self.plan.setup);
        while client.admin().create_namespace(&spec).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Requests a cluster of this id from the stores, until one of them has initialized it. If a
    /// store already belongs to a cluster, finishes that one.
    async fn init(&self, new_cluster: u128) {
        let setup = &self.plan.setup;
        let channels = Channels::over(self.shared.net.transport(self.id));
        let mut asked_first = None;
        let mut described = Vec::new();
        for id in stores(setup) {
            described.push(describe(&channels, id).await);
        }
        loop {
            // For a store that does not answer, the last description is used.
            for (id, who) in stores(setup).zip(&mut described) {
                if let Ok(newer) = timeout(TRY, describe(&channels, id)).await {
                    *who = newer;
                }
            }
            // Any store may receive the first request.
            let turn = seqsvr_core::sim::draw("init") as usize % described.len();
            described.rotate_left(turn);
            let known = described.iter().find(|who| !who.cluster.is_empty());
            let cluster = known.map_or_else(|| u128_bytes(new_cluster), |who| who.cluster.clone());
            let member = |who: &v1::DescribeResponse| v1::Member {
                id: who.node,
                address: who.address.clone(),
                incarnation: who.incarnation,
            };
            let request = v1::InitRequest {
                cluster,
                members: described.iter().map(member).collect(),
                lease_ms: setup.lease_ms as u32,
                slots: setup.slots,
            };
            // A store without the cluster would begin it a second time, unless it is the one that
            // received the first request.
            let first = asked_first;
            let is_first = |who: &&v1::DescribeResponse| {
                first.is_none_or(|first| first == (who.node, who.incarnation))
            };
            let asked = described
                .iter()
                .filter(|who| !who.cluster.is_empty() || (known.is_none() && is_first(who)));
            let count = if known.is_none() { 1 } else { usize::MAX };
            for who in asked.take(count) {
                asked_first.get_or_insert((who.node, who.incarnation));
                let Ok(channel) = channels.get(&who.address) else {
                    continue;
                };
                let mut store = StoreClient::new(channel);
                if matches!(timeout(TRY, store.init(request.clone())).await, Ok(Ok(_))) {
                    return;
                }
            }
            described.sort_by_key(|who| who.node);
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Receives orders and executes them in order. A new cluster is initialized immediately: the
    /// orders before it are for a cluster that no longer exists.
    pub async fn take_orders(self, mut orders: UnboundedReceiver<Order>) {
        let operator = Arc::new(self);
        let begin = || {
            let (sender, receiver) = unbounded_channel();
            let work = tokio::spawn(operator.clone().carry_out(receiver));
            (sender, work)
        };
        let (mut sender, mut work) = begin();
        while let Some(order) = orders.recv().await {
            if matches!(order, Order::Make) {
                work.abort();
                (sender, work) = begin();
                let making = operator.clone();
                tokio::spawn(async move { making.make_cluster().await });
            } else {
                // The task lives until it is aborted.
                let _ = sender.send(order);
            }
        }
    }

    /// Executes orders. Faults make some of them fail; the next ones are executed anyway.
    async fn carry_out(self: Arc<Operator>, mut orders: UnboundedReceiver<Order>) {
        let client = new_client(self.id, &self.plan, &self.shared);
        while let Some(order) = orders.recv().await {
            let (operator, admin) = (self.clone(), client.admin());
            match order {
                Order::Make | Order::Leave(_) => {}
                Order::Move(slot, to) => drop(admin.move_slot(slot, &to).await),
                Order::Drain(name, undo) => drop(admin.drain(&name, undo).await),
                Order::Transfer => drop(admin.transfer_leader(None).await),
                Order::Replace {
                    id,
                    old,
                    new,
                    removes_first,
                } => drop(tokio::spawn(async move {
                    operator.replace(&admin, id, old, new, removes_first).await;
                })),
                Order::ReuseId { id, old, new } => drop(tokio::spawn(async move {
                    operator.reuse_id(&admin, id, old, new).await;
                })),
            }
        }
    }

    async fn replace(
        &self,
        admin: &Admin,
        id: u64,
        old: MachineId,
        new: MachineId,
        removes_first: bool,
    ) {
        if removes_first && !self.remove(admin, id, old).await {
            return;
        }
        if !add(admin, u64::from(new), new).await {
            self.shared.reports.lock().push(Report::Refused(new));
            return;
        }
        seqsvr_core::reached!("operator: a store joined");
        if !removes_first {
            self.remove(admin, id, old).await;
        }
    }

    async fn reuse_id(&self, admin: &Admin, id: u64, old: MachineId, new: MachineId) {
        if !self.remove(admin, id, old).await || !add(admin, id, new).await {
            seqsvr_core::reached!("operator: an id was not given again");
            self.shared.reports.lock().push(Report::Refused(new));
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

    async fn remove(&self, admin: &Admin, id: u64, old: MachineId) -> bool {
        let removing = || async { admin.remove_member(id).await.ok() };
        let is_removed = retry(removing).await.is_some();
        if is_removed {
            seqsvr_core::reached!("operator: a store was removed");
            self.shared.reports.lock().push(Report::Removed(old));
        }
        is_removed
    }
}

async fn add(admin: &Admin, id: u64, machine: MachineId) -> bool {
    let address = store_address(machine).to_string();
    let adding = || async {
        match admin.add_member(id, &address).await {
            Ok(_) => Some(true),
            // A permanent error, which no retry changes.
            Err(e) if e.message.contains("never reused") => Some(false),
            Err(_) => None,
        }
    };
    retry(adding).await == Some(true)
}

/// Retries until there is a result or [`CHANGE_MAX`] is over.
async fn retry<T, F: Future<Output = Option<T>>>(mut step: impl FnMut() -> F) -> Option<T> {
    let deadline = Instant::now() + CHANGE_MAX;
    while Instant::now() < deadline {
        if let Some(result) = step().await {
            return Some(result);
        }
        sleep(Duration::from_millis(200)).await;
    }
    None
}

async fn describe(channels: &Channels, id: MachineId) -> v1::DescribeResponse {
    let address = store_address(id).to_string();
    loop {
        if let Ok(channel) = channels.get(&address)
            && let Ok(Ok(who)) = timeout(
                TRY,
                StoreClient::new(channel).describe(v1::DescribeRequest {}),
            )
            .await
        {
            return who.into_inner();
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn namespace_spec(setup: &Setup) -> Spec {
    let geometry = Geometry::Dense {
        section_size: SECTION,
        max_uid: UID_MAX,
    };
    Spec {
        step: setup.step,
        limits: Limits {
            step_max: 2 * setup.step,
            ..Limits::DEFAULT
        },
        ..Spec::new(NAMESPACE, geometry)
    }
}
