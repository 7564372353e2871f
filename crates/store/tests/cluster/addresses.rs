//! Addresses that clients and other stores send.
//!
//! Attack: an address that forges a line of a log or a terminal, or that names more than a host and
//! a port. No command with it is proposed.

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason};
use seqsvr_store::StoreServer;
use seqsvr_test_support::in_process::any_port;
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tonic::Status;

use crate::store_cluster::{start_cluster, start_stores, store_options};

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
