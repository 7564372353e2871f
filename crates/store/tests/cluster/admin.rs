//! Namespaces over gRPC, and limits of requests.
//!
//! No fault: good, bad and concurrent requests to one store.

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason};
use tonic::Code;

use crate::store_cluster::start_cluster;

#[tokio::test]
async fn namespace_requests_are_validated_and_limited() {
    let cluster = start_cluster(1).await;
    let mut admin = cluster.admin_client(0).await;
    let tickets = v1::Namespace {
        name: "tickets".into(),
        geometry: Some(v1::namespace::Geometry::Keyed(v1::Keyed::default())),
        stride: 2,
        offset: 1,
        ..Default::default()
    };
    let create = |n: &v1::Namespace| v1::CreateNamespaceRequest {
        namespace: Some(n.clone()),
    };
    let made = admin
        .create_namespace(create(&tickets))
        .await
        .unwrap()
        .into_inner();
    let again = admin
        .create_namespace(create(&tickets))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(made, again);
    let other = v1::Namespace {
        stride: 3,
        ..tickets.clone()
    };
    let status = admin.create_namespace(create(&other)).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    let bad = v1::Namespace {
        name: "no spaces".into(),
        ..tickets
    };
    let status = admin.create_namespace(create(&bad)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let alter = v1::AlterNamespaceRequest {
        name: "tickets".into(),
        step: Some(77),
        ..Default::default()
    };
    let altered = admin
        .alter_namespace(alter.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!((altered.step, altered.step_max), (77, made.step_max));
    let set = |strict| v1::AlterNamespaceRequest {
        name: "tickets".into(),
        strict,
        ..Default::default()
    };
    // The value stays as it is unless the request changes it.
    for (wanted, strict) in [
        (Some(true), true),
        (None, true),
        (Some(false), false),
        (None, false),
    ] {
        let altered = admin.alter_namespace(set(wanted)).await.unwrap();
        let altered = altered.into_inner();
        assert_eq!((altered.strict, altered.step), (strict, 77));
    }
    let unknown = v1::AlterNamespaceRequest {
        name: "nowhere".into(),
        ..alter
    };
    let status = admin.alter_namespace(unknown).await.unwrap_err();
    assert_eq!(
        RpcError::from_status(&status).reason(),
        Reason::NamespaceNotFound
    );
    let all = admin
        .list_namespaces(v1::ListNamespacesRequest {})
        .await
        .unwrap();
    let names: Vec<_> = all
        .into_inner()
        .namespaces
        .into_iter()
        .map(|n| n.name)
        .collect();
    assert_eq!(names, ["default", "keys", "tickets"]);

    let mut store = cluster.store_client(0).await;
    let status = store
        .submit(v1::SubmitRequest::default())
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let many = v1::ReadRequest {
        slots: vec![0; 10_001],
        ..Default::default()
    };
    let status = store.read(many).await.unwrap_err();
    assert_eq!(
        RpcError::from_status(&status).reason(),
        Reason::LimitExceeded
    );
}

/// Schedule: one operator makes a namespace strict while another one changes its step. Each
/// receives success; neither may undo what the other did.
#[tokio::test]
async fn concurrent_alterations_lose_no_change() {
    let cluster = start_cluster(1).await;
    let admin = cluster.admin_client(0).await;
    let alter = |change: v1::AlterNamespaceRequest| {
        let mut admin = admin.clone();
        async move {
            let request = v1::AlterNamespaceRequest {
                name: "default".into(),
                ..change
            };
            admin.alter_namespace(request).await.unwrap();
        }
    };
    for round in 1..=20 {
        let strict = alter(v1::AlterNamespaceRequest {
            strict: Some(round % 2 == 0),
            ..Default::default()
        });
        let step = alter(v1::AlterNamespaceRequest {
            step: Some(round),
            ..Default::default()
        });
        let raise_to = alter(v1::AlterNamespaceRequest {
            raise_to_max: Some(u64::from(round)),
            ..Default::default()
        });
        tokio::join!(strict, step, raise_to);
        let mut admin = admin.clone();
        let all = admin.list_namespaces(v1::ListNamespacesRequest {}).await;
        let all = all.unwrap().into_inner().namespaces;
        let now = all.iter().find(|n| n.name == "default").unwrap();
        let expected = (round % 2 == 0, round, u64::from(round));
        assert_eq!((now.strict, now.step, now.raise_to_max), expected);
    }
}
