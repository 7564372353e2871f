//! Calls that an AllocSvr relays to the leading store, and callers that it sends there.

use std::time::Duration;

use seqsvr_net::SharedCall;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::admin_server::Admin;
use seqsvr_proto::v1::{ClusterStatusRequest, Reason};
use tokio::time::{Instant, timeout_at};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::{AdminService, RELAY_TIMEOUT, STORE_ATTEMPT_TIMEOUT, is_identified};
use crate::api::relay_client::{RelayClient, relay_client};
use crate::batch::request_context::requested_deadline;

impl AdminService {
    /// Relays a call to the StoreSvr leader.
    pub(super) async fn relay<R, T, Fut>(
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
    pub(super) async fn relay_shared<R, T, Fut>(
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
    pub(super) async fn answer_by<T>(
        &self,
        requested: Instant,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        match timeout_at(requested, call).await {
            Ok(answer) => answer,
            Err(_) => Err(self.stores.no_leader_error("").into()),
        }
    }

    /// Sends a caller with an identity of its own to the leader: see [`AdminService::redirect`].
    pub(super) async fn redirect_identified<R>(&self, request: &Request<R>) -> Result<(), Status> {
        match is_identified(request)? {
            true => Err(self.redirect(request.metadata()).await),
            false => Ok(()),
        }
    }

    /// Returns the answer to a change whose caller has a certificate: the address of the leader.
    ///
    /// Invariant: no process makes a change with a certificate that is not its caller's. Schedule
    /// that breaks it: the key of an AllocSvr is stolen. If stores took changes from AllocSvrs,
    /// because those relay them, its holder could remove members.
    pub(super) async fn redirect(&self, metadata: &MetadataMap) -> Status {
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

    pub(super) async fn relay_within<R, T, Fut>(
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
