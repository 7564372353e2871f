//! Commands that wait for a store while something else changes.
//!
//! The namespace is altered or the caller goes away before the command arrives.

use std::time::Duration;

use seqsvr_core::namespace::Spec;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::{self, AlterNamespaceRequest, CurrentKind};
use tonic::Request;

use crate::harness::{Cluster, D, caller, counter, create, dense, next_of, until, url};
use crate::lease::commanded;

const PATIENT: Duration = Duration::from_secs(30);

fn patient<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(PATIENT);
    request
}

/// Schedule: an Open waits for the store; step and step_max are lowered; the Open arrives with the
/// earlier step. Its caller made no mistake and gets its number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_that_waits_while_the_step_is_lowered_is_made_again() {
    let cluster = Cluster::start(1, D).await;
    let (alloc, _clock, link) = commanded(&cluster, "a1").await;
    let allocs = [alloc.clone()];
    let spec = Spec {
        step: 1_000,
        ..Spec::new("lowered", dense("", 100, 1_000, 1).geometry)
    };
    create(&allocs, &spec).await;
    let mut plain = caller(&alloc).await;
    plain.next(patient(next_of("lowered", 7))).await.unwrap();
    link.cut();
    let mut other = plain.clone();
    let call = tokio::spawn(async move { other.next(patient(next_of("lowered", 500))).await });
    until("the call to wait", async || {
        (counter(&alloc, "waiting").await == 1).then_some(())
    })
    .await;
    let mut admin = AdminClient::connect(url(cluster.addresses[0]))
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
async fn a_raise_to_whose_caller_goes_away_leaves_no_window_open() {
    const FAR: u64 = 1_000_000;
    let cluster = Cluster::start(1, D).await;
    let (alloc, _clock, link) = commanded(&cluster, "a1").await;
    let allocs = [alloc.clone()];
    let mut plain = caller(&alloc).await;
    plain.next(patient(next_of("", 7))).await.unwrap();
    link.cut();
    let mut other = caller(&alloc).await;
    let raise = v1::RaiseToRequest {
        key_kind: Some(v1::raise_to_request::KeyKind::Uid(7)),
        value: FAR,
        ..v1::RaiseToRequest::default()
    };
    let call = tokio::spawn(async move { other.raise_to(patient(raise)).await });
    until("the call to wait", async || {
        (counter(&alloc, "waiting").await == 1).then_some(())
    })
    .await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    until("the call to be gone", async || {
        (counter(&alloc, "waiting").await == 0).then_some(())
    })
    .await;
    link.heal();
    until("the counter to be set", async || {
        let current = v1::CurrentRequest {
            key_kind: Some(v1::current_request::KeyKind::Uid(7)),
            ..v1::CurrentRequest::default()
        };
        let current = plain.current(patient(current)).await.ok()?.into_inner();
        (current.kind() == CurrentKind::Exact && current.value == FAR).then_some(())
    })
    .await;
    cluster.stop(&allocs).await;
}
