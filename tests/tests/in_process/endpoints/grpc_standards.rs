//! Standard gRPC services for generic tools.
//!
//! Reflection of both versions lists and describes all services, and health reports the state of
//! the whole server and of each service.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use seqsvr_test_support::in_process::{InProcessCluster, LEASE, http_url, start_controlled_alloc};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

async fn connect_channel(address: SocketAddr) -> Channel {
    let endpoint = Channel::from_shared(http_url(address)).unwrap();
    endpoint.connect().await.unwrap()
}

/// Lists the services of one version of reflection, and checks that each is described.
macro_rules! list_services {
    ($version:ident, $channel:expr) => {{
        use tonic_reflection::pb::$version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let mut client = ServerReflectionClient::new($channel);
        let mut ask = async |message| {
            let host = String::new();
            let message_request = Some(message);
            let request = ServerReflectionRequest {
                host,
                message_request,
            };
            let stream = client.server_reflection_info(futures::stream::iter([request]));
            let answer = stream.await.unwrap().into_inner().message().await.unwrap();
            answer.unwrap().message_response.unwrap()
        };
        let MessageResponse::ListServicesResponse(list) =
            ask(MessageRequest::ListServices(String::new())).await
        else {
            panic!("not a list")
        };
        let mut names = BTreeSet::new();
        for service in list.service {
            let symbol = MessageRequest::FileContainingSymbol(service.name.clone());
            let answer = ask(symbol).await;
            assert!(
                matches!(answer, MessageResponse::FileDescriptorResponse(_)),
                "{answer:?}"
            );
            names.insert(service.name);
        }
        names
    }};
}

/// Returns the services that both versions list, except health and reflection.
async fn listed_services(address: SocketAddr) -> BTreeSet<String> {
    let channel = connect_channel(address).await;
    let names = list_services!(v1, channel.clone());
    assert_eq!(names, list_services!(v1alpha, channel));
    let (ours, standard): (BTreeSet<_>, BTreeSet<_>) = names
        .into_iter()
        .partition(|name| name.starts_with("seqsvr."));
    let expected = [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    assert_eq!(standard, expected.map(String::from).into());
    ours
}

/// Waits until the health of these services is the awaited one.
async fn wait_for_health(address: SocketAddr, services: &[&str], awaited: ServingStatus) {
    let mut client = HealthClient::new(connect_channel(address).await);
    for service in services {
        let request = HealthCheckRequest {
            service: (*service).to_owned(),
        };
        wait_until(
            &format!("{service:?} {awaited:?}"),
            TEST_TIMEOUT,
            async || {
                let response = client.check(request.clone()).await.unwrap().into_inner();
                (response.status() == awaited).then_some(())
            },
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_and_health_report_the_true_state() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let (alloc, clock, link) = start_controlled_alloc(&cluster, "a1").await;
    let (store, a1) = (cluster.addresses[0], alloc.local_addr());
    let of_alloc = ["seqsvr.v1.Admin", "seqsvr.v1.Ids", "seqsvr.v1.Sequence"];
    let of_store = ["seqsvr.v1.Admin", "seqsvr.v1.Raft", "seqsvr.v1.Store"];
    assert_eq!(listed_services(a1).await, of_alloc.map(String::from).into());
    assert_eq!(
        listed_services(store).await,
        of_store.map(String::from).into()
    );

    let with_server = |services: &[&'static str]| [&[""], services].concat();
    wait_for_health(a1, &with_server(&of_alloc), ServingStatus::Serving).await;
    wait_for_health(store, &with_server(&of_store), ServingStatus::Serving).await;
    let mut client = HealthClient::new(connect_channel(a1).await);
    let unknown = HealthCheckRequest {
        service: "seqsvr.v1.Store".into(),
    };
    let unknown_service = client.check(unknown).await.unwrap_err();
    assert_eq!(unknown_service.code(), Code::NotFound);

    link.cut();
    clock.jump(LEASE);
    wait_for_health(a1, &with_server(&of_alloc), ServingStatus::NotServing).await;
    link.heal();
    wait_for_health(a1, &with_server(&of_alloc), ServingStatus::Serving).await;

    // A watcher receives the stop before the connection ends.
    let request = HealthCheckRequest::default();
    let mut watch = client.watch(request).await.unwrap().into_inner();
    let first = watch.message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    let stopped = alloc.clone();
    let stopping = tokio::spawn(async move { stopped.shutdown().await });
    let second = tokio::time::timeout(TEST_TIMEOUT, watch.message()).await;
    let second = second.expect("an event in time").unwrap().unwrap();
    assert_eq!(second.status(), ServingStatus::NotServing);
    drop(watch);
    stopping.await.unwrap();
    cluster.stop(&[alloc]).await;
}
