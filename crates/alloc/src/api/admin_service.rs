//! Admin calls. Most are relayed to the StoreSvr leader, or to the AllocSvr that they name.
//! NodeStatus is answered by this process. Under TLS changes are not relayed: their caller is sent
//! to the leader, or to the AllocSvr, and calls it with a certificate of its own.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_net::{SharedCall, caller_of};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::admin_server::Admin;
use seqsvr_proto::v1::{
    AddMemberRequest, AdminMoveSlotRequest, AdminMoveSlotResponse, AlterNamespaceRequest,
    BackupChunk, BackupRequest, ClusterStatusRequest, ClusterStatusResponse,
    CreateNamespaceRequest, DrainRequest, DrainResponse, ListNamespacesRequest,
    ListNamespacesResponse, MembersResponse, Namespace, NodeStatusRequest, NodeStatusResponse,
    Reason, RemoveMemberRequest, TransferLeaderRequest,
};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::api::collector::AllocCollector;
use crate::api::relay_client::{RelayClient, relay_client};
use crate::api::slot_operations::SlotOperations;
use crate::batch::request_context::requested_deadline;
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

    /// Relays a call to the StoreSvr leader.
    async fn relay<R, T, Fut>(
        &self,
        request: Request<R>,
        send: impl Fn(RelayClient, R) -> Fut,
    ) -> Result<Response<T>, Status>
    where
        R: Clone,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        let requested = requested_deadline(Instant::now(), request.metadata());
        let relay = self.relay_within(RELAY_TIMEOUT, STORE_ATTEMPT_TIMEOUT, request, send);
        self.answer_by(requested, relay).await
    }

    /// Relays a status call, whose answer its callers share. Each waits for its own time only: the
    /// call itself may take longer, so that no caller cuts the others short.
    async fn relay_shared<R, T, Fut>(
        &self,
        shared: &SharedCall<T>,
        request: Request<R>,
        send: impl Fn(RelayClient, R) -> Fut,
    ) -> Result<Response<T>, Status>
    where
        R: Clone,
        T: Clone,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        let requested = requested_deadline(Instant::now(), request.metadata());
        let relay = self.relay_within(RELAY_TIMEOUT, STORE_ATTEMPT_TIMEOUT, request, send);
        // Boxed, since a wait within a wait makes a large future.
        let relay = Box::pin(relay);
        let call = shared.call(async { Ok(relay.await?.into_inner()) });
        self.answer_by(requested, call).await.map(Response::new)
    }

    /// Waits for a call, and answers that no store leads if the caller's time ends before.
    async fn answer_by<T>(
        &self,
        requested: Instant,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        match timeout_at(requested, call).await {
            Ok(answer) => answer,
            Err(_) => Err(self.stores.no_leader_error("").into()),
        }
    }

    /// Sends a caller with a certificate to the leader: see [`AdminService::redirect`].
    async fn redirect_certified<R>(&self, request: &Request<R>) -> Result<(), Status> {
        match is_certified(request)? {
            true => Err(self.redirect(request.metadata()).await),
            false => Ok(()),
        }
    }

    /// Returns the answer to a change whose caller has a certificate: the address of the leader.
    ///
    /// Invariant: no process makes a change with a certificate that is not its caller's. Schedule
    /// that breaks it: the key of an AllocSvr is stolen. If stores took changes from AllocSvrs,
    /// because those relay them, its holder could remove members.
    async fn redirect(&self, metadata: &MetadataMap) -> Status {
        let mut request = Request::new(ClusterStatusRequest {});
        *request.metadata_mut() = metadata.clone();
        let status = match self.cluster_status(request).await {
            Ok(status) => status.into_inner(),
            Err(unknown) => return unknown,
        };
        let Some(leader) = status.stores.into_iter().find(|store| store.leader) else {
            return self.stores.no_leader_error("").into();
        };
        let text = format!(
            "an AllocSvr relays no change of a caller with a certificate: send it to the leading store, {}",
            leader.address
        );
        let answer = RpcError::new(Reason::NotLeader, text);
        answer.with_leader(Some(leader.address)).into()
    }

    async fn relay_within<R, T, Fut>(
        &self,
        timeout: Duration,
        attempt_timeout: Duration,
        request: Request<R>,
        send: impl Fn(RelayClient, R) -> Fut,
    ) -> Result<Response<T>, Status>
    where
        R: Clone,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        let deadline = Instant::now() + timeout;
        let request = request.into_inner();
        let send_once = |channel| {
            send(
                relay_client(&self.shared.own_cluster, channel),
                request.clone(),
            )
        };
        // Before that, the first store that answers would act, of any cluster.
        let decided_by = deadline.min(Instant::now() + RELAY_TIMEOUT);
        self.shared
            .own_cluster
            .wait_until_decided_by(decided_by)
            .await?;
        let answer = self.stores.call(deadline, attempt_timeout, send_once).await;
        Ok(Response::new(answer?))
    }
}

