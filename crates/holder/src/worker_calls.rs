//! Calls of a holder to the store.

use std::future::Future;

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1;

/// Calls of a holder to the store, by whichever way they reach it. Each may be repeated.
pub trait WorkerCalls: Send + Sync + 'static {
    /// Acquires a worker.
    fn acquire(
        &self,
        request: v1::AcquireWorkerRequest,
    ) -> impl Future<Output = Result<v1::WorkerGrant, RpcError>> + Send;

    /// Extends a grant.
    fn renew(
        &self,
        renewal: v1::Renewal,
    ) -> impl Future<Output = Result<v1::WorkerGrant, RpcError>> + Send;

    /// Hands a worker back.
    fn release(
        &self,
        request: v1::ReleaseWorkerRequest,
    ) -> impl Future<Output = Result<(), RpcError>> + Send;
}
