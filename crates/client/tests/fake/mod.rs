//! A scripted AllocSvr over real gRPC: real tables, places and errors of core and proto, numbers
//! from a plain map. It stands in for what a real one does only in rare moments.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test binary includes this file and uses its part"
)]

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_client::{Client, Key, Options};
use seqsvr_core::id::{ClusterId, Epoch, NamespaceId, SessionId, Slot};
use seqsvr_core::namespace::{Namespace, Spec};
use seqsvr_core::route::{Delta, KeyRef, Owner, Route, RoutingTable};
use seqsvr_proto::convert::{Keyed, namespace_name};
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::admin_server::{Admin, AdminServer};
use seqsvr_proto::v1::sequence_server::{Sequence, SequenceServer};
use seqsvr_proto::v1::{self, Reason};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

pub const SLOTS: u16 = 16;

/// What a node is told to do; changed while it runs.
#[derive(Default)]
pub struct Script {
    /// Before any answer but Routes.
    pub delay: Duration,
    /// Attach deltas from a version the client cannot have.
    pub gap: bool,
    /// Attach the table of this cluster.
    pub cluster: Option<u128>,
    /// Answer with these first, one a call of Next.
    pub faults: Vec<Fault>,
    /// Keys that fail once in NextMany, as UNAVAILABLE.
    pub flaky: BTreeSet<String>,
    /// Keys that fail once in NextMany, as told here.
    pub refused: HashMap<String, Fault>,
}

/// The truth all nodes of a test share.
#[derive(Default)]
pub struct World {
    pub numbers: Mutex<HashMap<(u32, String), u64>>,
}

#[derive(Clone)]
pub struct Node {
    pub address: String,
    pub world: Arc<World>,
    pub table: Arc<Mutex<RoutingTable>>,
    pub script: Arc<Mutex<Script>>,
    pub seen: Arc<Mutex<Vec<v1::NextRequest>>>,
    pub timeouts: Arc<Mutex<Vec<String>>>,
    pub fetched: Arc<Mutex<Vec<u64>>>,
    pub many: Arc<AtomicU64>,
}

/// A table of the two first namespaces; `owner` says who has a slot, at which epoch.
pub fn table(version: u64, owner: impl Fn(u16) -> Option<(String, u64)>) -> RoutingTable {
    let routes = (0..SLOTS).map(|slot| {
        let owner = owner(slot);
        let route = Route {
            epoch: Epoch(owner.as_ref().map_or(0, |(_, epoch)| *epoch)),
            owner: owner.map(|(address, _)| Owner {
                session: SessionId(address.rsplit(':').next().unwrap().parse().unwrap()),
                name: address.clone(),
                address,
            }),
            version,
        };
        (Slot(slot), route)
    });
    let namespaces = [Spec::default_dense(), Spec::default_keyed()];
    RoutingTable::new(Delta {
        cluster: ClusterId(1),
        base: 0,
        version,
        slot_count: u32::from(SLOTS),
        namespaces: namespaces
            .into_iter()
            .zip(1..)
            .map(|(s, i)| namespace(s, i, 1))
            .collect(),
        routes: routes.collect(),
    })
    .unwrap()
}

pub fn namespace(spec: Spec, id: u32, version: u64) -> Namespace {
    Namespace {
        id: NamespaceId(id),
        spec,
        version,
    }
}

pub fn add_namespace(table: &mut RoutingTable, name: &str) -> Namespace {
    let spec = Spec {
        name: name.into(),
        ..Spec::default_dense()
    };
    let added = namespace(spec, 9, table.version() + 1);
    table
        .apply(Delta {
            cluster: table.cluster(),
            base: table.version(),
            version: table.version() + 1,
            slot_count: table.slot_count(),
            namespaces: vec![added.clone()],
            routes: Vec::new(),
        })
        .unwrap();
    added
}

