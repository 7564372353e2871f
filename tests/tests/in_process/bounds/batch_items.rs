//! Batches with bad or slow items: every other item is answered.
//!
//! Fault: the stores are stopped, so that an item waits.

use std::time::Duration;

use seqsvr_client::{Code, Reason};
use seqsvr_proto::v1::NextManyRequest;
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, create_namespace, dense_namespace, new_caller,
};
use tonic::Request;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_with_bad_or_slow_item_answers_all_others() {
    let mut cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    create_namespace(&allocs, &dense_namespace("rows", 10, 1_000, 50)).await;
    let mut plain = new_caller(&allocs[0]).await;
    let request = |uids: &[u64], counts: &[u32]| NextManyRequest {
        namespace: "rows".into(),
        uids: uids.to_vec(),
        counts: counts.to_vec(),
        ..NextManyRequest::default()
    };
    let answer = plain
        .next_many(request(&[1, 2, 1_000, 3, 4, 1], &[1, 0, 1, 51, 2, 1]))
        .await
        .unwrap()
        .into_inner();
    let errors: Vec<_> = answer
        .errors
        .iter()
        .map(|e| (e.index, e.reason()))
        .collect();
    assert_eq!(
        errors,
        [
            (1, Reason::Invalid),
            (2, Reason::Invalid),
            (3, Reason::LimitExceeded)
        ]
    );
    assert_eq!(answer.firsts, [1, 0, 0, 0, 1, 2]);
    assert_eq!(answer.lasts, [1, 0, 0, 0, 2, 2]);

    // Slow: uid 500 is in a section that cannot be opened without a store; uid 1's is loaded.
    cluster.stop_stores().await;
    let mut slow = Request::new(request(&[500, 1, 2], &[]));
    slow.set_timeout(Duration::from_secs(1));
    let answer = plain.next_many(slow).await.unwrap().into_inner();
    assert_eq!(answer.firsts, [0, 3, 1]);
    let error = &answer.errors[0];
    println!("slow item: {}", error.message);
    assert_eq!(answer.errors.len(), 1);
    assert_eq!((error.index, error.code), (0, Code::Unavailable as i32));
    assert!(
        error.message.contains(&cluster.addresses[0].to_string()),
        "{}",
        error.message
    );
    cluster.stop(&[]).await;
}
