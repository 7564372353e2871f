//! Workers are released, one by one or all at the end.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, join, join_all};
use futures::stream::StreamExt;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason};
use tokio::time::timeout;

use super::kept_worker::KeptWorker;
use super::{Answer, Keeper};
use crate::worker_calls::WorkerCalls;

/// Most time for the releases at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

impl<C: WorkerCalls> Keeper<C> {
    /// Seals a worker; returns the call that releases it, unless it is lost.
    pub(super) fn release(&mut self, kept: KeptWorker) -> Option<BoxFuture<'static, Answer>> {
        let used = kept.held.generator.seal();
        self.used_until = self.used_until.max(used);
        let (worker, epoch) = (kept.held.worker(), kept.held.epoch());
        (!kept.is_lost).then(|| self.release_call(worker, epoch, used, kept.nonce))
    }

    fn release_call(
        &self,
        worker: u32,
        epoch: u64,
        used: u64,
        nonce: Bytes,
    ) -> BoxFuture<'static, Answer> {
        let request = v1::ReleaseWorkerRequest {
            family: self.shared.family.spec.name.clone(),
            worker,
            epoch,
            used,
            nonce,
        };
        let calls = self.calls.clone();
        let call = async move {
            // Without an answer the worker is free once its grant has passed.
            let _ = calls.release(request).await;
            Answer::Released
        };
        call.boxed()
    }

    /// Releases all workers, also one whose grant is still on its way. What is not released in time
    /// passes with its grant.
    pub(super) async fn close(mut self) {
        let closed = RpcError::new(
            Reason::Rejected,
            "this holder was closed; start another one",
        );
        let kept = std::mem::take(&mut self.kept);
        self.publish();
        self.shared.note_failure(Some(closed));
        let releases: Vec<_> = kept.into_iter().filter_map(|k| self.release(k)).collect();
        let all = join(join_all(releases), self.decline());
        let _ = timeout(RELEASE_TIMEOUT, all).await;
    }

    /// Waits for the answer to an acquisition, and releases its grant unused.
    ///
    /// Invariant: nothing of the grant was used. Schedule: the answer is that of an earlier
    /// acquisition, delivered twice, whose worker this process has used. So it is released with the
    /// nonce of the last acquisition, and not at an epoch that was used.
    async fn decline(&mut self) {
        while self.is_acquiring
            && let Some(answer) = self.pending.next().await
        {
            let Answer::Acquired(_, answer) = answer else {
                continue;
            };
            self.is_acquiring = false;
            if let (Ok(grant), Some(last)) = (answer, self.acquisition.take())
                && self.is_fresh(&grant)
            {
                let (worker, epoch, nonce) = (grant.worker, grant.epoch, last.nonce);
                self.release_call(worker, epoch, grant.from, nonce).await;
            }
        }
    }
}
