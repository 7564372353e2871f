//! Admin calls. Most are relayed to the StoreSvr leader, or to the AllocSvr that they name.
//! NodeStatus is answered by this process. Changes of callers with an identity of their own are not
//! relayed: the caller is sent to the leader, or to the AllocSvr, and calls it as itself.

mod relay;

use std::sync::Arc;
use std::time::Duration;

use seqsvr_net::SharedCall;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::admin_server::Admin;
use seqsvr_proto::v1::{
    AddMemberRequest, AdminMoveSlotRequest, AdminMoveSlotResponse, AlterNamespaceRequest,
    BackupChunk, BackupRequest, ChangeIdsRequest, ClusterStatusRequest, ClusterStatusResponse,
    CreateNamespaceRequest, DrainRequest, DrainResponse, IdsStatus, ListIdsRequest,
    ListNamespacesRequest, ListNamespacesResponse, MembersResponse, Namespace, NodeStatusRequest,
    NodeStatusResponse, Reason, RemoveMemberRequest, TransferLeaderRequest,
};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::api::collector::AllocCollector;
use crate::api::relay_client::RelayClient;
use crate::api::slot_operations::SlotOperations;
use crate::batch::request_context::judged_caller;
use crate::lease::address_check::named_incarnation;
use crate::shared_parts::SharedParts;
use crate::store_client::store_group::StoreGroupClient;

/// Maximum time of one attempt at one store; after it the next store is tried.
const STORE_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time of a relayed call over all attempts; after it the call fails. A caller that waits
/// for less receives the reason in its own time.
const RELAY_TIMEOUT: Duration = Duration::from_secs(4);
/// Minimum time between the beginnings of two relayed calls of one status method.
const RELAY_INTERVAL: Duration = Duration::from_millis(250);
/// Minimum time between the beginnings of two walks over all sections.
const WALK_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time of a membership change, in which a new member catches up; after it the call fails.
const MEMBERSHIP_TIMEOUT: Duration = Duration::from_secs(60);

/// `Admin` service of an AllocSvr.
#[derive(Clone)]
pub(crate) struct AdminService {
    shared: SharedParts,
    stores: StoreGroupClient,
    slot_operations: Arc<SlotOperations>,
    cluster_status: Arc<SharedCall<ClusterStatusResponse>>,
    namespaces: Arc<SharedCall<ListNamespacesResponse>>,
    /// Walks over all sections.
    node_status: Arc<SharedCall<NodeStatusResponse>>,
    /// One walk at a time, also if its callers go away.
    walk_permit: Arc<Semaphore>,
    collector: AllocCollector,
}

impl AdminService {
    pub(crate) fn new(
        shared: SharedParts,
        stores: StoreGroupClient,
        slot_operations: SlotOperations,
        collector: AllocCollector,
    ) -> AdminService {
        AdminService {
            shared,
            stores,
            slot_operations: Arc::new(slot_operations),
            cluster_status: Arc::new(SharedCall::new(RELAY_INTERVAL)),
            namespaces: Arc::new(SharedCall::new(RELAY_INTERVAL)),
            node_status: Arc::new(SharedCall::new(WALK_INTERVAL)),
            walk_permit: Arc::new(Semaphore::new(1)),
            collector,
        }
    }
}

/// Returns how a call is sent to a store.
macro_rules! send {
    ($method:ident) => {
        |mut store: RelayClient, request| async move { store.$method(request).await }
    };
}

