//! The transport is replaceable: the test doubles behave as TCP does, and a cluster runs over a
//! network that is not TCP, and survives a partition.
//!
//! Fault: nodes are partitioned in the memory network.

#[path = "../../../../crates/net/tests/conformance/mod.rs"]
mod conformance;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use conformance::{TestNetwork, check_transport};
use seqsvr_alloc::AllocServer;
use seqsvr_client::Client;
use seqsvr_net::{ChannelPool, TcpTransport};
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::v1;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_store::StoreServer;
use seqsvr_test_support::in_process::{CuttableLink, MemoryNet};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

/// Addresses of a documentation network (RFC 5737), where no host exists.
fn test_address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], port))
}

async fn start_store(net: &MemoryNet, id: u8, dir: &std::path::Path) -> StoreServer {
    let options = seqsvr_store::Options::new(u64::from(id), test_address(id, 7800), dir);
    let environment = seqsvr_store::StoreEnvironment {
        transport: net.node(&format!("s{id}")),
        ..seqsvr_store::StoreEnvironment::system()
    };
    StoreServer::start_in(options, environment).await.unwrap()
}

async fn start_alloc_over(net: &MemoryNet, host: u8) -> AllocServer {
    let name = format!("a{host}");
    let stores = (1..=3)
        .map(|id| test_address(id, 7800).to_string())
        .collect();
    let options = seqsvr_alloc::Options {
        seed: Some(u64::from(host)),
        ..seqsvr_alloc::Options::new(&name, test_address(host, 7700), stores)
    };
    let environment = seqsvr_alloc::AllocEnvironment {
        transport: net.node(&name),
        ..seqsvr_alloc::AllocEnvironment::system()
    };
    AllocServer::start_in(options, environment).await.unwrap()
}

#[tokio::test]
async fn memory_network_conforms() {
    let net = MemoryNet::default();
    check_transport(TestNetwork {
        client: net.node("client"),
        server: net.node("server"),
        listen: test_address(1, 7800),
    })
    .await;
}

#[tokio::test]
async fn cuttable_link_conforms() {
    check_transport(TestNetwork {
        client: Arc::new(CuttableLink::connected()),
        server: Arc::new(TcpTransport),
        listen: ([127, 0, 0, 1], 0).into(),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_network_cluster_survives_partition_of_its_leader() {
    // 1. Start a cluster over the memory network.
    let net = MemoryNet::default();
    let mut dirs = Vec::new();
    let mut stores = Vec::new();
    let channels = ChannelPool::with_transport(net.node("caller"));
    let mut members = Vec::new();
    for id in 1..=3 {
        let dir = tempfile::tempdir().unwrap();
        stores.push(start_store(&net, id, dir.path()).await);
        dirs.push(dir);
        let address = test_address(id, 7800).to_string();
        let identity = StoreClient::new(channels.get(&address).unwrap())
            .describe(v1::DescribeRequest {})
            .await
            .unwrap()
            .into_inner();
        members.push(v1::Member {
            id: identity.node,
            address: identity.address,
            incarnation: identity.incarnation,
        });
    }
    let init = v1::InitRequest {
        cluster: u128_to_bytes(7),
        members,
        lease_ms: 3_000,
        slots: 64,
    };
    let first = channels.get(&test_address(1, 7800).to_string()).unwrap();
    wait_until("the cluster to be created", TEST_TIMEOUT, async || {
        StoreClient::new(first.clone())
            .init(init.clone())
            .await
            .ok()
    })
    .await;
    let allocs = [
        start_alloc_over(&net, 11).await,
        start_alloc_over(&net, 12).await,
    ];

    // 2. A client takes numbers of both AllocSvrs.
    let options =
        seqsvr_client::ClientOptions::new(allocs.iter().map(|a| a.local_addr().to_string()))
            .with_seed(1)
            .with_deadline(Duration::from_secs(20));
    let client = Client::over(channels.clone(), options).unwrap();
    let mut last = [0; 20];
    let mut take = async |round: &str| {
        for (uid, last) in (0..).map(|i| i * 100_000).zip(&mut last) {
            let numbers = client.default_namespace().next(uid).await;
            let numbers = numbers.unwrap_or_else(|e| panic!("{round}: {e}"));
            assert!(numbers.first > *last, "{round}: {numbers:?} after {last}");
            *last = numbers.last;
        }
    };
    take("whole").await;

    // 3. Partition the leader: another is elected, and every number is served.
    let admin = client.admin();
    let leader = async || {
        let status = admin.cluster_status().await.ok()?;
        status.stores.iter().find(|s| s.leader).map(|s| s.id)
    };
    let old = wait_until("a leader", TEST_TIMEOUT, leader).await;
    net.partition(&format!("s{old}"));
    take("the leader is partitioned").await;
    let new = wait_until("another leader", TEST_TIMEOUT, async || {
        leader().await.filter(|id| *id != old)
    })
    .await;

    // 4. Heal it, and partition an owner: its slots move.
    net.heal();
    net.partition("a11");
    // Its slots go to the other AllocSvr once its lease has expired; the client's deadline covers
    // that.
    take("an owner is partitioned").await;

    // 5. Heal it: all is served, and no TCP was involved.
    net.heal();
    take("healed").await;
    println!("leader {old}, then {new}");

    assert!(
        std::net::TcpStream::connect_timeout(&test_address(1, 7800), Duration::from_millis(100))
            .is_err(),
        "no TCP was involved"
    );
    for alloc in &allocs {
        alloc.shutdown().await;
    }
    for store in &stores {
        store.shutdown().await;
    }
}
