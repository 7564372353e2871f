//! Stores, and calls that find the leader.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{self, Reason};
use seqsvr_store::{Options, StoreServer};
use tonic::transport::Channel;
use tonic::{Response, Status};

pub(crate) const LEASE_MS: u32 = 500;
pub(crate) const SLOTS: u32 = 64;
/// How long anything may take before a test gives up.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct StoreCluster {
    pub(crate) stores: Vec<Option<StoreServer>>,
    pub(crate) addresses: Vec<SocketAddr>,
    dirs: Vec<tempfile::TempDir>,
}

pub(crate) fn store_options(node: usize, listen: SocketAddr, dir: &tempfile::TempDir) -> Options {
    Options {
        heartbeat_ms: 50,
        election_min_ms: 150,
        election_max_ms: 300,
        ..Options::new(node as u64, listen, dir.path())
    }
}

impl StoreCluster {
    /// Starts stores that belong to no cluster yet.
    pub(crate) async fn start(count: usize) -> StoreCluster {
        let mut cluster = StoreCluster {
            stores: Vec::new(),
            addresses: Vec::new(),
            dirs: Vec::new(),
        };
        for node in 1..=count {
            let dir = tempfile::tempdir().unwrap();
            let any = "127.0.0.1:0".parse().unwrap();
            let store = StoreServer::start(store_options(node, any, &dir))
                .await
                .unwrap();
            cluster.addresses.push(store.local_addr());
            cluster.stores.push(Some(store));
            cluster.dirs.push(dir);
        }
        cluster
    }

    pub(crate) async fn start_initialized(count: usize) -> StoreCluster {
        let cluster = StoreCluster::start(count).await;
        let request = cluster.init_request(7).await;
        cluster.store_client(0).await.init(request).await.unwrap();
        cluster
    }

    pub(crate) async fn init_request(&self, cluster: u128) -> v1::InitRequest {
        let mut members = Vec::new();
        for i in 0..self.addresses.len() {
            let mut store = self.store_client(i).await;
            let who = store.describe(v1::DescribeRequest {}).await.unwrap();
            let who = who.into_inner();
            members.push(v1::Member {
                id: who.node,
                address: who.address,
                incarnation: who.incarnation,
            });
        }
        v1::InitRequest {
            cluster: u128_to_bytes(cluster),
            members,
            lease_ms: LEASE_MS,
            slots: SLOTS,
        }
    }

    pub(crate) async fn store_client(&self, i: usize) -> StoreClient<Channel> {
        StoreClient::connect(format!("http://{}", self.addresses[i]))
            .await
            .unwrap()
    }

    pub(crate) async fn admin_client(&self, i: usize) -> AdminClient<Channel> {
        AdminClient::connect(format!("http://{}", self.addresses[i]))
            .await
            .unwrap()
    }

    pub(crate) async fn counters(&self, i: usize) -> HashMap<String, u64> {
        let mut admin = self.admin_client(i).await;
        let status = admin.node_status(v1::NodeStatusRequest {}).await.unwrap();
        status.into_inner().counters
    }

    /// Returns the index of the store that leads, once one does.
    pub(crate) async fn leader(&self) -> usize {
        wait_until("a leader", async || {
            for i in (0..self.stores.len()).filter(|i| self.stores[*i].is_some()) {
                if self.counters(i).await["raft_leads"] == 1 {
                    return Some(i);
                }
            }
            None
        })
        .await
    }

    pub(crate) async fn stop(&mut self, i: usize) {
        self.stores[i].take().unwrap().shutdown().await;
    }

    pub(crate) async fn restart(&mut self, i: usize) {
        let options = store_options(i + 1, self.addresses[i], &self.dirs[i]);
        self.stores[i] = Some(StoreServer::start(options).await.unwrap());
    }
}

/// Calls one store after the other until one answers otherwise than "not the leader" or "cannot".
pub(crate) async fn call_leader<T, F>(
    addresses: &[SocketAddr],
    call: impl Fn(StoreClient<Channel>) -> F,
) -> Result<T, RpcError>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        for address in addresses {
            let Ok(client) = StoreClient::connect(format!("http://{address}")).await else {
                continue;
            };
            match call(client).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => {
                    let fault = RpcError::from_status(&status);
                    let should_retry = matches!(
                        fault.reason(),
                        Reason::NotLeader | Reason::Unreachable | Reason::Unspecified
                    );
                    if !should_retry || Instant::now() > deadline {
                        return Err(fault);
                    }
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for a condition, with a deadline.
pub(crate) async fn wait_until<T>(condition: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        if let Some(found) = poll().await {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "timed out waiting for {condition}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
