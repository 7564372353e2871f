//! A caller without routes may call any AllocSvr.
//!
//! Every operation is sent to an AllocSvr that does not own the key.

use seqsvr_proto::v1::{self, CurrentKind, NextManyRequest, current_request, raise_to_request};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, new_caller, new_client, next_request, read_counter,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_wrong_alloc_are_forwarded_to_the_owner() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    let client = new_client(&allocs);
    // Uids of both owners, each requested at the other one.
    let owner = async |uid: u64| {
        let (_, _, route) = client.default_namespace().route(uid).await.unwrap();
        route.owner.unwrap().address
    };
    let mut wrong_only = 0;
    for (at, other) in [(0, 1), (1, 0)] {
        let theirs = allocs[other].local_addr().to_string();
        let mut uid = at as u64;
        while owner(uid).await != theirs {
            uid += 100_000;
        }
        let mut plain = new_caller(&allocs[at]).await;
        let before = read_counter(&allocs[at], "forwarded").await;
        let next = plain
            .next(next_request("", uid))
            .await
            .unwrap()
            .into_inner();
        assert_eq!((next.first, next.last), (1, 1));
        let many = NextManyRequest {
            uids: vec![uid, uid + 1],
            counts: vec![3, 1],
            ..NextManyRequest::default()
        };
        let many = plain.next_many(many).await.unwrap().into_inner();
        assert_eq!((many.firsts, many.lasts), (vec![2, 1], vec![4, 1]));
        assert_eq!(many.errors, []);
        let raise = v1::RaiseToRequest {
            key_kind: Some(raise_to_request::KeyKind::Uid(uid)),
            value: 1_000,
            ..v1::RaiseToRequest::default()
        };
        assert_eq!(
            plain.raise_to(raise).await.unwrap().into_inner().value,
            1_000
        );
        let current = v1::CurrentRequest {
            key_kind: Some(current_request::KeyKind::Uid(uid)),
            ..v1::CurrentRequest::default()
        };
        let current = plain.current(current).await.unwrap().into_inner();
        assert_eq!((current.kind(), current.value), (CurrentKind::Exact, 1_000));
        assert_eq!(current.epoch, next.epoch);
        let forwarded = read_counter(&allocs[at], "forwarded").await - before;
        assert_eq!(forwarded, 5, "one by one, each once");
        wrong_only += 1;
        assert_eq!(
            read_counter(&allocs[at], "opens").await,
            u64::from(wrong_only == 2)
        );
    }
    cluster.stop(&allocs).await;
}
