//! Calls about workers, through any AllocSvr.

use std::time::Duration;

use seqsvr_holder::WorkerCalls;
use seqsvr_os::ProcessMark;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::worker_result::Result as Outcome;
use seqsvr_proto::v1::{self, Reason};

use crate::admin::Admin;
use crate::call::context::CallContext;
use crate::call::retry_budget::RetryBudget;
use crate::call::rpc::Rpc;
use crate::error::Error;

/// Most time of one call; after it the keeper repeats the call. Also at most half of the deadline
/// of the client, so that the caller who waits for the first worker gets the reason.
const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(2);

/// Calls about workers, through any AllocSvr.
pub(super) struct ClientWorkerCalls {
    servers: Admin,
    timeout: Duration,
    process: ProcessMark,
}

impl ClientWorkerCalls {
    pub(super) fn new(context: &CallContext, process: ProcessMark) -> ClientWorkerCalls {
        ClientWorkerCalls {
            servers: Admin {
                context: context.clone(),
            },
            timeout: (context.deadline / 2).min(CALL_TIMEOUT_MAX),
            process,
        }
    }

    /// Sends a request to one server after the other, until one answers or the time of the call is
    /// over. If the process forks in between, the child may send the same again: that changes
    /// nothing in the store.
    async fn send<R: Rpc>(&self, request: R) -> Result<R::Reply, RpcError> {
        if !self.process.is_current() {
            return Err(other_process_error(self.process));
        }
        let mut budget = RetryBudget::new(self.timeout);
        let sent = self.servers.call_any_server(request, None, &mut budget);
        sent.await.map_err(to_rpc_error)
    }
}

impl WorkerCalls for ClientWorkerCalls {
    async fn acquire(
        &self,
        request: v1::AcquireWorkerRequest,
    ) -> Result<v1::WorkerGrant, RpcError> {
        self.send(request).await
    }

    async fn renew(&self, renewal: v1::Renewal) -> Result<v1::WorkerGrant, RpcError> {
        let renewals = vec![renewal];
        let reply = self.send(v1::RenewWorkersRequest { renewals }).await?;
        match reply.results.into_iter().next().and_then(|r| r.result) {
            Some(Outcome::Grant(grant)) => Ok(grant),
            Some(Outcome::Error(error)) => Err(RpcError::from_item_error(error)),
            _ => Err(RpcError::new(
                Reason::Unspecified,
                "the answer to a renewal has no grant; client and server versions are incompatible",
            )),
        }
    }

    async fn release(&self, request: v1::ReleaseWorkerRequest) -> Result<(), RpcError> {
        self.send(request).await.map(drop)
    }
}

/// Returns the error of a call in a child of the process that holds the worker.
#[cold]
pub(super) fn other_process_error(process: ProcessMark) -> RpcError {
    let text = format!(
        "this generator belongs to process {}: acquire a worker in this process",
        process.process_id()
    );
    RpcError::new(Reason::Rejected, text)
}

fn to_rpc_error(error: Error) -> RpcError {
    let hint = error.retry_after().unwrap_or_default().as_millis();
    let hint = u32::try_from(hint).unwrap_or(u32::MAX);
    // A family in the table of this client exists: a server that lacks it is only behind.
    let is_behind = error.reason() == Reason::FamilyNotFound;
    RpcError::new(error.reason(), error.message())
        .with_code(error.code())
        .with_retry_after_ms(hint.max(is_behind.into()))
}
