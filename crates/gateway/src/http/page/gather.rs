//! Reads the state of the cluster, once a second at most, however many pages show it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use seqsvr_client::Channels;
use seqsvr_core::route::RoutingTable;
use seqsvr_proto::convert::u128_bytes;
use seqsvr_proto::error::local_cause;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::admin_server::Admin;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{
    ClusterStatusRequest, ClusterStatusResponse, NodeStatusRequest, NodeStatusResponse,
    SessionStatus,
};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Request, Status};

use super::shape::{Nodes, status};
use crate::http::routes::Routes;

/// How long an answer is repeated.
const FRESH: Duration = Duration::from_secs(1);
/// How long the store may take, and then all processes together.
const DEADLINE: Duration = Duration::from_millis(1_500);
/// Processes to which requests are sent at one time.
const AT_ONCE: usize = 64;

/// The page's data of the cluster.
pub(super) struct Gather<S, A> {
    sequence: S,
    admin: A,
    channels: Channels,
    routes: Routes,
    /// Runtime of the requests to the cluster, wherever the page is served: not one where
    /// connections wait for each other.
    runtime: Handle,
    begun: Instant,
    /// Lock that one caller holds while it fetches; the others wait for its result.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    told: Option<(Instant, Bytes)>,
    /// The last answer of a store leader, and its time.
    known: Option<(Instant, ClusterStatusResponse)>,
}

impl<S: Sequence, A: Admin> Gather<S, A> {
    pub(super) fn new(sequence: S, admin: A) -> Gather<S, A> {
        Gather {
            sequence,
            admin,
            channels: Channels::new(),
            routes: Routes::default(),
            runtime: Handle::current(),
            begun: Instant::now(),
            kept: Mutex::default(),
        }
    }

    /// Returns the routing table of this AllocSvr.
    ///
    /// # Errors
    /// The AllocSvr has no table yet.
    pub(super) async fn routes(&self) -> Result<Arc<RoutingTable>, Status> {
        let request = |message| {
            let mut request = Request::new(message);
            request.set_timeout(DEADLINE);
            request
        };
        self.routes.newest(&self.sequence, request).await
    }

    /// Returns the cluster as JSON, at most [`FRESH`] old at the time of the call. If a caller goes
    /// away, those that wait still get the answer.
    pub(super) async fn cluster(self: &Arc<Self>) -> Bytes {
        let gather = self.clone();
        let asked = self.runtime.spawn(async move { gather.fresh().await });
        // The task fails if the process ends.
        asked.await.unwrap_or_default()
    }

    async fn fresh(&self) -> Bytes {
        let mut kept = self.kept.lock().await;
        if let Some((at, told)) = &kept.told
            && at.elapsed() < FRESH
        {
            return told.clone();
        }
        let told = self.ask(&mut kept).await;
        kept.told = Some((Instant::now(), told.clone()));
        told
    }

    async fn ask(&self, kept: &mut Kept) -> Bytes {
        let own = self.admin.node_status(Request::new(NodeStatusRequest {}));
        let own = match own.await {
            Ok(own) => own.into_inner(),
            // The node is this process itself.
            Err(_) => NodeStatusResponse::default(),
        };
        let asked = Request::new(ClusterStatusRequest {});
        let answer = match timeout(DEADLINE, self.admin.cluster_status(asked)).await {
            Ok(answer) => answer.map_err(|s| said(&s)),
            Err(_) => Err(format!("no StoreSvr leader answered within {DEADLINE:?}")),
        };
        let (cluster, error) = match answer {
            Ok(answer) => {
                let cluster = answer.into_inner();
                kept.known = Some((Instant::now(), cluster.clone()));
                (cluster, None)
            }
            Err(why) => (self.without_store(kept.known.as_ref()).await, Some(why)),
        };
        let nodes = self.nodes(&cluster, &own).await;
        let mut told = status(&cluster, &nodes);
        let known = kept.known.as_ref().map(|(at, _)| at.elapsed());
        told["asked"] = json!({ "name": own.name, "address": own.address });
        told["store_error"] = json!(error);
        told["store_ms_ago"] = json!(known.map(|ago| ago.as_millis() as u64));
        // So that the page can tell a new answer from a repeated one, and compute rates.
        told["at_ms"] = json!(self.begun.elapsed().as_millis() as u64);
        told.to_string().into()
    }

    /// Returns what is known here while no leader answers: the last received state of the stores,
    /// and the owners by our table.
    async fn without_store(
        &self,
        known: Option<&(Instant, ClusterStatusResponse)>,
    ) -> ClusterStatusResponse {
        let mut cluster = known.map(|(_, c)| c.clone()).unwrap_or_default();
        for store in &mut cluster.stores {
            (store.leader, store.matched, store.heard_ms_ago) = (false, 0, None);
        }
        if let Ok(table) = self.routes().await {
            cluster.cluster = u128_bytes(table.cluster().0);
            cluster.slot_count = table.slot_count();
            cluster.table_version = table.version();
            let mut sessions = BTreeMap::new();
            cluster.free_slots = 0;
            for (_, route) in table.routes() {
                let Some(owner) = &route.owner else {
                    cluster.free_slots += 1;
                    continue;
                };
                let session = sessions.entry(owner.session.0);
                let session = session.or_insert_with(|| SessionStatus {
                    session: owner.session.0,
                    name: owner.name.clone(),
                    address: owner.address.clone(),
                    ..SessionStatus::default()
                });
                session.slots += 1;
            }
            cluster.sessions = sessions.into_values().collect();
        }
        cluster
    }

    /// Returns the status of each process: this one, and all others within one deadline.
    async fn nodes(&self, cluster: &ClusterStatusResponse, own: &NodeStatusResponse) -> Nodes {
        let stores = cluster.stores.iter().map(|s| s.address.clone());
        let sessions = cluster.sessions.iter().map(|s| s.address.clone());
        let mut all: BTreeSet<String> = stores.chain(sessions).collect();
        self.channels.retain(|address| all.contains(address));
        all.remove(&own.address);
        let until = Instant::now() + DEADLINE;
        let asked = all.into_iter().map(|address| async move {
            let answer = self.node(&address, until).await;
            (address, answer)
        });
        let mut nodes = vec![(own.address.clone(), Ok(own.clone()))];
        let others = futures::stream::iter(asked).buffer_unordered(AT_ONCE);
        nodes.extend(others.collect::<Nodes>().await);
        nodes.sort_by(|a, b| a.0.cmp(&b.0));
        nodes
    }

    async fn node(&self, address: &str, until: Instant) -> Result<NodeStatusResponse, String> {
        let channel = self.channels.get(address).map_err(|bad| bad.to_string())?;
        let mut client = AdminClient::new(channel);
        match timeout_at(until, client.node_status(NodeStatusRequest {})).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(said(&status)),
            Err(_) => Err(format!("no answer within {DEADLINE:?}")),
        }
    }
}

/// Returns a status in words: if it was made here, its innermost cause.
fn said(status: &Status) -> String {
    local_cause(status).unwrap_or_else(|| status.message().to_owned())
}
