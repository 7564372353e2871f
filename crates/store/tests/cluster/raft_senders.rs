//! Three stores under TLS, and callers that speak Raft for one of them.
//!
//! Fault: the holder of the key of store 2, of an AllocSvr or of an operator calls store 1 as
//! store 3, also to request votes for it in a far later term. The rule, with its schedule, is in
//! `raft/src/rpc/identity_check/sender.rs`.

use std::sync::Arc;

use seqsvr_net::Transport;
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::raft_client::RaftClient;
use seqsvr_proto::v1::{
    ClusterStatusRequest, RaftHeader, RaftInitRequest, RaftRequest, RaftSnapshotChunk,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tonic::{Code, Status};

use crate::secured_stores::SecuredStores;

/// Calls every method of Raft at store 1 as a sender. Returns the answers.
async fn call_all_methods(
    stores: &SecuredStores,
    caller: &Arc<dyn Transport>,
    header: &RaftHeader,
) -> Vec<Status> {
    let raft = || RaftClient::new(stores.connect(0, caller));
    let request = RaftRequest {
        header: Some(header.clone()),
        body: b"no record".to_vec().into(),
        ..RaftRequest::default()
    };
    let init = RaftInitRequest {
        header: Some(header.clone()),
        lease_ms: 3_000,
        slots: 2,
    };
    let chunk = RaftSnapshotChunk {
        header: Some(header.clone()),
        description: b"no record".to_vec().into(),
        ..RaftSnapshotChunk::default()
    };
    let answers = [
        raft().append(request.clone()).await.map(drop),
        raft().vote(request.clone()).await.map(drop),
        raft().pre_vote(request.clone()).await.map(drop),
        raft().transfer_leader(request).await.map(drop),
        raft()
            .install_snapshot(tokio_stream::once(chunk))
            .await
            .map(drop),
        raft().propose_init(init).await.map(drop),
    ];
    answers.into_iter().filter_map(Result::err).collect()
}

/// Returns the record of a request for votes in a term above 250, for a candidate whose log is
/// longer than any: a frame of format level 1 (`raft/src/record.rs`) with the value of its golden
/// file `call-vote.hex`.
fn vote_record(term: u64, candidate: u64) -> Vec<u8> {
    let term = u16::try_from(term).unwrap().to_le_bytes();
    // bincode: 251 comes before an integer of two bytes.
    let vote = [
        251,
        term[0],
        term[1],
        1,
        u8::try_from(candidate).unwrap(),
        0,
    ];
    let last_entry = [1, 251, term[0], term[1], 251, 0xff, 0xff];
    let body = [&vote[..], &last_entry, &[0]].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let head = [&[1], &length[..]].concat();
    let checksum = |bytes: &[u8]| crc32fast::hash(bytes).to_be_bytes();
    [&head, &checksum(&head)[..], &body, &checksum(&body)].concat()
}

/// Requests votes for store 3 at store 1, as a sender. Returns the rejections.
async fn forge_votes(
    stores: &SecuredStores,
    caller: &Arc<dyn Transport>,
    header: &RaftHeader,
    term: u64,
) -> Vec<Status> {
    let raft = || RaftClient::new(stores.connect(0, caller));
    let request = RaftRequest {
        header: Some(header.clone()),
        body: vote_record(term, 3).into(),
        ..RaftRequest::default()
    };
    let answers = [
        raft().pre_vote(request.clone()).await,
        raft().vote(request).await,
    ];
    answers.into_iter().filter_map(Result::err).collect()
}

/// Returns term and leader as the leading store reports them.
async fn leadership(stores: &SecuredStores, caller: &Arc<dyn Transport>) -> (u64, u64) {
    wait_until("a leader", TEST_TIMEOUT, async || {
        for index in 0..3 {
            let mut admin = AdminClient::new(stores.connect(index, caller));
            if let Ok(status) = admin.cluster_status(ClusterStatusRequest {}).await {
                let status = status.into_inner();
                let leader = status.stores.iter().find(|store| store.leader)?;
                return Some((status.term, leader.id));
            }
        }
        None
    })
    .await
}

#[tokio::test]
async fn store_speaks_raft_for_its_own_id_only() {
    let stores = SecuredStores::start(3).await;
    let admin = stores.caller("admin", "alice");
    let second = stores.store_transport(2);
    let before = leadership(&stores, &admin).await;
    let first = stores.describe(0, &admin).await;
    let mut header_of = Vec::new();
    for index in [1, 2] {
        let sender = stores.describe(index, &admin).await;
        header_of.push(RaftHeader {
            cluster: u128_to_bytes(7),
            target: first.node,
            target_incarnation: first.incarnation,
            sender: sender.node,
            sender_incarnation: Some(sender.incarnation),
            sender_process: 1,
        });
    }
    let [as_itself, as_other] = &header_of[..] else {
        panic!("two headers");
    };

    // 1. Under its own id, a call fails by its body only. ProposeInit has none.
    let answers = call_all_methods(&stores, &second, as_itself).await;
    let read = answers
        .iter()
        .filter(|status| status.code() == Code::InvalidArgument);
    assert_eq!(read.count(), 5, "{answers:?}");

    // 2. Under another id, at the certificate.
    let answers = call_all_methods(&stores, &second, as_other).await;
    assert_eq!(answers.len(), 6, "{answers:?}");
    for status in answers {
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        for text in ["says to be store 3", "is for 127.0.0.2, not for 127.0.0.3"] {
            assert!(status.message().contains(text), "{status}");
        }
    }

    // 3. In another role, also under the id of a store.
    for (role, name) in [("alloc", "a1"), ("admin", "mallory"), ("client", "billing")] {
        let caller = stores.caller(role, name);
        let answers = call_all_methods(&stores, &caller, as_itself).await;
        assert_eq!(answers.len(), 6, "{answers:?}");
        for status in answers {
            assert_eq!(status.code(), Code::PermissionDenied, "{status}");
        }
    }

    // 4. No vote of a far later term is read, except under the certificate of its candidate.
    let term = before.0 + 1_000;
    let a1 = stores.caller("alloc", "a1");
    for (caller, header, code) in [
        (&second, as_itself, Code::PermissionDenied),
        (&second, as_other, Code::FailedPrecondition),
        (&a1, as_other, Code::PermissionDenied),
        (&admin, as_other, Code::PermissionDenied),
    ] {
        let rejections = forge_votes(&stores, caller, header, term).await;
        let codes: Vec<Code> = rejections.iter().map(Status::code).collect();
        assert_eq!(codes, [code; 2], "{rejections:?}");
    }
    assert_eq!(leadership(&stores, &admin).await, before);

    // 5. The record is a valid one: under that certificate it is answered.
    let third = stores.store_transport(3);
    let rejections = forge_votes(&stores, &third, as_other, term).await;
    assert_eq!(rejections.len(), 0, "{rejections:?}");
    stores.shutdown().await;
}
