//! Harness: starts clusters in this process and waits for conditions.
//!
//! Each test thread runs a cluster of its own. A test that measures runs while no other cluster
//! runs.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use seqsvr_alloc::AllocServer;
use seqsvr_client::Client;
use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::{NamespaceLimits, NamespaceSpec};
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::next_request::KeyKind;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{self, Reason};
use seqsvr_store::StoreServer;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

/// Timeout of a test's conditions.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(40);
/// Lease of most tests: D as in production.
pub const LEASE: Duration = Duration::from_secs(3);

static MACHINE_LOCK: RwLock<()> = RwLock::new(());

/// Share of the machine that a cluster holds until it ends.
#[expect(dead_code, reason = "held, never read")]
enum MachineShare {
    Shared(RwLockReadGuard<'static, ()>),
    Exclusive(RwLockWriteGuard<'static, ()>),
}

/// Stores that run on their own threads, as in a process of their own. A burst of callers' tasks
/// then delays them no more than the machine does.
pub struct InProcessCluster {
    runtime: Option<Runtime>,
    pub stores: Vec<StoreServer>,
    pub addresses: Vec<SocketAddr>,
    dirs: Vec<tempfile::TempDir>,
    _machine_share: MachineShare,
}

impl InProcessCluster {
    /// Starts stores that form a cluster, on fresh directories.
    pub async fn start(count: u64, lease: Duration) -> InProcessCluster {
        let shared = MACHINE_LOCK.read().unwrap_or_else(PoisonError::into_inner);
        InProcessCluster::start_with(MachineShare::Shared(shared), count, lease).await
    }

    /// Starts a cluster, and no other cluster until this one ends: for a test that measures.
    pub async fn start_alone(count: u64, lease: Duration) -> InProcessCluster {
        let exclusive = MACHINE_LOCK.write().unwrap_or_else(PoisonError::into_inner);
        InProcessCluster::start_with(MachineShare::Exclusive(exclusive), count, lease).await
    }

    async fn start_with(
        _machine_share: MachineShare,
        count: u64,
        lease: Duration,
    ) -> InProcessCluster {
        let mut cluster = InProcessCluster {
            runtime: Some(new_runtime(2)),
            stores: Vec::new(),
            addresses: Vec::new(),
            dirs: Vec::new(),
            _machine_share,
        };
        let mut members = Vec::new();
        for node in 1..=count {
            let dir = tempfile::tempdir().unwrap();
            let options = seqsvr_store::Options::new(node, any_port(), dir.path());
            let store = cluster
                .run_on_stores(StoreServer::start(options))
                .await
                .unwrap();
            let address = store.local_addr();
            let mut client = StoreClient::connect(http_url(address)).await.unwrap();
            let described = client.describe(v1::DescribeRequest {}).await.unwrap();
            let described = described.into_inner();
            members.push(v1::Member {
                id: described.node,
                address: described.address,
                incarnation: described.incarnation,
            });
            cluster.addresses.push(address);
            cluster.stores.push(store);
            cluster.dirs.push(dir);
        }
        let request = v1::InitRequest {
            cluster: u128_to_bytes(7),
            members,
            lease_ms: lease.as_millis() as u32,
            slots: 64,
        };
        let address = cluster.addresses[0];
        wait_until("the cluster to be made", async || {
            let mut client = StoreClient::connect(http_url(address)).await.ok()?;
            client.init(request.clone()).await.ok()
        })
        .await;
        cluster
    }

    async fn run_on_stores<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let runtime = self.runtime.as_ref().unwrap();
        runtime.spawn(work).await.unwrap()
    }

    /// Returns options of an AllocSvr with the addresses of all stores.
    pub fn alloc_options(&self, name: &str) -> seqsvr_alloc::Options {
        let stores = self.addresses.iter().map(ToString::to_string).collect();
        seqsvr_alloc::Options::new(name, any_port(), stores)
    }

    /// Starts AllocSvrs together, and waits until each owns slots and every slot has an owner.
    pub async fn start_allocs<const N: usize>(&self, names: [&str; N]) -> [AllocServer; N] {
        let mut allocs = Vec::new();
        for name in names {
            allocs.push(start_alloc(self.alloc_options(name)).await);
        }
        let allocs: [AllocServer; N] = allocs.try_into().ok().unwrap();
        wait_until_settled(&allocs).await;
        allocs
    }

    pub async fn read_store_counters(&self) -> Vec<HashMap<String, u64>> {
        let mut all = Vec::new();
        for address in &self.addresses {
            all.push(read_counters(*address).await);
        }
        all
    }

    /// Stops the last of the stores.
    pub async fn stop_store(&mut self) {
        let store = self.stores.pop().unwrap();
        self.run_on_stores(async move { store.shutdown().await })
            .await;
    }

    pub async fn stop_stores(&mut self) {
        for store in std::mem::take(&mut self.stores) {
            self.run_on_stores(async move { store.shutdown().await })
                .await;
        }
    }

    /// Stops all AllocSvrs and stores in order.
    pub async fn stop(mut self, allocs: &[AllocServer]) {
        for alloc in allocs {
            alloc.shutdown().await;
        }
        self.stop_stores().await;
    }
}

impl Drop for InProcessCluster {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Creates a runtime with `count` threads.
pub fn new_runtime(count: usize) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(count).enable_all().build().unwrap()
}

pub fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

pub fn http_url(address: SocketAddr) -> String {
    format!("http://{address}")
}

pub async fn start_alloc(options: seqsvr_alloc::Options) -> AllocServer {
    AllocServer::start(options).await.unwrap()
}

/// Waits until every slot has one of these owners, each of them owns some, and all have a lease.
pub async fn wait_until_settled(allocs: &[AllocServer]) {
    wait_until("every slot to be owned", async || {
        let wanted: BTreeSet<String> = allocs.iter().map(|a| a.local_addr().to_string()).collect();
        for alloc in allocs {
            let owners = slot_owners(alloc.local_addr()).await?;
            (owners == wanted && alloc.has_lease()).then_some(())?;
        }
        Some(())
    })
    .await;
}

/// Returns the addresses of the owners of all slots; `None` while a slot has none.
async fn slot_owners(address: SocketAddr) -> Option<BTreeSet<String>> {
    let mut alloc = SequenceClient::connect(http_url(address)).await.ok()?;
    let table = alloc.routes(v1::RoutesRequest::default()).await.ok()?;
    let delta = seqsvr_core::routing_table::RoutingDelta::try_from(&table.into_inner()).ok()?;
    let table = seqsvr_core::routing_table::RoutingTable::new(delta).ok()?;
    table
        .routes()
        .map(|(_, route)| route.owner.as_ref().map(|o| o.address.clone()))
        .collect()
}

/// Creates a caller without routes.
pub async fn new_caller(alloc: &AllocServer) -> SequenceClient<Channel> {
    SequenceClient::connect(http_url(alloc.local_addr()))
        .await
        .unwrap()
}

/// Creates a client of these AllocSvrs.
pub fn new_client(allocs: &[AllocServer]) -> Client {
    let servers = allocs.iter().map(|a| a.local_addr().to_string());
    Client::new(seqsvr_client::Options::new(servers)).unwrap()
}

/// Returns the counters of a store or an AllocSvr.
pub async fn read_counters(address: SocketAddr) -> HashMap<String, u64> {
    let mut admin = AdminClient::connect(http_url(address)).await.unwrap();
    let status = admin.node_status(v1::NodeStatusRequest {}).await.unwrap();
    status.into_inner().counters
}

/// Returns one counter of an AllocSvr.
pub async fn read_counter(alloc: &AllocServer, name: &str) -> u64 {
    read_counters(alloc.local_addr()).await[name]
}

/// Returns a dense namespace whose step is fixed.
pub fn dense_namespace(name: &str, section_size: u32, max_uid: u64, step: u32) -> NamespaceSpec {
    NamespaceSpec {
        step,
        limits: NamespaceLimits {
            step_max: step,
            ..NamespaceLimits::DEFAULT
        },
        ..NamespaceSpec::new(
            name,
            Geometry::Dense {
                section_size,
                max_uid,
            },
        )
    }
}

pub async fn create_namespace(allocs: &[AllocServer], spec: &NamespaceSpec) {
    let admin = new_client(allocs).admin();
    admin.create_namespace(spec).await.unwrap();
}

pub fn next_request(namespace: &str, uid: u64) -> v1::NextRequest {
    v1::NextRequest {
        namespace: namespace.into(),
        key_kind: Some(KeyKind::Uid(uid)),
        ..v1::NextRequest::default()
    }
}

/// Marks a request as forwarded by an AllocSvr: it is answered at once or rejected.
pub fn mark_forwarded(request: v1::NextRequest) -> v1::NextRequest {
    v1::NextRequest {
        forwarded: true,
        ..request
    }
}

/// Returns code, detail and text of a rejected call.
pub fn expect_rejection<T: std::fmt::Debug>(
    answer: Result<tonic::Response<T>, tonic::Status>,
) -> (tonic::Code, Reason, String) {
    let fault = RpcError::from_status(&answer.expect_err("should be rejected"));
    (fault.code, fault.reason(), fault.message)
}

/// Waits for a condition, with the usual timeout.
pub async fn wait_until<T>(what: &str, found: impl AsyncFnMut() -> Option<T>) -> T {
    wait_until_within(TEST_TIMEOUT, what, found).await
}

/// Waits for a condition, with its own timeout.
pub async fn wait_until_within<T>(
    timeout: Duration,
    what: &str,
    mut found: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(found) = found().await {
            return found;
        }
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
