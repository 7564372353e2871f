//! Commands that wait for a store while something else changes.
//!
//! The namespace is altered or the caller goes away before the command arrives.

use std::time::Duration;

use seqsvr_core::namespace::NamespaceSpec;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::{self, AlterNamespaceRequest, CurrentKind};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, create_namespace, dense_namespace, http_url, new_caller, next_request,
    read_counter, start_controlled_alloc,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tonic::Request;

const CALL_TIMEOUT: Duration = Duration::from_secs(30);

fn with_call_timeout<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}

/// Schedule: an Open waits for the store; step and step_max are lowered; the Open arrives with the
/// earlier step. Its caller made no mistake and gets its number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_open_after_lowered_step_is_sent_again() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let (alloc, _clock, link) = start_controlled_alloc(&cluster, "a1").await;
    let allocs = [alloc.clone()];
    let spec = NamespaceSpec {
        step: 1_000,
        ..NamespaceSpec::new("lowered", dense_namespace("", 100, 1_000, 1).geometry)
    };
    create_namespace(&allocs, &spec).await;
    let mut plain = new_caller(&alloc).await;
    plain
        .next(with_call_timeout(next_request("lowered", 7)))
        .await
        .unwrap();
    link.cut();
    let mut other = plain.clone();
    let call = tokio::spawn(async move {
        other
            .next(with_call_timeout(next_request("lowered", 500)))
            .await
    });
    wait_until("the call to wait", TEST_TIMEOUT, async || {
        (read_counter(&alloc, "queued_items").await == 1).then_some(())
    })
    .await;
    let mut admin = AdminClient::connect(http_url(cluster.addresses[0]))
        .await
        .unwrap();
    let lowered = AlterNamespaceRequest {
        name: "lowered".into(),
        step: Some(10),
        step_max: Some(10),
        ..AlterNamespaceRequest::default()
    };
    admin.alter_namespace(lowered).await.unwrap();
    link.heal();
    let taken = call.await.unwrap().unwrap().into_inner();
    assert_eq!(taken.first, 1);
    cluster.stop(&allocs).await;
}

/// Schedule: a RaiseTo waits for the store, and its caller goes away. The raise is made all the
/// same, so its number is used: otherwise the window would stay open up to it, and a crash would
/// skip all of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raise_to_of_departed_caller_leaves_no_window_open() {
    const FAR_VALUE: u64 = 1_000_000;
    let cluster = InProcessCluster::start(1, LEASE).await;
    let (alloc, _clock, link) = start_controlled_alloc(&cluster, "a1").await;
    let allocs = [alloc.clone()];
    let mut plain = new_caller(&alloc).await;
    plain
        .next(with_call_timeout(next_request("", 7)))
        .await
        .unwrap();
    link.cut();
    let mut other = new_caller(&alloc).await;
    let raise = v1::RaiseToRequest {
        key_kind: Some(v1::raise_to_request::KeyKind::Uid(7)),
        value: FAR_VALUE,
        ..v1::RaiseToRequest::default()
    };
    let call = tokio::spawn(async move { other.raise_to(with_call_timeout(raise)).await });
    wait_until("the call to wait", TEST_TIMEOUT, async || {
        (read_counter(&alloc, "queued_items").await == 1).then_some(())
    })
    .await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    wait_until("the call to be gone", TEST_TIMEOUT, async || {
        (read_counter(&alloc, "queued_items").await == 0).then_some(())
    })
    .await;
    link.heal();
    wait_until("the counter to be set", TEST_TIMEOUT, async || {
        let current = v1::CurrentRequest {
            key_kind: Some(v1::current_request::KeyKind::Uid(7)),
            ..v1::CurrentRequest::default()
        };
        let current = plain
            .current(with_call_timeout(current))
            .await
            .ok()?
            .into_inner();
        (current.kind() == CurrentKind::Exact && current.value == FAR_VALUE).then_some(())
    })
    .await;
    cluster.stop(&allocs).await;
}
