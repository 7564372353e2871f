//! A scripted AllocSvr over real gRPC: real tables, places and errors of core and proto, numbers
//! from a plain map. It does on request what a real one does only in rare moments.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test binary includes this file and uses its part"
)]

mod admin;
pub mod ids;
mod sequence;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_client::{Client, ClientOptions, Key};
use seqsvr_core::ids::{ClusterId, Epoch, NamespaceId, SessionId, Slot};
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::{Namespace, NamespaceSpec};
use seqsvr_core::routing_table::{Route, RoutingDelta, RoutingTable, SlotOwner};
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::admin_server::AdminServer;
use seqsvr_proto::v1::ids_server::IdsServer;
use seqsvr_proto::v1::sequence_server::SequenceServer;
use seqsvr_proto::v1::{self, Reason};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Request;
use tonic::service::InterceptorLayer;

pub const SLOTS: u16 = 16;

/// Script of a node: how it behaves from now on. A test may change it at any time.
#[derive(Default)]
pub struct FakeScript {
    /// Delay of each answer, except to Routes.
    pub delay: Duration,
    /// Condition for its answers to Routes; None: it answers at once.
    pub routes_gate: Option<watch::Receiver<bool>>,
    /// Whether it attaches deltas from a version that the client cannot have.
    pub sends_gap: bool,
    /// Cluster of the tables that it attaches; None: its own.
    pub table_cluster: Option<u128>,
    /// Cluster that it names when a Pipe is opened and in answers to RaiseTo. It rejects no call.
    pub cluster_tag: ClusterTag,
    /// Error with which it answers each call of Next.
    pub next_error: Option<RpcError>,
    /// Error with which it answers each call of ClusterStatus.
    pub status_error: Option<RpcError>,
    /// Epoch that it names in answers to single calls of Next; None: that of its table.
    pub answer_epoch: Option<u64>,
    /// Whether it rejects floors and epochs above its own in single calls of Next, as an owner that
    /// a store has confirmed does.
    pub checks_guards: bool,
    /// Errors with which it answers the first calls of Next, one a call.
    pub next_errors: Vec<RpcError>,
    /// Keys that fail once in NextMany, as UNAVAILABLE.
    pub failing_once: BTreeSet<String>,
    /// Keys that fail once in NextMany, with this fault.
    pub rejecting_once: HashMap<String, RpcError>,
    /// Condition for the second part of its answers to frames; None: an answer is one part.
    pub second_part: Option<watch::Receiver<bool>>,
    /// Whether it leaves the last number out of answers to frames of several items.
    pub drops_last_number: bool,
    /// What it does to the ids of its answers.
    pub alters_ids: Option<fn(&mut Vec<u64>)>,
    /// Errors with which it rejects the first frames of ids, one a frame.
    pub ids_errors: Vec<RpcError>,
    /// Whether it ends the Pipe at the next frame, once.
    pub breaks_pipe: bool,
    /// Number of frames after which it announces to the callers of a Pipe that it stops.
    pub closes_after: Option<u64>,
}

/// The state that all nodes of a test share.
#[derive(Default)]
pub struct SharedNumbers {
    pub numbers: Mutex<HashMap<(u32, String), u64>>,
}

#[derive(Clone)]
pub struct FakeAlloc {
    pub address: String,
    pub shared: Arc<SharedNumbers>,
    pub table: Arc<Mutex<RoutingTable>>,
    pub script: Arc<Mutex<FakeScript>>,
    pub next_requests: Arc<Mutex<Vec<v1::NextRequest>>>,
    pub ids_requests: Arc<Mutex<Vec<v1::NextIdsRequest>>>,
    /// Acquisitions of workers that it received.
    pub acquisitions: Arc<AtomicU64>,
    /// Last id that it gave, of any family.
    pub last_id: Arc<AtomicU64>,
    pub grpc_timeouts: Arc<Mutex<Vec<String>>>,
    pub fetched_bases: Arc<Mutex<Vec<u64>>>,
    pub batch_calls: Arc<AtomicU64>,
    pub status_requests: Arc<AtomicU64>,
    /// The `authorization` of each call that it received; empty: the call had none.
    pub authorizations: Arc<Mutex<Vec<String>>>,
    /// Clusters that calls of ListNamespaces named in their metadata.
    pub admin_clusters: Arc<Mutex<Vec<ClusterTag>>>,
    /// Pipes opened, and frames received by all of them.
    pub pipes_opened: Arc<AtomicU64>,
    pub frames_received: Arc<AtomicU64>,
}

