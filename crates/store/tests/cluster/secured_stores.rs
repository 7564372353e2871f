//! Stores under TLS that form a cluster, each on a loopback address of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use seqsvr_net::tls::TlsTransport;
use seqsvr_net::{ChannelPool, Transport};
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::v1;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_store::{StoreEnvironment, StoreServer};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::pki::TestCa;
use crate::store_cluster::store_options;

pub(crate) const SLOTS: u32 = 2;
/// Long, so that no session expires.
const LEASE_MS: u32 = 60_000;

/// Stores with the CA of their domain. Store N is `s<N>` at 127.0.0.N.
pub(crate) struct SecuredStores {
    servers: Vec<StoreServer>,
    ca: TestCa,
    dir: TempDir,
}

impl SecuredStores {
    pub(crate) async fn start(count: u8) -> SecuredStores {
        let dir = tempfile::tempdir().unwrap();
        let mut stores = SecuredStores {
            servers: Vec::new(),
            ca: TestCa::new("test"),
            dir,
        };
        for id in 1..=count {
            let any = SocketAddr::from(([127, 0, 0, id], 0));
            let data = stores.dir.path().join(format!("data{id}"));
            let environment = StoreEnvironment {
                transport: stores.store_transport(id),
                ..StoreEnvironment::system()
            };
            let starting = StoreServer::start_in(store_options(id.into(), any, &data), environment);
            stores.servers.push(starting.await.unwrap());
        }
        stores.initialize().await;
        stores
    }

    async fn initialize(&self) {
        let mut members = Vec::new();
        let admin = tls(&self.write("admin", "alice", Ipv4Addr::LOCALHOST));
        for index in 0..self.servers.len() {
            let described = self.describe(index, &admin).await;
            members.push(v1::Member {
                id: described.node,
                address: described.address,
                incarnation: described.incarnation,
            });
        }
        let request = v1::InitRequest {
            cluster: u128_to_bytes(7),
            members,
            lease_ms: LEASE_MS,
            slots: SLOTS,
        };
        let founder = StoreClient::new(self.connect(0, &admin));
        wait_until("the cluster to be created", TEST_TIMEOUT, async || {
            founder.clone().init(request.clone()).await.ok()
        })
        .await;
    }

    /// Returns what a store says of itself.
    pub(crate) async fn describe(
        &self,
        index: usize,
        caller: &Arc<dyn Transport>,
    ) -> v1::DescribeResponse {
        let mut store = StoreClient::new(self.connect(index, caller));
        let described = store.describe(v1::DescribeRequest {}).await;
        described.unwrap().into_inner()
    }

    /// Connects to a store with the certificate of a transport.
    pub(crate) fn connect(&self, index: usize, caller: &Arc<dyn Transport>) -> Channel {
        let address = self.servers[index].local_addr().to_string();
        let channel = ChannelPool::with_transport(caller.clone()).get(&address);
        channel.unwrap()
    }

    /// Connects to the first store as an AllocSvr at 127.0.0.1.
    pub(crate) fn alloc(&self, name: &str) -> StoreClient<Channel> {
        let caller = self.caller("alloc", name);
        StoreClient::new(self.connect(0, &caller))
    }

    /// Returns the network of a caller at 127.0.0.1.
    pub(crate) fn caller(&self, role: &str, name: &str) -> Arc<dyn Transport> {
        tls(&self.write(role, name, Ipv4Addr::LOCALHOST))
    }

    /// Returns the network of a store.
    pub(crate) fn store_transport(&self, id: u8) -> Arc<dyn Transport> {
        let host = Ipv4Addr::new(127, 0, 0, id);
        tls(&self.write("store", &format!("s{id}"), host))
    }

    fn write(&self, role: &str, name: &str, host: Ipv4Addr) -> std::path::PathBuf {
        let uri = format!("seqsvr://test/{role}/{name}");
        let dir = self.dir.path().join(format!("{role}-{name}"));
        self.ca.write(&dir, &uri, &[&host.to_string()])
    }

    pub(crate) async fn shutdown(self) {
        for server in self.servers {
            server.shutdown().await;
        }
    }
}

fn tls(dir: &Path) -> Arc<dyn Transport> {
    TlsTransport::from_dir(dir).unwrap()
}
