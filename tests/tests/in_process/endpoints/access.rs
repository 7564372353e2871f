//! Every method of both servers, called by each kind of peer over TLS.
//!
//! Fault: callers of each role, and one without TLS, at all methods that the descriptors have.

mod grpc_caller;
mod http_principals;
#[path = "../../../../crates/net/tests/support/pki.rs"]
mod pki;
mod principal_cluster;
mod principals;
mod redis_commands;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use pki::TestCa;
use prost::Message;
use prost_types::FileDescriptorSet;
use seqsvr_access::Access;
use seqsvr_alloc::{AllocEnvironment, AllocServer};
use seqsvr_client::{ClientOptions, Key};
use seqsvr_core::ids::Slot;
use seqsvr_core::namespace::NamespaceChange;
use seqsvr_net::tls::{Role, TlsDir, TlsTransport};
use seqsvr_net::{ChannelPool, TcpTransport, Transport};
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{self, Reason};
use seqsvr_store::{StoreEnvironment, StoreServer};
use seqsvr_test_support::in_process::dense_namespace;
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tempfile::TempDir;
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
        "/seqsvr.v1.Store/Clock" => &[Store],
        "/seqsvr.v1.Store/Describe"
        | "/seqsvr.v1.Admin/ListNamespaces"
        | "/seqsvr.v1.Admin/ClusterStatus"
        | "/seqsvr.v1.Admin/NodeStatus"
        | "/seqsvr.v1.Admin/ListIds" => &[Store, Alloc, Admin],
        _ if path.starts_with("/seqsvr.v1.Raft/") => &[Store],
        _ if path.starts_with("/seqsvr.v1.Store/") => &[Alloc],
        _ if path.starts_with("/seqsvr.v1.Admin/") => &[Admin],
        _ if path.starts_with("/grpc.") => &Role::ALL,
        _ => &[],
    }
}

/// Returns the roles that may call a method of an AllocSvr.
fn alloc_roles(path: &str) -> &'static [Role] {
    match path {
        "/seqsvr.v1.Admin/ListNamespaces"
        | "/seqsvr.v1.Admin/ClusterStatus"
        | "/seqsvr.v1.Admin/NodeStatus"
        | "/seqsvr.v1.Admin/ListIds" => &[Store, Alloc, Admin],
        _ if path.starts_with("/seqsvr.v1.Admin/") => &[Admin],
        _ if path.starts_with("/seqsvr.v1.Sequence/") => &[Client, Alloc, Admin],
        _ if path.starts_with("/seqsvr.v1.Ids/") => &[Client, Alloc, Admin],
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
    let cluster = SecuredCluster::start().await;
    let mut callers: Vec<(Option<Role>, ChannelPool)> = Vec::new();
    for role in Role::ALL {
        callers.push((Some(role), cluster.channels_of(role.name())));
    }
    callers.push((None, ChannelPool::new()));
    for (address, roles_of) in [
        (
            cluster.store.local_addr().to_string(),
            store_roles as fn(&str) -> &'static [Role],
        ),
        (cluster.alloc_address(0), alloc_roles),
    ] {
        let connect =
            |(role, pool): &(Option<Role>, ChannelPool)| (*role, pool.get(&address).unwrap());
        let peers: Vec<_> = callers.iter().map(connect).collect();
        check_methods(&address, &peers, roles_of).await;
    }
    cluster.shutdown().await;
}

/// A store and the AllocSvrs a1 and a2 under TLS, which form a cluster.
struct SecuredCluster {
    ca: TestCa,
    dir: TempDir,
    store: StoreServer,
    allocs: [AllocServer; 2],
}

impl SecuredCluster {
    async fn start() -> SecuredCluster {
        SecuredCluster::start_with(Access::by_role()).await
    }

