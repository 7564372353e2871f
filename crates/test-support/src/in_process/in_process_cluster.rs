//! A cluster of stores in this process, over loopback gRPC and real disk.
//!
//! Each test thread runs a cluster of its own. A test that measures runs while no other cluster
//! runs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use seqsvr_alloc::AllocServer;
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{DescribeRequest, InitRequest, Member};
use seqsvr_store::{Options, StoreEnvironment, StoreServer};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::Channel;

use super::alloc_servers::{read_counters, start_alloc, wait_until_assigned};
use super::blocked_threads::BlockedThreads;
use super::loopback::{any_port, http_url};
use crate::wait::{TEST_TIMEOUT, wait_until};

/// Lease of most tests: D as in production.
pub const LEASE: Duration = Duration::from_secs(3);
/// Slots of every cluster.
pub const SLOTS: u32 = 64;

/// Threads on which the stores run, without their cores.
const STORE_THREADS: usize = 2;
/// Threads of the cores of the stores.
const CORE_THREADS: usize = 2;
/// Id of a cluster.
const CLUSTER_ID: u128 = 7;

static MACHINE_LOCK: RwLock<()> = RwLock::new(());

/// Share of the machine that a cluster holds until it ends.
#[expect(dead_code, reason = "held, never read")]
enum MachineShare {
    Shared(RwLockReadGuard<'static, ()>),
    Exclusive(RwLockWriteGuard<'static, ()>),
}

impl MachineShare {
    fn shared() -> MachineShare {
        let guard = MACHINE_LOCK.read().unwrap_or_else(PoisonError::into_inner);
        MachineShare::Shared(guard)
    }

    fn exclusive() -> MachineShare {
        let guard = MACHINE_LOCK.write().unwrap_or_else(PoisonError::into_inner);
        MachineShare::Exclusive(guard)
    }
}

/// Stores that run on their own threads, as in a process of their own. A burst of callers' tasks
/// then delays them no more than the machine does.
pub struct InProcessCluster {
    /// `ip:port` of each store, in the order of their ids. A restarted store keeps its address.
    pub addresses: Vec<SocketAddr>,
    runtime: Option<Runtime>,
    /// Cores of the stores, as in the binary.
    core: Option<Runtime>,
    /// `None` while a store is stopped.
    stores: Vec<Option<StoreServer>>,
    dirs: Vec<TempDir>,
    lease: Duration,
    store_options: StoreOptions,
    _machine_share: MachineShare,
}

/// Returns the options of the store with this id, address and directory.
type StoreOptions = fn(u64, SocketAddr, &Path) -> Options;

impl InProcessCluster {
    /// Starts stores that form a cluster, on fresh directories.
    pub async fn start(stores: usize, lease: Duration) -> InProcessCluster {
        InProcessCluster::start_initialized(MachineShare::shared(), stores, lease).await
    }

    /// Starts a cluster, and no other cluster until this one ends: for a test that measures.
    pub async fn start_alone(stores: usize, lease: Duration) -> InProcessCluster {
        InProcessCluster::start_initialized(MachineShare::exclusive(), stores, lease).await
    }

    async fn start_initialized(
        machine_share: MachineShare,
        stores: usize,
        lease: Duration,
    ) -> InProcessCluster {
        let options: StoreOptions = |id, address, dir| Options::new(id, address, dir);
        let cluster = InProcessCluster::start_stores(machine_share, stores, lease, options).await;
        cluster.initialize().await;
        cluster
    }

    /// Starts stores that belong to no cluster yet, with these options.
    pub async fn start_uninitialized(
        stores: usize,
        lease: Duration,
        options: StoreOptions,
    ) -> InProcessCluster {
        InProcessCluster::start_stores(MachineShare::shared(), stores, lease, options).await
    }

    async fn start_stores(
        machine_share: MachineShare,
        count: usize,
        lease: Duration,
        store_options: StoreOptions,
    ) -> InProcessCluster {
        let mut cluster = InProcessCluster {
            addresses: Vec::new(),
            runtime: Some(new_runtime(STORE_THREADS)),
            core: Some(new_runtime(CORE_THREADS)),
            stores: Vec::new(),
            dirs: Vec::new(),
            lease,
            store_options,
            _machine_share: machine_share,
        };
        for store in 0..count {
            cluster.addresses.push(any_port());
            cluster.stores.push(None);
            cluster.dirs.push(tempfile::tempdir().unwrap());
            cluster.restart_store(store).await;
            cluster.addresses[store] = cluster.store(store).local_addr();
        }
        cluster
    }

    /// Makes the stores a cluster.
    pub async fn initialize(&self) {
        let request = self.init_request(CLUSTER_ID).await;
        wait_until("the cluster to be created", TEST_TIMEOUT, async || {
            let mut store = self.store_client(0).await;
            store.init(request.clone()).await.ok()
        })
        .await;
    }

    /// Returns the request that makes the stores a cluster with this id.
    pub async fn init_request(&self, cluster: u128) -> InitRequest {
        let mut members = Vec::new();
        for store in 0..self.addresses.len() {
            let mut store = self.store_client(store).await;
            let described = store.describe(DescribeRequest {}).await.unwrap();
            let described = described.into_inner();
            members.push(Member {
                id: described.node,
                address: described.address,
                incarnation: described.incarnation,
            });
        }
        InitRequest {
            cluster: u128_to_bytes(cluster),
            members,
            lease_ms: self.lease.as_millis() as u32,
            slots: SLOTS,
        }
    }

    /// Returns a running store. Panics if it is stopped.
    pub fn store(&self, store: usize) -> &StoreServer {
        self.stores[store].as_ref().expect("it runs")
    }

    /// Connects to the store service of a store.
    pub async fn store_client(&self, store: usize) -> StoreClient<Channel> {
        StoreClient::connect(http_url(self.addresses[store]))
            .await
            .unwrap()
    }

    /// Connects to the admin service of a store.
    pub async fn admin_client(&self, store: usize) -> AdminClient<Channel> {
        AdminClient::connect(http_url(self.addresses[store]))
            .await
            .unwrap()
    }

    /// Returns the counters of a running store.
    pub async fn store_counters(&self, store: usize) -> HashMap<String, u64> {
        read_counters(self.addresses[store]).await
    }

    /// Waits for a leader among the running stores and returns its index.
    pub async fn leader(&self) -> usize {
        wait_until("a leader", TEST_TIMEOUT, async || {
            for store in 0..self.stores.len() {
                let runs = self.stores[store].is_some();
                if runs && self.store_counters(store).await["raft_is_leader"] == 1 {
                    return Some(store);
                }
            }
            None
        })
        .await
    }

    /// Stops a store in order.
    pub async fn stop_store(&mut self, store: usize) {
        let server = self.stores[store].take().expect("it runs");
        self.run_on_stores(async move { server.shutdown().await })
            .await;
    }

    /// Starts a stopped store again on its directory and address.
    pub async fn restart_store(&mut self, store: usize) {
        let id = store as u64 + 1;
        let options = (self.store_options)(id, self.addresses[store], self.dirs[store].path());
        let environment = StoreEnvironment {
            core: self.core.as_ref().map(|core| core.handle().clone()),
            ..StoreEnvironment::system()
        };
        let starting = StoreServer::start_in(options, environment);
        let started = self.run_on_stores(starting).await;
        self.stores[store] = Some(started.unwrap());
    }

    /// Stops all stores that run.
    pub async fn stop_stores(&mut self) {
        for store in 0..self.stores.len() {
            if self.stores[store].is_some() {
                self.stop_store(store).await;
            }
        }
    }

    /// Stops all AllocSvrs and stores in order.
    pub async fn stop(mut self, allocs: &[AllocServer]) {
        for alloc in allocs {
            alloc.shutdown().await;
        }
        self.stop_stores().await;
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
        wait_until_assigned(&allocs).await;
        allocs
    }

    /// Blocks the threads of the stores, except those of their cores, until the returned value is
    /// dropped.
    pub fn block_call_threads(&self) -> BlockedThreads {
        BlockedThreads::block(self.runtime.as_ref().unwrap(), STORE_THREADS)
    }

    async fn run_on_stores<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let runtime = self.runtime.as_ref().unwrap();
        runtime.spawn(work).await.unwrap()
    }
}

impl Drop for InProcessCluster {
    fn drop(&mut self) {
        // The drop runs inside another runtime, where a blocking shutdown panics.
        for runtime in [self.runtime.take(), self.core.take()]
            .into_iter()
            .flatten()
        {
            runtime.shutdown_background();
        }
    }
}

/// Creates a runtime with this number of threads.
pub fn new_runtime(threads: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(threads)
        .enable_all()
        .build()
        .unwrap()
}
