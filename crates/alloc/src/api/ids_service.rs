//! The `Ids` service. Calls of workers are relayed to the leading store.

use std::sync::Arc;

use futures::future::join_all;
use seqsvr_access::{Caller, GrantTarget, NamespaceRight};
use seqsvr_core::family::family_name;
use seqsvr_holder::WorkerCalls;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::{IDS_MAX, WORKER_COMMANDS_MAX};
use seqsvr_proto::v1::ids_server::Ids;
use seqsvr_proto::v1::worker_result::Result as Outcome;
use seqsvr_proto::v1::{
    AcquireWorkerRequest, NextIdsRequest, NextIdsResponse, Reason, ReleaseWorkerRequest,
    ReleaseWorkerResponse, RenewWorkersRequest, RenewWorkersResponse, WorkerGrant, WorkerResult,
};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::api::sequence_parts::SequenceParts;
use crate::api::sequence_service::SequenceService;
use crate::batch::request_context::{RequestArrival, judged_caller, requested_deadline};
use crate::batch::validate::check_right;
use crate::ids::family_holders::ALLOC_PREFIX;
use crate::ids::worker_relay::WorkerRelay;
use crate::metrics::call_metrics::CallMethod;

/// Largest request in bytes: 1,000 renewals with long names take 110,000.
pub(crate) const IDS_REQUEST_BYTES_MAX: usize = 128 << 10;

/// `Ids` service of an AllocSvr.
pub(crate) struct IdsService {
    pub(crate) sequence: Arc<SequenceParts>,
    pub(crate) worker_relay: WorkerRelay,
}

#[tonic::async_trait]
impl Ids for IdsService {
    async fn next_ids(
        &self,
        request: Request<NextIdsRequest>,
    ) -> Result<Response<NextIdsResponse>, Status> {
        let answer = |arrival: RequestArrival, request: NextIdsRequest| async move {
            let families = &self.sequence.families;
            let mut taken = families.begin(&arrival.caller, &request, IDS_MAX)?;
            if taken.take_now().is_err() {
                let (share, deadline) = (arrival.share.as_ref(), arrival.deadline);
                let waiting = self.sequence.wait_for_ids(&mut taken, share, deadline);
                waiting.await?;
            }
            Ok(taken.into_answer())
        };
        SequenceService(self.sequence.clone())
            .with_metrics(CallMethod::NextIds, request, answer)
            .await
    }

    async fn acquire_worker(
        &self,
        request: Request<AcquireWorkerRequest>,
    ) -> Result<Response<WorkerGrant>, Status> {
        let deadline = requested_deadline(Instant::now(), request.metadata());
        let caller = judged_caller(request.extensions())?.clone();
        check_family(&caller, &request.get_ref().family)?;
        if request.get_ref().holder.starts_with(ALLOC_PREFIX) {
            let text = format!(
                "holders whose name begins with {ALLOC_PREFIX:?} are AllocSvrs: choose another name"
            );
            return Err(RpcError::new(Reason::Invalid, text).into());
        }
        let acquire = self.worker_relay.acquire(request.into_inner());
        let grant = self.worker_relay.answer_by(deadline, acquire).await;
        Ok(Response::new(
            grant.map_err(|fault| conceal(&caller, fault))?,
        ))
    }

    async fn renew_workers(
        &self,
        request: Request<RenewWorkersRequest>,
    ) -> Result<Response<RenewWorkersResponse>, Status> {
        let deadline = requested_deadline(Instant::now(), request.metadata());
        let caller = &judged_caller(request.extensions())?.clone();
        let renewals = request.into_inner().renewals;
        let count = renewals.len();
        if count == 0 || count > WORKER_COMMANDS_MAX {
            let text =
                format!("one RenewWorkers has 1 to {WORKER_COMMANDS_MAX} renewals, not {count}");
            return Err(RpcError::new(Reason::LimitExceeded, text).into());
        }
        let renewals = renewals.into_iter().enumerate();
        let results = renewals.map(async |(index, renewal)| {
            let renewed = match check_family(caller, &renewal.family) {
                Ok(()) => {
                    let renew = self.worker_relay.renew(renewal);
                    self.worker_relay.answer_by(deadline, renew).await
                }
                Err(denied) => Err(denied),
            };
            let result = match renewed {
                Ok(grant) => Outcome::Grant(grant),
                Err(fault) => Outcome::Error(conceal(caller, fault).to_item_error(index)),
            };
            WorkerResult {
                result: Some(result),
            }
        });
        let results = join_all(results).await;
        Ok(Response::new(RenewWorkersResponse { results }))
    }

    async fn release_worker(
        &self,
        request: Request<ReleaseWorkerRequest>,
    ) -> Result<Response<ReleaseWorkerResponse>, Status> {
        let deadline = requested_deadline(Instant::now(), request.metadata());
        let caller = judged_caller(request.extensions())?.clone();
        check_family(&caller, &request.get_ref().family)?;
        let release = self.worker_relay.release(request.into_inner());
        let released = self.worker_relay.answer_by(deadline, release).await;
        released.map_err(|fault| conceal(&caller, fault))?;
        Ok(Response::new(ReleaseWorkerResponse {}))
    }
}

/// Checks that a caller may hold workers of a family.
///
/// # Errors
/// It has not the right to take its ids.
fn check_family(caller: &Caller, family: &str) -> Result<(), RpcError> {
    let target = GrantTarget::Family(family_name(family));
    check_right(caller, NamespaceRight::Next, target)
}

/// Takes the names of other families off an error of a store, for a caller that may not see all.
fn conceal(caller: &Caller, fault: RpcError) -> RpcError {
    match fault.reason() == Reason::FamilyNotFound && caller.grants().is_some() {
        true => RpcError::new(Reason::FamilyNotFound, "there is no family with this name"),
        false => fault,
    }
}