    /// Starts the cluster, whose AllocSvrs judge their callers by `access`.
    async fn start_with(access: Access) -> SecuredCluster {
        let dir = tempfile::tempdir().unwrap();
        let ca = TestCa::new("test");
        let own = |role: &str, name: &str| write_certificate(&ca, dir.path(), role, name);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = seqsvr_store::Options::new(1, any, dir.path().join("data"));
        let environment = StoreEnvironment {
            transport: own("store", "s1"),
            ..StoreEnvironment::system()
        };
        let store = StoreServer::start_in(options, environment).await.unwrap();
        let store_address = store.local_addr().to_string();
        let admin = ChannelPool::with_transport(own("admin", "alice"));
        let mut init = StoreClient::new(admin.get(&store_address).unwrap());
        let described = init.describe(v1::DescribeRequest {}).await.unwrap();
        let described = described.into_inner();
        let request = v1::InitRequest {
            cluster: u128_to_bytes(7),
            members: vec![v1::Member {
                id: described.node,
                address: described.address,
                incarnation: described.incarnation,
            }],
            lease_ms: 3_000,
            slots: 4,
        };
        init.init(request).await.unwrap();
        let start_alloc = async |name: &str| {
            let mut options = seqsvr_alloc::Options::new(name, any, vec![store_address.clone()]);
            options.access = access.clone();
            let transport = match access.has_principals() {
                false => own("alloc", name),
                true => {
                    let uri = format!("seqsvr://test/alloc/{name}");
                    let own = ca.write(&dir.path().join(format!("alloc-{name}")), &uri, &[HOST]);
                    let own = Arc::new(TlsDir::read(&own).unwrap());
                    let transport = TlsTransport::new(Arc::new(TcpTransport), own);
                    Arc::new(transport.with_optional_certificates())
                }
            };
            let environment = AllocEnvironment {
                transport,
                ..AllocEnvironment::system()
            };
            AllocServer::start_in(options, environment).await.unwrap()
        };
        let allocs = [start_alloc("a1").await, start_alloc("a2").await];
        SecuredCluster {
            ca,
            dir,
            store,
            allocs,
        }
    }

    /// Returns the channels of a caller with this role.
    fn channels_of(&self, role: &str) -> ChannelPool {
        let transport = write_certificate(&self.ca, self.dir.path(), role, "caller");
        ChannelPool::with_transport(transport)
    }

    async fn shutdown(self) {
        for alloc in self.allocs {
            alloc.shutdown().await;
        }
        self.store.shutdown().await;
    }

    fn alloc_address(&self, index: usize) -> String {
        self.allocs[index].local_addr().to_string()
    }

    /// Creates a client of the AllocSvr a1 with this role.
    fn client_of(&self, role: &str) -> seqsvr_client::Client {
        let options = ClientOptions::new([self.alloc_address(0)]);
        seqsvr_client::Client::over(self.channels_of(role), options).unwrap()
    }
}

fn write_certificate(ca: &TestCa, dir: &Path, role: &str, name: &str) -> Arc<dyn Transport> {
    let uri = format!("seqsvr://test/{role}/{name}");
    let own = ca.write(&dir.join(format!("{role}-{name}")), &uri, &[HOST]);
    TlsTransport::from_dir(&own).unwrap()
}

/// Asserts that a call was sent on to another server.
fn assert_redirected<T: std::fmt::Debug>(
    answer: Result<tonic::Response<T>, Status>,
    reason: Reason,
    address: &str,
) {
    let fault = RpcError::from_status(&answer.unwrap_err());
    assert_eq!(fault.reason(), reason, "{fault}");
    assert_eq!(fault.detail.leader, address, "{fault}");
    assert!(fault.message.contains(address), "{fault}");
}

