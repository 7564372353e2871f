//! Addresses that clients and other stores send.
//!
//! Attack: an address that forges a line of a log or a terminal, or that names more than a host and
//! a port. No command with it is proposed.
//!
//! Mistake: an address that a living AllocSvr has. Its callers would be sent to the wrong process.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{self, Reason};
use seqsvr_store::StoreServer;
use seqsvr_test_support::in_process::{InProcessCluster, any_port, http_url};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tonic::Status;

use crate::store_cluster::{call_leader, start_cluster, start_stores, store_options};

/// Lease of sessions that no test renews or lets expire.
const LONG_LEASE: Duration = Duration::from_secs(60);
/// Addresses that name no machine.
const UNSPECIFIED_ADDRESSES: [&str; 3] = ["0.0.0.0:7700", "[::]:7700", "[::ffff:0.0.0.0]:7700"];
/// Addresses that the store rejects.
const BAD_ADDRESSES: [&str; 6] = [
    "",
    "a1",
    "a1:7700\nERROR seqsvr: all data is lost",
    "\u{1b}[2Ja1:7700",
    "a1:7700/path",
    "user@a1:7700",
];

#[track_caller]
fn assert_invalid(status: &Status, address: &str) {
    let fault = RpcError::from_status(status);
    assert_eq!(fault.reason(), Reason::Invalid, "{address:?}: {fault}");
    let is_shown_safely = !fault.message.contains(['\n', '\u{1b}']);
    assert!(
        fault.message.contains("is not a server address") && is_shown_safely,
        "{fault:?}"
    );
}

#[tokio::test]
async fn session_with_a_bad_address_is_rejected() {
    let cluster = start_cluster(1).await;
    let mut store = cluster.store_client(0).await;
    let request = |address: &str| v1::OpenSessionRequest {
        name: "a1".into(),
        address: address.into(),
        incarnation: 1,
        nonce: seqsvr_proto::convert::u128_to_bytes(1),
        ..Default::default()
    };
    for address in BAD_ADDRESSES {
        let status = store.open_session(request(address)).await.unwrap_err();
        assert_invalid(&status, address);
    }
    for address in UNSPECIFIED_ADDRESSES {
        let status = store.open_session(request(address)).await.unwrap_err();
        let fault = RpcError::from_status(&status);
        assert_eq!(fault.reason(), Reason::Invalid, "{address}: {fault}");
        assert!(fault.message.contains("--advertise"), "{fault}");
    }
    let session = wait_until("a leader", TEST_TIMEOUT, async || {
        store.open_session(request("a1:7700")).await.ok()
    })
    .await;
    assert_eq!(session.into_inner().session, 1, "none was opened before");
}

#[tokio::test]
async fn cluster_with_a_bad_address_is_not_created() {
    let cluster = start_stores(1).await;
    let mut store = cluster.store_client(0).await;
    for address in BAD_ADDRESSES {
        let mut request = cluster.init_request(7).await;
        request.members[0].address = address.into();
        let status = store.init(request).await.unwrap_err();
        assert_invalid(&status, address);
    }
    let described = store.describe(v1::DescribeRequest {}).await.unwrap();
    assert!(described.into_inner().cluster.is_empty());
}

