//! The causal guard: a caller that has seen a greater number or epoch than the server could have
//! issued gets an error, not a lower number.
//!
//! No fault is injected; the calls name floors and epochs.

use seqsvr_client::{Code, Reason};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::NextRequest;
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, expect_rejection, new_caller, next_request, read_counter,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invented_floors_and_epochs_are_rejected_and_true_ones_served() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let [alloc] = cluster.start_allocs(["a1"]).await;
    let mut plain = new_caller(&alloc).await;
    let mut next = async |floor, epoch| {
        let request = NextRequest {
            floor,
            epoch,
            ..next_request("", 9)
        };
        plain.next(request).await
    };
    let first = next(None, None).await.unwrap().into_inner();
    let seen = next(Some(first.last), Some(first.epoch)).await.unwrap();
    let seen = seen.into_inner();
    assert_eq!(seen.first, first.last + 1);
    assert_eq!(
        read_counter(&alloc, "ownership_checks").await,
        0,
        "a true floor costs nothing"
    );

    let (code, reason, text) = expect_rejection(next(Some(1_000_000), None).await);
    assert_eq!(
        (code, reason),
        (Code::InvalidArgument, Reason::FloorAhead),
        "{text}"
    );
    assert_eq!(read_counter(&alloc, "causality_violations").await, 1);
    let status = next(None, Some(seen.epoch + 1)).await.unwrap_err();
    let fault = RpcError::from_status(&status);
    assert_eq!(
        (fault.code, fault.reason()),
        (Code::InvalidArgument, Reason::FloorAhead)
    );
    let epochs = (fault.detail.requested_epoch, fault.detail.confirmed_epoch);
    assert_eq!(
        epochs,
        (seen.epoch + 1, seen.epoch),
        "the false and the true one"
    );
    assert_eq!(read_counter(&alloc, "causality_violations").await, 2);

    let after = next(Some(seen.last), Some(seen.epoch))
        .await
        .unwrap()
        .into_inner();
    assert!(
        after.first > seen.last && after.first < 10,
        "never a jump to a floor"
    );
    cluster.stop(&[alloc]).await;
}