/// Schedule: the key of an AllocSvr is stolen, or an operator's rights end. Nothing changes with
/// the certificate of a server that relays: the caller is sent on, and the SDK follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_made_with_the_certificate_of_their_caller() {
    let cluster = SecuredCluster::start().await;
    let client = cluster.client_of("admin");
    let admin = client.admin();
    wait_until("both AllocSvrs and all slots", TEST_TIMEOUT, async || {
        let status = admin.cluster_status().await.ok()?;
        (status.sessions.len() == 2 && status.free_slots == 0).then_some(())
    })
    .await;
    let name_of = |alloc: usize| ["a1", "a2"][alloc];

    // 1. An AllocSvr relays no change, and moves and drains itself only.
    let (first, second) = (cluster.alloc_address(0), cluster.alloc_address(1));
    let leader = cluster.store.local_addr().to_string();
    let channel = cluster.channels_of("admin").get(&first).unwrap();
    let raw = || AdminClient::new(channel.clone());
    let create = v1::CreateNamespaceRequest::default();
    let alter = v1::AlterNamespaceRequest::default();
    let (add, remove) = (
        v1::AddMemberRequest::default(),
        v1::RemoveMemberRequest { id: 1 },
    );
    let transfer = v1::TransferLeaderRequest { id: 1 };
    assert_redirected(
        raw().create_namespace(create).await,
        Reason::NotLeader,
        &leader,
    );
    assert_redirected(
        raw().alter_namespace(alter).await,
        Reason::NotLeader,
        &leader,
    );
    assert_redirected(raw().add_member(add).await, Reason::NotLeader, &leader);
    assert_redirected(
        raw().remove_member(remove).await,
        Reason::NotLeader,
        &leader,
    );
    assert_redirected(
        raw().transfer_leader(transfer).await,
        Reason::NotLeader,
        &leader,
    );
    let backup = raw()
        .backup(v1::BackupRequest {})
        .await
        .map(|_| tonic::Response::new(()));
    assert_redirected(backup, Reason::NotLeader, &leader);
    let drain = v1::DrainRequest {
        name: "a2".to_owned(),
        cancel: true,
        forwarded: false,
    };
    assert_redirected(raw().drain(drain).await, Reason::NotOwner, &second);

    // 2. The SDK follows, also from the AllocSvr that does not own the slot.
    let created = admin
        .create_namespace(&dense_namespace("orders", 1_000, 1_000_000, 100))
        .await
        .unwrap();
    assert_eq!(created.spec.name, "orders");
    let change = NamespaceChange {
        step: Some(7),
        ..NamespaceChange::default()
    };
    let altered = admin.alter_namespace("orders", change).await.unwrap();
    assert_eq!(altered.spec.step, 7);
    admin.drain("a2", true).await.unwrap();
    for target in [1, 0, 1] {
        admin.move_slot(0, name_of(target)).await.unwrap();
    }
    let members = admin.transfer_leader(Some(1)).await.unwrap();
    assert_eq!(members.len(), 1);
    let mut backup = admin.backup().await.unwrap();
    assert!(backup.chunk().await.unwrap().is_some());

    // 3. A caller of numbers does not force a raise, nor pretend that its call was forwarded.
    let table = client.routes().await.unwrap();
    let default = table.namespace("default").unwrap();
    let uid = (0..1_000)
        .find(|uid| table.locate(default, Key::Uid(*uid).as_ref()).unwrap().1 == Slot(0))
        .unwrap();
    let numbers = cluster.channels_of("client").get(&first).unwrap();
    let raise = |force| v1::RaiseToRequest {
        key_kind: Some(v1::raise_to_request::KeyKind::Uid(uid)),
        value: 1 << 40,
        force,
        forwarded: true,
        ..v1::RaiseToRequest::default()
    };
    let denied = SequenceClient::new(numbers.clone())
        .raise_to(raise(true))
        .await;
    let fault = RpcError::from_status(&denied.unwrap_err());
    assert_eq!(fault.reason(), Reason::PermissionDenied, "{fault}");
    let next = |forwarded| v1::NextRequest {
        key_kind: Some(v1::next_request::KeyKind::Uid(uid)),
        forwarded,
        ..v1::NextRequest::default()
    };
    // a2 owns the slot: a1 forwards the call of a caller, also of one that says so.
    SequenceClient::new(numbers).next(next(true)).await.unwrap();
    let peer = cluster.channels_of("alloc").get(&first).unwrap();
    let mut peer = SequenceClient::new(peer);
    let refused = peer.next(next(true)).await.unwrap_err();
    assert_eq!(RpcError::from_status(&refused).reason(), Reason::NotOwner);
    // An AllocSvr forces no raise, and forwards none of an operator.
    let owner = cluster.channels_of("alloc").get(&second).unwrap();
    let denied = SequenceClient::new(owner).raise_to(raise(true)).await;
    let fault = RpcError::from_status(&denied.unwrap_err());
    assert_eq!(fault.reason(), Reason::PermissionDenied, "{fault}");
    let operator = cluster.channels_of("admin").get(&first).unwrap();
    let refused = SequenceClient::new(operator).raise_to(raise(true)).await;
    let fault = RpcError::from_status(&refused.unwrap_err());
    assert_eq!(fault.reason(), Reason::NotOwner, "{fault}");
    let forced = client
        .default_namespace()
        .raise_to(uid, 1 << 40)
        .force(true)
        .await;
    assert_eq!(forced.unwrap().value, 1 << 40);

    cluster.shutdown().await;
}