/// Listens on free ports first, so that tables can name them.
pub async fn listen<const N: usize>() -> ([TcpListener; N], [String; N]) {
    let mut listeners = Vec::new();
    for _ in 0..N {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let addresses: Vec<String> = listeners
        .iter()
        .map(|l| l.local_addr().unwrap().to_string())
        .collect();
    (
        listeners.try_into().ok().unwrap(),
        addresses.try_into().ok().unwrap(),
    )
}

/// An address at which nothing listens.
pub async fn dead() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

pub fn client(servers: &[&String]) -> Client {
    let options = Options {
        seed: Some(1),
        ..Options::new(servers.iter().map(|s| s.to_string()))
    };
    Client::new(options).unwrap()
}

impl Node {
    pub fn start(listener: TcpListener, world: &Arc<World>, table: &RoutingTable) -> Node {
        let address: SocketAddr = listener.local_addr().unwrap();
        let node = Node {
            address: address.to_string(),
            world: world.clone(),
            table: Arc::new(Mutex::new(table.clone())),
            script: Arc::default(),
            seen: Arc::default(),
            timeouts: Arc::default(),
            fetched: Arc::default(),
            many: Arc::default(),
        };
        let server = tonic::transport::Server::builder()
            .add_service(SequenceServer::new(node.clone()))
            .add_service(AdminServer::new(node.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(server);
        node
    }

    /// What a caller with this version misses, as the script wants it told.
    fn news(&self, version: u64) -> Option<v1::RoutingTable> {
        let script = self.script.lock();
        let table = self.table.lock();
        let mut delta = table.delta_since(version);
        if script.gap {
            delta.base = delta.version + 1;
            delta.version += 2;
        }
        if let Some(cluster) = script.cluster {
            delta.cluster = ClusterId(cluster);
        }
        let tell =
            version > 0 && (table.version() > version || script.gap || script.cluster.is_some());
        tell.then(|| v1::RoutingTable::from(&delta))
    }

    /// Takes numbers if this node's table says that the key is its own.
    fn take(&self, name: &str, key: KeyRef<'_>, count: u32) -> Result<(u64, u64, u64), Fault> {
        let (namespace, epoch) = {
            let table = self.table.lock();
            let name = namespace_name(name, key);
            let namespace = table
                .namespace(name)
                .ok_or_else(|| Fault::new(Reason::NoSuchNamespace, "no such namespace"))?;
            let (_, slot) = table.place(namespace, key)?;
            let route = table.route(slot).unwrap().clone();
            if route.owner.map(|o| o.address).as_deref() != Some(self.address.as_str()) {
                return Err(Fault::new(
                    Reason::NotOwner,
                    format!("slot {slot} is not mine"),
                ));
            }
            (namespace.id.0, route.epoch.0)
        };
        let mut numbers = self.world.numbers.lock();
        let last = numbers.entry((namespace, text(key))).or_default();
        *last += u64::from(count);
        Ok((*last + 1 - u64::from(count), *last, epoch))
    }

    async fn delay(&self) {
        let delay = self.script.lock().delay;
        tokio::time::sleep(delay).await;
    }
}

fn text(key: KeyRef<'_>) -> String {
    match key {
        KeyRef::Uid(uid) => uid.to_string(),
        KeyRef::Key(key) => String::from_utf8_lossy(key).into_owned(),
    }
}

#[tonic::async_trait]
impl Sequence for Node {
    async fn next(
        &self,
        request: Request<v1::NextRequest>,
    ) -> Result<Response<v1::NextResponse>, Status> {
        if let Some(timeout) = request.metadata().get("grpc-timeout") {
            self.timeouts
                .lock()
                .push(timeout.to_str().unwrap().to_owned());
        }
        let request = request.into_inner();
        self.seen.lock().push(request.clone());
        self.delay().await;
        let fault = self.script.lock().faults.pop();
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        let key = request.key_ref().unwrap();
        let taken = self.take(&request.namespace, key, request.count());
        let routes = self.news(request.table_version);
        match taken {
            Ok((first, last, epoch)) => Ok(Response::new(v1::NextResponse {
                first,
                last,
                epoch,
                routes,
            })),
            Err(fault) => Err(fault.with_routes(routes).into()),
        }
    }

    async fn next_many(
        &self,
        request: Request<v1::NextManyRequest>,
    ) -> Result<Response<v1::NextManyResponse>, Status> {
        let request = request.into_inner();
        self.many.fetch_add(1, Ordering::SeqCst);
        self.delay().await;
        let uids = request.uids.iter().map(|uid| Key::Uid(*uid));
        let keys: Vec<Key> = uids
            .chain(request.keys.iter().cloned().map(Key::Key))
            .collect();
        let mut reply = v1::NextManyResponse::default();
        for (i, key) in keys.iter().enumerate() {
            let flaky = self.script.lock().flaky.remove(&key.to_string());
            let refused = self.script.lock().refused.remove(&key.to_string());
            let taken = if let Some(fault) = refused {
                Err(fault)
            } else if flaky {
                Err(Fault::new(Reason::NoWindow, "the store is slow"))
            } else {
                self.take(&request.namespace, key.as_ref(), request.counts[i])
            };
            let (first, last, epoch) = taken.unwrap_or_else(|fault| {
                reply.errors.push(v1::ItemError {
                    index: i as u32,
                    code: fault.code as i32,
                    reason: fault.detail.reason,
                    message: fault.message,
                    retry_after_ms: fault.detail.retry_after_ms,
                });
                (0, 0, 0)
            });
            reply.firsts.push(first);
            reply.lasts.push(last);
            reply.epochs.push(epoch);
        }
        reply.routes = self.news(request.table_version);
        Ok(Response::new(reply))
    }

    async fn current(
        &self,
        request: Request<v1::CurrentRequest>,
    ) -> Result<Response<v1::CurrentResponse>, Status> {
        let request = request.into_inner();
        let key = text(request.key_ref().unwrap());
        let value = self.world.numbers.lock().get(&(1, key)).copied();
        let kind = if value.is_some() {
            v1::CurrentKind::Exact
        } else {
            v1::CurrentKind::Never
        };
        Ok(Response::new(v1::CurrentResponse {
            kind: kind.into(),
            value: value.unwrap_or(0),
            epoch: 1,
            routes: None,
        }))
    }

    async fn current_many(
        &self,
        request: Request<v1::CurrentManyRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        let request = request.into_inner();
        let n = request.uids.len();
        let numbers = self.world.numbers.lock();
        let value = |uid: &u64| numbers.get(&(1, uid.to_string())).copied().unwrap_or(0);
        Ok(Response::new(v1::CurrentManyResponse {
            kinds: vec![v1::CurrentKind::Exact.into(); n],
            values: request.uids.iter().map(value).collect(),
            epochs: vec![1; n],
            ..v1::CurrentManyResponse::default()
        }))
    }

    async fn raise_to(
        &self,
        request: Request<v1::RaiseToRequest>,
    ) -> Result<Response<v1::RaiseToResponse>, Status> {
        let request = request.into_inner();
        let mut numbers = self.world.numbers.lock();
        let last = numbers
            .entry((1, text(request.key_ref().unwrap())))
            .or_default();
        *last = (*last).max(request.value);
        Ok(Response::new(v1::RaiseToResponse {
            value: *last,
            epoch: 1,
            routes: None,
        }))
    }

    async fn routes(
        &self,
        request: Request<v1::RoutesRequest>,
    ) -> Result<Response<v1::RoutingTable>, Status> {
        let base = request.into_inner().base;
        self.fetched.lock().push(base);
        let delta = self.table.lock().delta_since(base);
        Ok(Response::new(v1::RoutingTable::from(&delta)))
    }
}

#[tonic::async_trait]
impl Admin for Node {
    /// Shows in the routing table only a moment later, as with a relayed creation.
    async fn create_namespace(
        &self,
        request: Request<v1::CreateNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let name = request.into_inner().namespace.unwrap().name;
        let mut ahead = self.table.lock().clone();
        let added = add_namespace(&mut ahead, &name);
        let table = self.table.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            *table.lock() = ahead;
        });
        Ok(Response::new(v1::Namespace::from(&added)))
    }

    async fn alter_namespace(
        &self,
        _: Request<v1::AlterNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        Err(Fault::new(
            Reason::NoSuchNamespace,
            "no such namespace; create it first",
        )
        .into())
    }

    async fn list_namespaces(
        &self,
        _: Request<v1::ListNamespacesRequest>,
    ) -> Result<Response<v1::ListNamespacesResponse>, Status> {
        let namespaces = self
            .table
            .lock()
            .namespaces()
            .iter()
            .map(v1::Namespace::from)
            .collect();
        Ok(Response::new(v1::ListNamespacesResponse { namespaces }))
    }

    async fn cluster_status(
        &self,
        _: Request<v1::ClusterStatusRequest>,
    ) -> Result<Response<v1::ClusterStatusResponse>, Status> {
        Ok(Response::new(v1::ClusterStatusResponse {
            lease_ms: 3000,
            ..Default::default()
        }))
    }

    async fn node_status(
        &self,
        _: Request<v1::NodeStatusRequest>,
    ) -> Result<Response<v1::NodeStatusResponse>, Status> {
        Ok(Response::new(v1::NodeStatusResponse {
            address: self.address.clone(),
            ..Default::default()
        }))
    }

    async fn move_slot(
        &self,
        _: Request<v1::AdminMoveSlotRequest>,
    ) -> Result<Response<v1::AdminMoveSlotResponse>, Status> {
        Err(not_here())
    }

    async fn drain(
        &self,
        _: Request<v1::DrainRequest>,
    ) -> Result<Response<v1::DrainResponse>, Status> {
        Err(not_here())
    }

    async fn add_member(
        &self,
        _: Request<v1::AddMemberRequest>,
    ) -> Result<Response<v1::MembersResponse>, Status> {
        Err(not_here())
    }

    async fn remove_member(
        &self,
        _: Request<v1::RemoveMemberRequest>,
    ) -> Result<Response<v1::MembersResponse>, Status> {
        Err(not_here())
    }

    async fn transfer_leader(
        &self,
        _: Request<v1::TransferLeaderRequest>,
    ) -> Result<Response<v1::MembersResponse>, Status> {
        Err(not_here())
    }

    type BackupStream = tonic::codegen::BoxStream<v1::BackupChunk>;

    async fn backup(
        &self,
        _: Request<v1::BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        Err(not_here())
    }
}

/// The client's tests ask for none of these.
fn not_here() -> Status {
    Status::unimplemented("the fake has no cluster behind it")
}