/// The address comes from the operator, and then from the store at that address.
#[tokio::test]
async fn member_with_a_bad_address_is_not_added() {
    let cluster = start_cluster(1).await;
    cluster.leader().await;
    let mut admin = cluster.admin_client(0).await;
    for address in BAD_ADDRESSES {
        let request = v1::AddMemberRequest {
            id: 2,
            address: address.into(),
        };
        let status = admin.add_member(request).await.unwrap_err();
        assert_invalid(&status, address);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut options = store_options(2, any_port(), dir.path());
    options.advertise_address = Some("store2:7800\nERROR".into());
    let liar = StoreServer::start(options).await.unwrap();
    let request = v1::AddMemberRequest {
        id: 2,
        address: liar.local_addr().to_string(),
    };
    let status = admin.add_member(request).await.unwrap_err();
    assert_invalid(&status, "what Describe answers");
    let request = v1::ClusterStatusRequest {};
    let status = admin.cluster_status(request).await.unwrap().into_inner();
    assert_eq!(status.stores.len(), 1, "{status:?}");
    liar.shutdown().await;
}

/// Mistake: stores are reachable at the addresses that the operator names, and not at those under
/// which the others would call them.
#[tokio::test]
async fn cluster_is_not_created_with_an_address_that_leads_elsewhere() {
    let other = start_stores(1).await;
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind(any_port()).unwrap();
    let silent = held.local_addr().unwrap().to_string();
    let advertised = [silent, other.addresses[0].to_string()];
    let mut dirs = Vec::new();
    let mut stores = Vec::new();
    for (id, advertise) in (1..).zip([None].into_iter().chain(advertised.clone().map(Some))) {
        let dir = tempfile::tempdir().unwrap();
        let mut options = store_options(id, any_port(), dir.path());
        options.advertise_address = advertise;
        stores.push(StoreServer::start(options).await.unwrap());
        dirs.push(dir);
    }
    let mut members = Vec::new();
    for store in &stores {
        members.push(v1::Member {
            id: store.identity().node,
            address: store.advertise_address().into(),
            incarnation: store.identity().incarnation,
        });
    }
    let request = v1::InitRequest {
        cluster: u128_to_bytes(7),
        members,
        lease_ms: 3_000,
        slots: 16,
    };
    let address = http_url(stores[0].local_addr());
    let mut first = StoreClient::connect(address).await.unwrap();
    let status = first.init(request).await.unwrap_err();
    let fault = RpcError::from_status(&status);
    assert_eq!(fault.reason(), Reason::Rejected, "{fault}");
    for words in [
        format!("store 2: no store answers at {}", advertised[0]),
        format!(
            "store 3: another store answers at {}: store 1",
            advertised[1]
        ),
        "--advertise".into(),
    ] {
        assert!(fault.message.contains(&words), "{words}: {fault}");
    }
    assert!(!fault.message.contains("store 1: "), "{fault}");
    for store in &stores {
        assert_eq!(store.identity().cluster, None);
        store.shutdown().await;
    }
}

/// Mistake: a store is reachable at the address that the operator names, and not at the one under
/// which the others would call it.
#[tokio::test]
async fn member_is_not_added_under_an_address_that_leads_elsewhere() {
    let cluster = start_cluster(1).await;
    cluster.leader().await;
    let mut admin = cluster.admin_client(0).await;
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind(any_port()).unwrap();
    let silent = held.local_addr().unwrap().to_string();
    let other = cluster.addresses[0].to_string();
    for (id, advertise) in [(2, silent), (3, other)] {
        let dir = tempfile::tempdir().unwrap();
        let mut options = store_options(id, any_port(), dir.path());
        options.advertise_address = Some(advertise.clone());
        let store = StoreServer::start(options).await.unwrap();
        let request = v1::AddMemberRequest {
            id,
            address: store.local_addr().to_string(),
        };
        let status = admin.add_member(request).await.unwrap_err();
        let fault = RpcError::from_status(&status);
        assert_eq!(fault.reason(), Reason::Rejected, "{fault}");
        assert!(fault.message.contains(&advertise), "{fault}");
        store.shutdown().await;
    }
    let request = v1::ClusterStatusRequest {};
    let status = admin.cluster_status(request).await.unwrap().into_inner();
    assert_eq!(status.stores.len(), 1, "{status:?}");
}

/// Returns what the store at this address shows about its own address.
async fn own_address_reached(store: &StoreServer) -> u64 {
    let address = http_url(store.local_addr());
    let mut admin = AdminClient::connect(address).await.unwrap();
    let request = v1::NodeStatusRequest::default();
    let status = admin.node_status(request).await.unwrap().into_inner();
    status.counters["own_address_reached"]
}

/// The address becomes reachable while the store runs.
#[tokio::test]
async fn store_that_does_not_reach_its_address_serves_and_shows_it() {
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind(any_port()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut options = store_options(1, any_port(), dir.path());
    options.advertise_address = Some(held.local_addr().unwrap().to_string());
    let store = StoreServer::start(options).await.unwrap();
    assert_eq!(own_address_reached(&store).await, 0);

    let listener = held.listen(16).unwrap();
    let to = store.local_addr();
    let forwarder = tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut to = tokio::net::TcpStream::connect(to).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            });
        }
    });
    wait_until("the store at its address", TEST_TIMEOUT, async || {
        (own_address_reached(&store).await == 1).then_some(())
    })
    .await;
    store.shutdown().await;
    forwarder.abort();
}

async fn start_cluster_with_long_lease(stores: usize) -> InProcessCluster {
    let cluster = InProcessCluster::start_uninitialized(stores, LONG_LEASE, store_options).await;
    cluster.initialize().await;
    cluster
}

/// Opens a session at the leader, as an AllocSvr with that name, address and nonce does.
async fn open_at(
    stores: &[SocketAddr],
    name: &str,
    address: &str,
    nonce: u128,
) -> Result<u64, RpcError> {
    let request = v1::OpenSessionRequest {
        name: name.into(),
        address: address.into(),
        incarnation: 1,
        nonce: u128_to_bytes(nonce),
        ..Default::default()
    };
    let opened = call_leader(stores, |mut store| {
        let request = request.clone();
        async move { store.open_session(request).await }
    });
    Ok(opened.await?.session)
}

