//! A caller that names another cluster is rejected before a number is taken, and answers name the
//! cluster.
//!
//! Every kind of request is sent with a wrong cluster tag.

use futures::stream;
use seqsvr_alloc::Options;
use seqsvr_core::ids::ClusterId;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{self, Reason, current_request, raise_to_request};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, any_port, http_url, new_caller, next_request, start_alloc,
    wait_until_assigned,
};
use tonic::{Code, Request, Status};

/// Tag of the harness's cluster.
const OWN: ClusterTag = ClusterTag(7);
const OTHER: ClusterTag = ClusterTag(8);

#[track_caller]
fn assert_rejected<T: std::fmt::Debug>(answer: Result<T, Status>) {
    let fault = RpcError::from_status(&answer.expect_err("it is rejected"));
    assert_eq!(fault.reason(), Reason::ClusterMismatch, "{fault}");
    assert_eq!(fault.code, Code::FailedPrecondition);
    assert_eq!(fault.detail.cluster_tag, OWN.0);
    for part in [OWN.to_string(), OTHER.to_string()] {
        assert!(fault.message.contains(&part), "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alloc_rejects_callers_of_another_cluster() {
    assert_eq!(OWN, ClusterTag::from_cluster_id(ClusterId(7)));
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let mut caller = new_caller(&allocs[0]).await;
    let uid = current_request::KeyKind::Uid(1);
    let request = |tag: ClusterTag| {
        let cluster_tag = tag.0;
        let next = v1::NextRequest {
            cluster_tag,
            ..next_request("", 1)
        };
        let many = v1::NextManyRequest {
            uids: vec![1, 2],
            cluster_tag,
            ..v1::NextManyRequest::default()
        };
        let current = v1::CurrentRequest {
            key_kind: Some(uid.clone()),
            cluster_tag,
            ..v1::CurrentRequest::default()
        };
        let currents = v1::CurrentManyRequest {
            uids: vec![1],
            cluster_tag,
            ..v1::CurrentManyRequest::default()
        };
        let raise = v1::RaiseToRequest {
            key_kind: Some(raise_to_request::KeyKind::Uid(3)),
            value: 100,
            cluster_tag,
            ..v1::RaiseToRequest::default()
        };
        (next, many, current, currents, raise)
    };
    let (next, many, current, currents, raise) = request(OTHER);
    assert_rejected(caller.next(next).await);
    assert_rejected(caller.next_many(many.clone()).await);
    assert_rejected(caller.current(current).await);
    assert_rejected(caller.current_many(currents).await);
    assert_rejected(caller.raise_to(raise).await);
    let routes = v1::RoutesRequest {
        base: 0,
        cluster_tag: OTHER.0,
    };
    assert_rejected(caller.routes(routes).await);
    let frame = |many| v1::PipeRequest {
        id: 1,
        operation: Some(v1::pipe_request::Operation::Next(many)),
        ..v1::PipeRequest::default()
    };
    let mut opening = Request::new(stream::iter([frame(many.clone())]));
    OTHER.write_metadata(opening.metadata_mut());
    assert_rejected(caller.pipe(opening).await);
    // A frame may name its cluster as well.
    let opened = caller.pipe(stream::iter([frame(many)])).await.unwrap();
    let named = ClusterTag::from_metadata(opened.metadata()).unwrap();
    let answer = opened.into_inner().message().await.unwrap().unwrap();
    let Some(v1::pipe_response::Answer::Rejected(refused)) = answer.answer else {
        panic!("{answer:?}");
    };
    assert_eq!((named, refused.reason()), (OWN, Reason::ClusterMismatch));
    // No number was taken. A caller that names this cluster or none is served, and learns the
    // cluster.
    let (next, many, current, currents, raise) = request(OWN);
    let answer = caller.next(next).await.unwrap().into_inner();
    assert_eq!((answer.first, answer.cluster_tag), (1, OWN.0));
    let answer = caller.next_many(many).await.unwrap().into_inner();
    assert_eq!((answer.firsts, answer.cluster_tag), (vec![2, 1], OWN.0));
    let answer = caller.current(current).await.unwrap().into_inner();
    assert_eq!((answer.value, answer.cluster_tag), (2, OWN.0));
    let answer = caller.current_many(currents).await.unwrap().into_inner();
    assert_eq!((answer.values, answer.cluster_tag), (vec![2], OWN.0));
    let answer = caller.raise_to(raise).await.unwrap().into_inner();
    assert_eq!((answer.value, answer.cluster_tag), (100, OWN.0));
    let answer = caller.next(next_request("", 1)).await.unwrap().into_inner();
    assert_eq!((answer.first, answer.cluster_tag), (3, OWN.0));
    // Errors name it as well.
    let unknown = caller.next(next_request("nowhere", 1)).await.unwrap_err();
    assert_eq!(RpcError::from_status(&unknown).detail.cluster_tag, OWN.0);
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_rejects_allocs_of_another_cluster() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let mut store = StoreClient::connect(http_url(cluster.addresses[0]))
        .await
        .unwrap();
    let open = |cluster_tag| v1::OpenSessionRequest {
        name: "a1".into(),
        address: "127.0.0.1:1".into(),
        nonce: vec![1; 16].into(),
        cluster_tag,
        ..v1::OpenSessionRequest::default()
    };
    assert_rejected(store.open_session(open(OTHER.0)).await);
    // An AllocSvr that starts has no cluster tag yet.
    let opened = store.open_session(open(0)).await.unwrap().into_inner();
    assert_eq!(opened.cluster_tag, OWN.0);
    let session = opened.session;
    let cluster_tag = OTHER.0;
    let keep_alive = v1::KeepAliveRequest {
        session,
        cluster_tag,
        ..v1::KeepAliveRequest::default()
    };
    assert_rejected(store.keep_alive(keep_alive).await);
    let read = v1::ReadRequest {
        session: Some(session),
        cluster_tag,
        ..v1::ReadRequest::default()
    };
    assert_rejected(store.read(read).await);
    let submit = v1::SubmitRequest {
        cluster_tag,
        ..v1::SubmitRequest::default()
    };
    assert_rejected(store.submit(submit).await);
    let move_slot = v1::MoveSlotRequest {
        session,
        cluster_tag,
        ..v1::MoveSlotRequest::default()
    };
    assert_rejected(store.move_slot(move_slot).await);
    let watch = v1::WatchRequest {
        table_version: 0,
        cluster_tag,
    };
    assert_rejected(store.watch(watch).await);
    let close = v1::CloseSessionRequest {
        session,
        last: true,
        cluster_tag,
        ..v1::CloseSessionRequest::default()
    };
    assert_rejected(store.close_session(close).await);
    // The session lives, and errors name the cluster as well.
    let keep_alive = v1::KeepAliveRequest {
        session,
        cluster_tag: OWN.0,
        ..v1::KeepAliveRequest::default()
    };
    let renewed = store.keep_alive(keep_alive).await.unwrap().into_inner();
    assert_eq!(renewed.cluster_tag, OWN.0);
    let unknown = v1::KeepAliveRequest {
        session: session + 1,
        ..v1::KeepAliveRequest::default()
    };
    let unknown = store.keep_alive(unknown).await.unwrap_err();
    assert_eq!(RpcError::from_status(&unknown).detail.cluster_tag, OWN.0);
    cluster.stop(&[]).await;
}

/// An AllocSvr that outlived its stores would relay an operator's call to another cluster's leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admin_calls_of_another_cluster_are_rejected() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    for address in [cluster.addresses[0], allocs[0].local_addr()] {
        let mut admin = AdminClient::connect(http_url(address)).await.unwrap();
        let list = |tag: ClusterTag| {
            let mut request = Request::new(v1::ListNamespacesRequest {});
            tag.write_metadata(request.metadata_mut());
            request
        };
        assert_rejected(admin.list_namespaces(list(OTHER)).await);
        // The second address is that of an AllocSvr, which relays in its own cluster's name.
        for tag in [OWN, ClusterTag::NONE] {
            let namespaces = admin.list_namespaces(list(tag)).await.unwrap();
            assert_eq!(namespaces.into_inner().namespaces.len(), 2);
        }
    }
    cluster.stop(&allocs).await;
}