/// Returns a table of the first two namespaces; `owner` gives the owner of a slot and its epoch.
pub fn routing_table(version: u64, owner: impl Fn(u16) -> Option<(String, u64)>) -> RoutingTable {
    let routes = (0..SLOTS).map(|slot| {
        let owner = owner(slot);
        let route = Route {
            epoch: Epoch(owner.as_ref().map_or(0, |(_, epoch)| *epoch)),
            owner: owner.map(|(address, _)| SlotOwner {
                session: SessionId(address.rsplit(':').next().unwrap().parse().unwrap()),
                name: address.clone(),
                address,
            }),
            version,
        };
        (Slot(slot), route)
    });
    let namespaces = [
        NamespaceSpec::default_dense(),
        NamespaceSpec::default_keyed(),
    ];
    RoutingTable::new(RoutingDelta {
        cluster: ClusterId(1),
        base: 0,
        version,
        slot_count: u32::from(SLOTS),
        namespaces: namespaces
            .into_iter()
            .zip(1..)
            .map(|(s, i)| new_namespace(s, i, 1))
            .collect(),
        families: Vec::new(),
        routes: routes.collect(),
    })
    .unwrap()
}

/// Returns the table as one of another cluster.
pub fn table_of_cluster(cluster: ClusterId, table: &RoutingTable) -> RoutingTable {
    let mut whole = table.delta_since(0);
    whole.cluster = cluster;
    RoutingTable::new(whole).unwrap()
}

pub fn new_namespace(spec: NamespaceSpec, id: u32, version: u64) -> Namespace {
    Namespace {
        id: NamespaceId(id),
        spec,
        version,
    }
}

pub fn add_namespace(table: &mut RoutingTable, name: &str) -> Namespace {
    let spec = NamespaceSpec {
        name: name.into(),
        ..NamespaceSpec::default_dense()
    };
    let added = new_namespace(spec, 9, table.version() + 1);
    table
        .apply_delta(RoutingDelta {
            cluster: table.cluster(),
            base: table.version(),
            version: table.version() + 1,
            slot_count: table.slot_count(),
            namespaces: vec![added.clone()],
            families: Vec::new(),
            routes: Vec::new(),
        })
        .unwrap();
    added
}