/// Returns whether a call has a caller with an identity of its own, in whose name no server acts.
fn is_identified<R>(request: &Request<R>) -> Result<bool, Status> {
    Ok(!judged_caller(request.extensions())?.is_local_operator())
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn create_namespace(
        &self,
        request: Request<CreateNamespaceRequest>,
    ) -> Result<Response<Namespace>, Status> {
        self.redirect_identified(&request).await?;
        let relay = self.relay(request, send!(create_namespace));
        let created = relay.await?;
        // The next call through this node must find the namespace.
        self.shared
            .renewals
            .renew_and_wait(Instant::now() + STORE_ATTEMPT_TIMEOUT)
            .await;
        Ok(created)
    }

    async fn alter_namespace(
        &self,
        request: Request<AlterNamespaceRequest>,
    ) -> Result<Response<Namespace>, Status> {
        self.redirect_identified(&request).await?;
        let relay = self.relay(request, send!(alter_namespace));
        let altered = relay.await?;
        self.shared
            .renewals
            .renew_and_wait(Instant::now() + STORE_ATTEMPT_TIMEOUT)
            .await;
        Ok(altered)
    }

    async fn list_namespaces(
        &self,
        request: Request<ListNamespacesRequest>,
    ) -> Result<Response<ListNamespacesResponse>, Status> {
        self.relay_shared(&self.namespaces, request, send!(list_namespaces))
            .await
    }

    async fn cluster_status(
        &self,
        request: Request<ClusterStatusRequest>,
    ) -> Result<Response<ClusterStatusResponse>, Status> {
        self.relay_shared(&self.cluster_status, request, send!(cluster_status))
            .await
    }

    async fn move_slot(
        &self,
        request: Request<AdminMoveSlotRequest>,
    ) -> Result<Response<AdminMoveSlotResponse>, Status> {
        let is_identified = is_identified(&request)?;
        let moved = self
            .slot_operations
            .move_slot_by_name(request.into_inner(), is_identified);
        Ok(Response::new(moved.await?))
    }

    async fn drain(
        &self,
        request: Request<DrainRequest>,
    ) -> Result<Response<DrainResponse>, Status> {
        let is_identified = is_identified(&request)?;
        let drained = self
            .slot_operations
            .drain_by_name(request.into_inner(), is_identified);
        Ok(Response::new(drained.await?))
    }

    async fn add_member(
        &self,
        request: Request<AddMemberRequest>,
    ) -> Result<Response<MembersResponse>, Status> {
        self.redirect_identified(&request).await?;
        let send = send!(add_member);
        self.relay_within(MEMBERSHIP_TIMEOUT, MEMBERSHIP_TIMEOUT, request, send)
            .await
    }

    async fn remove_member(
        &self,
        request: Request<RemoveMemberRequest>,
    ) -> Result<Response<MembersResponse>, Status> {
        self.redirect_identified(&request).await?;
        let send = send!(remove_member);
        self.relay_within(MEMBERSHIP_TIMEOUT, MEMBERSHIP_TIMEOUT, request, send)
            .await
    }

    async fn transfer_leader(
        &self,
        request: Request<TransferLeaderRequest>,
    ) -> Result<Response<MembersResponse>, Status> {
        self.redirect_identified(&request).await?;
        let send = send!(transfer_leader);
        self.relay_within(MEMBERSHIP_TIMEOUT, MEMBERSHIP_TIMEOUT, request, send)
            .await
    }

    type BackupStream = tonic::Streaming<BackupChunk>;

    async fn backup(
        &self,
        request: Request<BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        self.redirect_identified(&request).await?;
        self.relay(request, send!(backup)).await
    }

    async fn change_ids(
        &self,
        request: Request<ChangeIdsRequest>,
    ) -> Result<Response<IdsStatus>, Status> {
        self.redirect_identified(&request).await?;
        self.relay(request, send!(change_ids)).await
    }

    async fn list_ids(
        &self,
        request: Request<ListIdsRequest>,
    ) -> Result<Response<IdsStatus>, Status> {
        self.relay(request, send!(list_ids)).await
    }

    async fn node_status(
        &self,
        request: Request<NodeStatusRequest>,
    ) -> Result<Response<NodeStatusResponse>, Status> {
        // This process calls itself. Callers that wait for a walk must not keep it from an answer.
        if let Some(named) = named_incarnation(&request) {
            let own = self.collector.describe_process();
            if own.incarnation == named {
                return Ok(Response::new(own));
            }
        }
        // Walks over all sections. The walk waits for tasks that add a section at the same time.
        // They run in the background, where the scheduler may have preempted their thread, so the
        // walk does not run on a thread of the fast path.
        let walk = async {
            // The semaphore is never closed, so there is always a permit.
            let permit = self.walk_permit.clone().acquire_owned().await;
            let collector = self.collector.clone();
            let status = seqsvr_os::spawn_blocking(move || {
                let _permit = permit;
                collector.collect_status()
            });
            // Fails only by a bug, or when the process ends.
            let status = status.await;
            Ok(status.map_err(|e| RpcError::new(Reason::Unspecified, e.to_string()))?)
        };
        self.node_status.call(walk).await.map(Response::new)
    }
}

#[cfg(test)]
mod tests;
