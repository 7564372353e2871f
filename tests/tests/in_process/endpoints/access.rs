//! Every method of both servers, called by each kind of peer over TLS.
//!
//! Fault: callers of each role, and one without TLS, at all methods that the descriptors have.

#[path = "../../../../crates/net/tests/support/pki.rs"]
mod pki;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use pki::TestCa;
use prost::Message;
use prost_types::FileDescriptorSet;
use seqsvr_alloc::{AllocEnvironment, AllocServer};
use seqsvr_net::tls::{Role, TlsTransport};
use seqsvr_net::{ChannelPool, TcpTransport, Transport};
use seqsvr_store::{StoreEnvironment, StoreServer};
use seqsvr_test_support::wait::TEST_TIMEOUT;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response, header};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::ServiceExt;

use Role::{Admin, Alloc, Client, Store};

const HOST: &str = "127.0.0.1";
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";

/// Returns the paths of all methods that a server may have: those of the project and of the
/// standard services.
fn all_paths() -> Vec<String> {
    let sets = [
        seqsvr_proto::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut paths = Vec::new();
    for set in sets {
        for file in FileDescriptorSet::decode(set).unwrap().file {
            for service in &file.service {
                let service_name = format!("{}.{}", file.package(), service.name());
                let method_path = |m: &prost_types::MethodDescriptorProto| {
                    format!("/{service_name}/{}", m.name())
                };
                paths.extend(service.method.iter().map(method_path));
            }
        }
    }
    paths
}

/// Returns the roles that may call a method of a StoreSvr.
fn store_roles(path: &str) -> &'static [Role] {
    match path {
        "/seqsvr.v1.Store/Init" => &[Admin],
        "/seqsvr.v1.Store/Describe"
        | "/seqsvr.v1.Admin/ListNamespaces"
        | "/seqsvr.v1.Admin/ClusterStatus"
        | "/seqsvr.v1.Admin/NodeStatus" => &[Store, Alloc, Admin],
        _ if path.starts_with("/seqsvr.v1.Raft/") => &[Store],
        _ if path.starts_with("/seqsvr.v1.Store/") => &[Alloc],
        _ if path.starts_with("/seqsvr.v1.Admin/") => &[Alloc, Admin],
        _ if path.starts_with("/grpc.") => &Role::ALL,
        _ => &[],
    }
}

/// Returns the roles that may call a method of an AllocSvr.
fn alloc_roles(path: &str) -> &'static [Role] {
    match path {
        "/seqsvr.v1.Admin/ListNamespaces"
        | "/seqsvr.v1.Admin/ClusterStatus"
        | "/seqsvr.v1.Admin/NodeStatus" => &[Store, Alloc, Admin],
        "/seqsvr.v1.Admin/MoveSlot" | "/seqsvr.v1.Admin/Drain" => &[Alloc, Admin],
        _ if path.starts_with("/seqsvr.v1.Admin/") => &[Admin],
        _ if path.starts_with("/seqsvr.v1.Sequence/") => &[Client, Alloc, Admin],
        _ if path.starts_with("/grpc.") => &Role::ALL,
        _ => &[],
    }
}

/// Calls a method with one empty message. Returns the status in the head of the answer: a rejected
/// call has it there, since its body was not read.
///
/// # Errors
/// There is no connection.
async fn call_method(channel: &Channel, path: &str) -> Result<Option<Status>, String> {
    let body = Body::new(Full::new(Bytes::from_static(&[0; 5])));
    let request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(body)
        .unwrap();
    let calling = channel.clone().oneshot(request);
    let answer = timeout(TEST_TIMEOUT, calling).await.expect(path);
    let answer: Response<Body> = answer.map_err(|e| e.to_string())?;
    Ok(Status::from_header_map(answer.headers()))
}

/// Calls all methods of a server as each peer, and compares with the roles that may.
async fn check_methods(
    address: &str,
    peers: &[(Option<Role>, Channel)],
    roles_of: fn(&str) -> &'static [Role],
) {
    let mut open = 0;
    for path in all_paths() {
        let roles = roles_of(&path);
        open += usize::from(!roles.is_empty());
        for (role, channel) in peers {
            // Its connection is closed before it calls a method.
            if role.is_none() && path != HEALTH_CHECK {
                continue;
            }
            let answer = call_method(channel, &path).await;
            let who = format!("{role:?} calls {path} at {address}: {answer:?}");
            let Some(role) = role else {
                assert!(answer.is_err(), "{who}");
                continue;
            };
            let code = answer.expect(&who).map(|status| status.code());
            match role {
                _ if roles.is_empty() => assert_eq!(code, Some(Code::Unimplemented), "{who}"),
                role if roles.contains(role) => {
                    let is_closed = matches!(
                        code,
                        Some(Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented)
                    );
                    assert!(!is_closed, "{who}");
                }
                _ => assert_eq!(code, Some(Code::PermissionDenied), "{who}"),
            }
        }
    }
    assert!(open > 20, "{open} methods");
}

#[tokio::test]
async fn each_method_is_open_to_its_roles_only() {
    let dir = tempfile::tempdir().unwrap();
    let ca = TestCa::new("test");
    let transport = |dir: &Path| TlsTransport::from_dir(dir).unwrap();
    let write = |name: &str, uri: &str| ca.write(&dir.path().join(name), uri, &[HOST]);
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let store = StoreServer::start_in(
        seqsvr_store::Options::new(1, any, dir.path().join("data")),
        StoreEnvironment {
            transport: transport(&write("s1", "seqsvr://test/store/s1")),
            ..StoreEnvironment::system()
        },
    )
    .await
    .unwrap();
    let store_address = store.local_addr().to_string();
    let alloc = AllocServer::start_in(
        seqsvr_alloc::Options::new("a1", any, vec![store_address.clone()]),
        AllocEnvironment {
            transport: transport(&write("a1", "seqsvr://test/alloc/a1")),
            ..AllocEnvironment::system()
        },
    )
    .await
    .unwrap();
    let alloc_address = alloc.local_addr().to_string();

    let mut callers: Vec<(Option<Role>, Arc<dyn Transport>)> = Vec::new();
    for role in Role::ALL {
        let uri = format!("seqsvr://test/{role}/caller");
        callers.push((Some(role), transport(&write(role.name(), &uri))));
    }
    callers.push((None, Arc::new(TcpTransport)));
    for (address, roles_of) in [
        (&store_address, store_roles as fn(&str) -> &'static [Role]),
        (&alloc_address, alloc_roles),
    ] {
        let connect = |(role, transport): &(Option<Role>, Arc<dyn Transport>)| {
            let pool = ChannelPool::with_transport(transport.clone());
            (*role, pool.get(address).unwrap())
        };
        let peers: Vec<_> = callers.iter().map(connect).collect();
        check_methods(address, &peers, roles_of).await;
    }
    alloc.shutdown().await;
    store.shutdown().await;
}