/// Listens on free ports first, so that tables can name them.
pub async fn bind_listeners<const N: usize>() -> ([TcpListener; N], [String; N]) {
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

/// Returns an address at which nothing listens.
pub async fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

pub fn new_client(servers: &[&String]) -> Client {
    new_seeded_client(servers, 1)
}

pub fn new_seeded_client(servers: &[&String], seed: u64) -> Client {
    let options = ClientOptions::new(servers.iter().map(|s| s.to_string())).with_seed(seed);
    Client::new(options).unwrap()
}

impl FakeAlloc {
    pub fn start(
        listener: TcpListener,
        shared: &Arc<SharedNumbers>,
        table: &RoutingTable,
    ) -> FakeAlloc {
        let address: SocketAddr = listener.local_addr().unwrap();
        FakeAlloc::start_behind(&address.to_string(), listener, shared, table)
    }

    /// Starts one that callers reach at another address than that of its listener.
    pub fn start_behind(
        address: &str,
        listener: TcpListener,
        shared: &Arc<SharedNumbers>,
        table: &RoutingTable,
    ) -> FakeAlloc {
        let node = FakeAlloc {
            address: address.to_owned(),
            shared: shared.clone(),
            table: Arc::new(Mutex::new(table.clone())),
            script: Arc::default(),
            next_requests: Arc::default(),
            ids_requests: Arc::default(),
            acquisitions: Arc::default(),
            last_id: Arc::default(),
            grpc_timeouts: Arc::default(),
            fetched_bases: Arc::default(),
            batch_calls: Arc::default(),
            status_requests: Arc::default(),
            authorizations: Arc::default(),
            admin_clusters: Arc::default(),
            pipes_opened: Arc::default(),
            frames_received: Arc::default(),
        };
        let authorizations = node.authorizations.clone();
        let record = move |call: Request<()>| {
            let values = call.metadata().get_all("authorization").into_iter();
            let values: Vec<&str> = values.map(|value| value.to_str().unwrap()).collect();
            authorizations.lock().push(values.join(" and "));
            Ok(call)
        };
        let server = tonic::transport::Server::builder()
            .layer(InterceptorLayer::new(record))
            .add_service(SequenceServer::new(node.clone()))
            .add_service(AdminServer::new(node.clone()))
            .add_service(IdsServer::new(node.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(server);
        node
    }

    /// Returns what a caller with this version lacks, in the form that the script requires.
    fn attached_routes(&self, version: u64) -> Option<v1::RoutingTable> {
        let script = self.script.lock();
        let table = self.table.lock();
        let mut delta = table.delta_since(version);
        if script.sends_gap {
            delta.base = delta.version + 1;
            delta.version += 2;
        }
        if let Some(cluster) = script.table_cluster {
            delta.cluster = ClusterId(cluster);
        }
        let tell = version > 0
            && (table.version() > version || script.sends_gap || script.table_cluster.is_some());
        tell.then(|| v1::RoutingTable::from(&delta))
    }

    /// Takes numbers if this node's table says that the key is its own.
    fn take_numbers(
        &self,
        name: &str,
        key: KeyRef<'_>,
        count: u32,
    ) -> Result<(u64, u64, u64), RpcError> {
        let (namespace, epoch) = {
            let table = self.table.lock();
            let name = namespace_name(name, key);
            let namespace = table
                .namespace(name)
                .ok_or_else(|| RpcError::new(Reason::NamespaceNotFound, "no such namespace"))?;
            let (_, slot) = table.locate(namespace, key)?;
            let route = table.route(slot).unwrap().clone();
            if route.owner.map(|o| o.address).as_deref() != Some(self.address.as_str()) {
                return Err(RpcError::new(
                    Reason::NotOwner,
                    format!("slot {slot} is not mine"),
                ));
            }
            (namespace.id.0, route.epoch.0)
        };
        let mut numbers = self.shared.numbers.lock();
        let last = numbers.entry((namespace, key_text(key))).or_default();
        *last += u64::from(count);
        Ok((*last + 1 - u64::from(count), *last, epoch))
    }

    /// Rejects a floor or an epoch above this node's, if its script says so.
    fn check_guards(
        &self,
        name: &str,
        key: KeyRef<'_>,
        (floor, epoch): (u64, u64),
    ) -> Result<(), RpcError> {
        if !self.script.lock().checks_guards {
            return Ok(());
        }
        let table = self.table.lock();
        let namespace = table.namespace(namespace_name(name, key)).unwrap();
        let (_, slot) = table.locate(namespace, key)?;
        let confirmed = table.route(slot).unwrap().epoch.0;
        let numbers = self.shared.numbers.lock();
        let last = numbers.get(&(namespace.id.0, key_text(key))).copied();
        match floor > last.unwrap_or(0) || epoch > confirmed {
            true => Err(RpcError::new(Reason::FloorAhead, "ahead").with_epochs(epoch, confirmed)),
            false => Ok(()),
        }
    }

    async fn delay(&self) {
        let delay = self.script.lock().delay;
        tokio::time::sleep(delay).await;
    }
}

fn key_text(key: KeyRef<'_>) -> String {
    match key {
        KeyRef::Uid(uid) => uid.to_string(),
        KeyRef::Key(key) => String::from_utf8_lossy(key).into_owned(),
    }
}