/// Returns whether a call is under TLS, so that its caller has a certificate.
fn is_certified<R>(request: &Request<R>) -> Result<bool, Status> {
    Ok(caller_of(request.extensions()).certificate()?.is_some())
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn create_namespace(
        &self,
        request: Request<CreateNamespaceRequest>,
    ) -> Result<Response<Namespace>, Status> {
        self.redirect_certified(&request).await?;
        let relay = self.relay(request, |mut store, request| async move {
            store.create_namespace(request).await
        });
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
        self.redirect_certified(&request).await?;
        let relay = self.relay(request, |mut store, request| async move {
            store.alter_namespace(request).await
        });
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
        let send =
            |mut store: RelayClient, request| async move { store.list_namespaces(request).await };
        self.relay_shared(&self.namespaces, request, send).await
    }

    async fn cluster_status(
        &self,
        request: Request<ClusterStatusRequest>,
    ) -> Result<Response<ClusterStatusResponse>, Status> {
        let send =
            |mut store: RelayClient, request| async move { store.cluster_status(request).await };
        self.relay_shared(&self.cluster_status, request, send).await
    }

    async fn move_slot(
        &self,
        request: Request<AdminMoveSlotRequest>,
    ) -> Result<Response<AdminMoveSlotResponse>, Status> {
        let is_certified = is_certified(&request)?;
        let moved = self
            .slot_operations
            .move_slot_by_name(request.into_inner(), is_certified);
        Ok(Response::new(moved.await?))
    }

    async fn drain(
        &self,
        request: Request<DrainRequest>,
    ) -> Result<Response<DrainResponse>, Status> {
        let is_certified = is_certified(&request)?;
        let drained = self
            .slot_operations
            .drain_by_name(request.into_inner(), is_certified);
        Ok(Response::new(drained.await?))
    }

    async fn add_member(
        &self,
        request: Request<AddMemberRequest>,
    ) -> Result<Response<MembersResponse>, Status> {
        self.redirect_certified(&request).await?;
        let send = |mut store: RelayClient, request| async move { store.add_member(request).await };
        self.relay_within(MEMBERSHIP_TIMEOUT, MEMBERSHIP_TIMEOUT, request, send)
            .await
    }

    async fn remove_member(
        &self,
        request: Request<RemoveMemberRequest>,
    ) -> Result<Response<MembersResponse>, Status> {
        self.redirect_certified(&request).await?;
        let send =
            |mut store: RelayClient, request| async move { store.remove_member(request).await };
        self.relay_within(MEMBERSHIP_TIMEOUT, MEMBERSHIP_TIMEOUT, request, send)
            .await
    }

    async fn transfer_leader(
        &self,
        request: Request<TransferLeaderRequest>,
    ) -> Result<Response<MembersResponse>, Status> {
        self.redirect_certified(&request).await?;
        let send =
            |mut store: RelayClient, request| async move { store.transfer_leader(request).await };
        self.relay_within(MEMBERSHIP_TIMEOUT, MEMBERSHIP_TIMEOUT, request, send)
            .await
    }

    type BackupStream = tonic::Streaming<BackupChunk>;

    async fn backup(
        &self,
        request: Request<BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        self.redirect_certified(&request).await?;
        self.relay(request, |mut store, request| async move {
            store.backup(request).await
        })
        .await
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
mod tests {
    use std::future::pending;
    use std::net::SocketAddr;

    use futures::FutureExt;
    use futures::future::join_all;

    use super::*;
    use crate::{AllocEnvironment, AllocServer, Options};

    /// Maximum time of a process to meet itself: more than a few attempts.
    const MEET_TIMEOUT: Duration = Duration::from_secs(20);

    /// Schedule: callers request the status faster than one walk over all sections ends. The
    /// process still meets itself at its address.
    #[tokio::test]
    async fn status_requests_wait_for_one_walk_in_bounded_number() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options::new("a1", any, vec!["127.0.0.1:1".into()]);
        let alloc = AllocServer::start_in(options, AllocEnvironment::system()).await;
        let alloc = alloc.unwrap();
        let admin = alloc.components.admin.clone();
        let request_status = || admin.node_status(Request::new(NodeStatusRequest {}));

        let walk = Box::pin(admin.node_status.call(pending()));
        let (walk, mut waiting) = (poll_once(walk), Vec::new());
        let refused = loop {
            assert!(waiting.len() < 10_000, "no bound");
            match poll_once(Box::pin(request_status())) {
                Ok(answer) => break answer,
                Err(waits) => waiting.push(waits),
            }
        };
        let refused = RpcError::from_status(&refused.unwrap_err());
        assert_eq!(refused.reason(), Reason::Overloaded);
        assert!(refused.detail.retry_after_ms > 0, "no hint: {refused}");
        tokio::time::timeout(
            MEET_TIMEOUT,
            alloc.components.address_check.wait_until_met(),
        )
        .await
        .expect("callers keep the process from itself");
        drop(walk);
        for answer in join_all(waiting).await {
            assert_eq!(answer.unwrap().into_inner().role, "alloc");
        }
    }

    /// Polls a future once. Returns its output, or the future if it waits.
    fn poll_once<F: Future + Unpin>(mut future: F) -> Result<F::Output, F> {
        (&mut future).now_or_never().ok_or(future)
    }
}