async fn close_session(stores: &[SocketAddr], session: u64) {
    let request = v1::CloseSessionRequest {
        session,
        last: true,
        ..Default::default()
    };
    let closed = call_leader(stores, |mut store| {
        let request = request.clone();
        async move { store.close_session(request).await }
    });
    closed.await.unwrap();
}

/// Returns the names of the living sessions at an address.
async fn names_at(cluster: &InProcessCluster, address: &str) -> BTreeSet<String> {
    let status = wait_until("the status", TEST_TIMEOUT, async || {
        let mut admin = cluster.admin_client(cluster.leader().await).await;
        admin.cluster_status(v1::ClusterStatusRequest {}).await.ok()
    });
    let sessions = status.await.into_inner().sessions;
    let at = sessions.into_iter().filter(|s| s.address == address);
    at.map(|s| s.name).collect()
}

#[tokio::test]
async fn address_of_living_session_is_rejected_under_another_name() {
    let cluster = start_cluster_with_long_lease(1).await;
    let stores = &cluster.addresses;
    let first = open_at(stores, "a1", "host:7700", 1).await.unwrap();
    for address in ["host:7700", "HOST:7700"] {
        let fault = open_at(stores, "a2", address, 2).await.unwrap_err();
        assert_eq!(fault.reason(), Reason::AddressTaken, "{fault}");
        assert!(fault.message.contains("\"a1\""), "{fault}");
        assert!(fault.detail.retry_after_ms > 0, "no hint: {fault}");
    }
    // A lost answer is repeated, and the name is still checked at its own address.
    assert_eq!(open_at(stores, "a1", "host:7700", 1).await.unwrap(), first);
    let fault = open_at(stores, "a1", "host:7700", 3).await.unwrap_err();
    assert_eq!(fault.reason(), Reason::NameTaken, "{fault}");
    open_at(stores, "a2", "host:7701", 2).await.unwrap();
    // The address is free with the session.
    close_session(stores, first).await;
    open_at(stores, "a3", "host:7700", 4).await.unwrap();
    let names = names_at(&cluster, "host:7700").await;
    assert_eq!(names, BTreeSet::from(["a3".to_owned()]));
}

/// A process that proves its earlier session takes its place, at the same address too.
#[tokio::test]
async fn restart_with_proof_keeps_its_address() {
    let cluster = start_cluster_with_long_lease(1).await;
    let stores = &cluster.addresses;
    let old = open_at(stores, "a1", "host:7700", 1).await.unwrap();
    let other = open_at(stores, "a2", "host:7701", 2).await.unwrap();
    let mut store = cluster.store_client(0).await;
    let restarted = |address: &str| v1::OpenSessionRequest {
        name: "a1".into(),
        address: address.into(),
        incarnation: 2,
        nonce: u128_to_bytes(3),
        proof_session: Some(old),
        proof_nonce: u128_to_bytes(1),
        ..Default::default()
    };
    let status = store.open_session(restarted("host:7701")).await;
    let fault = RpcError::from_status(&status.unwrap_err());
    assert_eq!(fault.reason(), Reason::AddressTaken, "{fault}");
    let new = store.open_session(restarted("host:7700")).await.unwrap();
    assert!(new.into_inner().session > other);
    assert_eq!(names_at(&cluster, "host:7700").await.len(), 1);
}

/// Schedule: AllocSvrs of different names open sessions at one address at the same time, while the
/// leadership moves between the stores. Each repeats its request until it has an answer. A check
/// that is made only before the command is proposed lets several in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simultaneous_opens_at_one_address_leave_one_session() {
    const ROUNDS: usize = 10;
    const NAMES: usize = 8;
    let cluster = start_cluster_with_long_lease(3).await;
    cluster.leader().await;
    for round in 0..ROUNDS {
        let address = format!("host:{}", 7_700 + round);
        let opens: Vec<_> = (0..NAMES)
            .map(|i| {
                let (stores, address) = (cluster.addresses.clone(), address.clone());
                let (name, nonce) = (format!("r{round}-{i}"), rand::random());
                tokio::spawn(async move { open_at(&stores, &name, &address, nonce).await })
            })
            .collect();
        if round % 2 == 1 {
            let mut admin = cluster.admin_client(cluster.leader().await).await;
            // It may fail: another election can be in progress.
            let request = v1::TransferLeaderRequest { id: 0 };
            let _ = admin.transfer_leader(request).await;
        }
        let mut opened = Vec::new();
        for open in opens {
            match open.await.unwrap() {
                Ok(session) => opened.push(session),
                Err(fault) => assert_eq!(fault.reason(), Reason::AddressTaken, "{fault}"),
            }
        }
        assert_eq!(opened.len(), 1, "round {round}: sessions {opened:?}");
    }
}
