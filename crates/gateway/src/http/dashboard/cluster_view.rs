//! The state of the cluster for the page: fetched at most once a second, for all viewers together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_net::{ChannelPool, LocalSequence, Transport};
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::error::local_cause;
use seqsvr_proto::node_status::bound_node_status;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::admin_server::Admin;
use seqsvr_proto::v1::{
    ClusterStatusRequest, ClusterStatusResponse, NodeStatusRequest, NodeStatusResponse,
    SessionStatus,
};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Request, Status};

use super::cluster_json::{NodeStatuses, cluster_status_json};
use super::recent_load::recent_load_json;

/// Time for which an answer is repeated.
const CACHE_TTL: Duration = Duration::from_secs(1);
/// Maximum time for the answer of the store, and then for the answers of all processes together.
const STATUS_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Maximum status calls in flight; the other processes wait for theirs.
const STATUS_CALLS_IN_FLIGHT_MAX: usize = 64;

/// The state of the cluster for the page.
pub(super) struct ClusterView<S, A> {
    sequence: S,
    admin: A,
    channels: ChannelPool,
    /// Runtime of the requests to the cluster. It is not a runtime of connections, which would wait
    /// for them.
    runtime: Handle,
    started_at: Instant,
    /// Locked by the caller that fetches; the others wait for its result.
    cached: Mutex<CachedView>,
}

/// The last answers.
#[derive(Default)]
struct CachedView {
    json: Option<(Instant, Bytes)>,
    /// The last answer of a store leader, and its time.
    last_cluster: Option<(Instant, ClusterStatusResponse)>,
}

impl<S: LocalSequence, A: Admin> ClusterView<S, A> {
    pub(super) fn new(sequence: S, admin: A, transport: Arc<dyn Transport>) -> ClusterView<S, A> {
        ClusterView {
            sequence,
            admin,
            channels: ChannelPool::with_transport(transport),
            runtime: Handle::current(),
            started_at: Instant::now(),
            cached: Mutex::default(),
        }
    }

    /// Returns the routing table of this AllocSvr.
    ///
    /// # Errors
    /// The AllocSvr has no table yet.
    pub(super) async fn routing_table(&self) -> Result<Arc<RoutingTable>, Status> {
        self.sequence.routing_table(STATUS_TIMEOUT).await
    }

    /// Returns the cluster as JSON, at most [`CACHE_TTL`] old at the time of the call. If a caller
    /// disconnects, those that wait still get the answer.
    pub(super) async fn cluster_json(self: &Arc<Self>) -> Bytes {
        let view = self.clone();
        let task = self
            .runtime
            .spawn(async move { view.cached_or_fetched().await });
        // The task fails if the process ends.
        task.await.unwrap_or_default()
    }

    async fn cached_or_fetched(&self) -> Bytes {
        let mut cached = self.cached.lock().await;
        if let Some((at, bytes)) = &cached.json
            && at.elapsed() < CACHE_TTL
        {
            return bytes.clone();
        }
        let bytes = self.fetch(&mut cached).await;
        cached.json = Some((Instant::now(), bytes.clone()));
        bytes
    }

    async fn fetch(&self, cached: &mut CachedView) -> Bytes {
        let own = self.admin.node_status(Request::new(NodeStatusRequest {}));
        let own = match own.await {
            Ok(own) => own.into_inner(),
            // The node is this process itself.
            Err(_) => NodeStatusResponse::default(),
        };
        let request = Request::new(ClusterStatusRequest {});
        let answer = match timeout(STATUS_TIMEOUT, self.admin.cluster_status(request)).await {
            Ok(answer) => answer.map_err(|s| root_cause(&s)),
            Err(_) => Err(format!(
                "no StoreSvr leader answered within {STATUS_TIMEOUT:?}"
            )),
        };
        let (cluster, error) = match answer {
            Ok(answer) => {
                let cluster = answer.into_inner();
                cached.last_cluster = Some((Instant::now(), cluster.clone()));
                (cluster, None)
            }
            Err(reason) => (
                self.view_without_store(cached.last_cluster.as_ref(), &own)
                    .await,
                Some(reason),
            ),
        };
        let nodes = self.fetch_nodes(&cluster, &own).await;
        let mut json = cluster_status_json(&cluster, &nodes);
        let store_age = cached.last_cluster.as_ref().map(|(at, _)| at.elapsed());
        json["recent_load"] = recent_load_json(&nodes);
        json["served_by"] = json!({ "name": own.name, "address": own.address });
        json["store_error"] = json!(error);
        json["store_age_ms"] = json!(store_age.map(|age| age.as_millis() as u64));
        // So that the page can distinguish a new answer from a repeated one, and compute rates.
        json["at_ms"] = json!(self.started_at.elapsed().as_millis() as u64);
        json.to_string().into()
    }

    /// Returns the state of the cluster while no leader answers: the last received state of the
    /// stores, and the owners by the table of this AllocSvr.
    async fn view_without_store(
        &self,
        last_cluster: Option<&(Instant, ClusterStatusResponse)>,
        own: &NodeStatusResponse,
    ) -> ClusterStatusResponse {
        let mut cluster = last_cluster.map(|(_, c)| c.clone()).unwrap_or_default();
        // This AllocSvr has D from its last renewal; 0 if it had none.
        if cluster.lease_ms == 0 {
            cluster.lease_ms = own.counters.get("lease_ms").copied().unwrap_or_default();
        }
        for store in &mut cluster.stores {
            (store.leader, store.match_index, store.last_ack_age_ms) = (false, 0, None);
        }
        if let Ok(table) = self.routing_table().await {
            cluster.cluster = u128_to_bytes(table.cluster().0);
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

    /// Returns the status of each process: this one, and all others within one timeout.
    async fn fetch_nodes(
        &self,
        cluster: &ClusterStatusResponse,
        own: &NodeStatusResponse,
    ) -> NodeStatuses {
        let stores = cluster.stores.iter().map(|s| s.address.clone());
        let sessions = cluster.sessions.iter().map(|s| s.address.clone());
        let mut addresses: BTreeSet<String> = stores.chain(sessions).collect();
        self.channels.retain(|address| addresses.contains(address));
        addresses.remove(&own.address);
        let deadline = Instant::now() + STATUS_TIMEOUT;
        let calls = addresses.into_iter().map(|address| async move {
            let answer = self.fetch_node(&address, deadline).await;
            (address, answer)
        });
        let mut nodes = vec![(own.address.clone(), Ok(own.clone()))];
        let others = futures::stream::iter(calls).buffer_unordered(STATUS_CALLS_IN_FLIGHT_MAX);
        nodes.extend(others.collect::<NodeStatuses>().await);
        nodes.sort_by(|a, b| a.0.cmp(&b.0));
        nodes
    }

    async fn fetch_node(
        &self,
        address: &str,
        deadline: Instant,
    ) -> Result<NodeStatusResponse, String> {
        let channel = self
            .channels
            .get(address)
            .map_err(|error| error.to_string())?;
        let mut client = AdminClient::new(channel);
        match timeout_at(deadline, client.node_status(NodeStatusRequest {})).await {
            Ok(Ok(answer)) => Ok(bound_node_status(answer.into_inner())),
            Ok(Err(status)) => Err(root_cause(&status)),
            Err(_) => Err(format!("no answer within {STATUS_TIMEOUT:?}")),
        }
    }
}

/// Returns the text of a status: its innermost cause if this process made it.
fn root_cause(status: &Status) -> String {
    local_cause(status).unwrap_or_else(|| status.message().to_owned())
}