/// One of three stores swallows every packet, and the first request of an AllocSvr would go there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_store_does_not_decide_about_a_start() {
    let cluster = InProcessCluster::start(2, LEASE).await;
    // The system accepts the connections; no program reads from them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stores = vec![silent.local_addr().unwrap().to_string()];
    stores.extend(cluster.addresses.iter().map(ToString::to_string));
    let alloc = start_alloc(Options::new("a1", any_port(), stores)).await;
    wait_until_assigned(std::slice::from_ref(&alloc)).await;
    cluster.stop(&[alloc]).await;
}

/// Half of the stores is silent, so the cluster is not decided: no call is relayed to the other
/// half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alloc_whose_cluster_is_not_decided_relays_nothing() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let stores = vec![cluster.addresses[0].to_string(), "127.0.0.1:1".to_owned()];
    let alloc = start_alloc(Options::new("a1", any_port(), stores)).await;
    let mut admin = AdminClient::connect(http_url(alloc.local_addr()))
        .await
        .unwrap();
    let rejected = admin
        .create_namespace(v1::CreateNamespaceRequest {
            namespace: Some(v1::Namespace {
                name: "orders".into(),
                ..v1::Namespace::default()
            }),
        })
        .await;
    let rejected = RpcError::from_status(&rejected.unwrap_err());
    assert_eq!(rejected.reason(), Reason::Unreachable, "{rejected}");
    for part in [
        "1 of 2 stores",
        "127.0.0.1:1 -> no answer",
        "--join-cluster",
    ] {
        assert!(rejected.message.contains(part), "{rejected}");
    }
    assert!(!alloc.has_lease());
    let mut store = AdminClient::connect(http_url(cluster.addresses[0]))
        .await
        .unwrap();
    let listed = store.list_namespaces(v1::ListNamespacesRequest {}).await;
    assert_eq!(listed.unwrap().into_inner().namespaces.len(), 2);
    cluster.stop(&[alloc]).await;
}
