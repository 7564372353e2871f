//! Worker calls to the store, of this process and of the holders whose calls it relays: while one
//! batch is in flight, the next collects.
//!
//! Invariant: a command, once sent, is repeated unchanged until the store has answered it or its
//! caller gets an error, and a repeated command does no harm: an acquisition has its nonce, a
//! renewal is absolute, a release is fenced by the epoch. Schedule: a release is applied, and its
//! answer is lost. The store rejects the repeated one as stale, although it did what the caller
//! requested. So that rejection of a release that was sent more than once counts as done.
//!
//! Invariant: a command that needs no state to be rejected never reaches a batch, which others
//! share. Schedule that breaks it: names of megabytes make a batch larger than a message, and all
//! its commands fail.
//!
//! Order: that of arrival. A batch of renewals only waits for more of them: a thousand holders that
//! renew cost some entries a second then, not one each.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::ids::FamilyId;
use seqsvr_holder::WorkerCalls;
use seqsvr_proto::convert::worker_command_from;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::WORKER_COMMANDS_MAX;
use seqsvr_proto::v1::worker_command::Command;
use seqsvr_proto::v1::worker_result::Result as Outcome;
use seqsvr_proto::v1::{
    AcquireWorkerRequest, Reason, ReleaseWorkerRequest, ReleaseWorkerResponse, Renewal,
    WorkerCommand, WorkerGrant, WorkerResult, WorkersRequest,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::own_cluster::OwnCluster;
use crate::store_client::command_queue::{answer_waiters, empty_reply};
use crate::store_client::refusal::unexpected_reply;
use crate::store_client::store_group::StoreGroupClient;
use crate::store_client::unavailable::shutting_down_error;

/// Maximum commands that wait; above it commands are rejected with a retry hint.
const WAITING_COMMANDS_MAX: usize = 10_000;
/// Maximum commands that wait before one of a caller: the others are for this process, whose own
/// grants must not end because others renew.
const CALLER_COMMANDS_MAX: usize = 9_000;
/// Maximum wait of a renewal for others. Short against a window, of which half is left.
const RENEWAL_DELAY: Duration = Duration::from_millis(100);
/// Maximum time of one attempt at one store; after it the next store is tried.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time in which a batch is repeated; after it the callers get an error.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);

type Waiter = oneshot::Sender<Result<Outcome, RpcError>>;

/// Commands that wait for the next batch.
#[derive(Default)]
struct PendingWorkerCommands {
    commands: VecDeque<(WorkerCommand, Waiter)>,
    /// Time at which the next batch is sent; None: nothing waits.
    due: Option<Instant>,
}

impl PendingWorkerCommands {
    fn push(&mut self, command: WorkerCommand, waiter: Waiter, now: Instant) {
        let may_wait = matches!(command.command, Some(Command::Renew(_)));
        self.commands.push_back((command, waiter));
        let due = match may_wait && self.commands.len() < WORKER_COMMANDS_MAX {
            true => now + RENEWAL_DELAY,
            false => now,
        };
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// Removes the commands of the next batch, and returns those whose callers still wait.
    fn next_batch(&mut self, now: Instant) -> (Vec<WorkerCommand>, Vec<Waiter>) {
        let count = self.commands.len().min(WORKER_COMMANDS_MAX);
        let batch = self.commands.drain(..count);
        let batch = batch.filter(|(_, waiter)| !waiter.is_closed()).unzip();
        self.due = (!self.commands.is_empty()).then_some(now);
        batch
    }
}

/// Queue of worker commands.
#[derive(Clone)]
pub(crate) struct WorkerRelay {
    /// None after the end of [`WorkerRelay::run`].
    queue: Arc<Mutex<Option<PendingWorkerCommands>>>,
    ready: Arc<Notify>,
    own_cluster: Arc<OwnCluster>,
    stores: StoreGroupClient,
    /// Above it commands are rejected.
    waiting_max: usize,
}

impl WorkerRelay {
    pub(crate) fn new(own_cluster: Arc<OwnCluster>, stores: StoreGroupClient) -> WorkerRelay {
        WorkerRelay {
            queue: Arc::new(Mutex::new(Some(PendingWorkerCommands::default()))),
            ready: Arc::default(),
            own_cluster,
            stores,
            waiting_max: WAITING_COMMANDS_MAX,
        }
    }

    /// Returns the relay for the commands of callers.
    pub(crate) fn for_callers(&self) -> WorkerRelay {
        WorkerRelay {
            waiting_max: CALLER_COMMANDS_MAX,
            ..self.clone()
        }
    }

    /// Waits for a call, at most until its caller's deadline.
    pub(crate) async fn answer_by<T>(
        &self,
        deadline: Instant,
        call: impl Future<Output = Result<T, RpcError>>,
    ) -> Result<T, RpcError> {
        timeout_at(deadline, call).await.unwrap_or_else(|_| {
            let undecided = self.own_cluster.undecided_error();
            Err(undecided.unwrap_or_else(|| self.stores.no_leader_error("")))
        })
    }

    /// Queues a command and waits for its answer. The command of a caller that gives up may still
    /// be sent.
    async fn submit(&self, command: Command) -> Result<Outcome, RpcError> {
        let command = WorkerCommand {
            command: Some(command),
        };
        worker_command_from::<RpcError>(&command, |_| Ok(FamilyId(0)))?;
        let (waiter, answer) = oneshot::channel();
        {
            let mut queue = self.queue.lock();
            let queue = queue.as_mut().ok_or_else(shutting_down_error)?;
            if queue.commands.len() >= self.waiting_max {
                let text = format!(
                    "too many worker calls wait for the store: at most {}; retry later",
                    self.waiting_max
                );
                return Err(RpcError::new(Reason::Overloaded, text).with_retry_after_ms(100));
            }
            queue.push(command, waiter, Instant::now());
        }
        self.ready.notify_one();
        answer.await.unwrap_or_else(|_| Err(shutting_down_error()))
    }

    /// Sends until canceled.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.send_batches()).await;
        // Callers that wait, and later callers, get an error.
        *self.queue.lock() = None;
    }

    async fn send_batches(&self) {
        loop {
            let now = Instant::now();
            let due = self.queue.lock().get_or_insert_default().due;
            match due {
                None => self.ready.notified().await,
                Some(due) if due > now => {
                    // A command that comes first may be due earlier.
                    let _ = timeout_at(due, self.ready.notified()).await;
                }
                Some(_) => {
                    let batch = self.queue.lock().get_or_insert_default().next_batch(now);
                    self.send_batch(batch).await;
                }
            }
        }
    }

    async fn send_batch(&self, (commands, waiters): (Vec<WorkerCommand>, Vec<Waiter>)) {
        if commands.is_empty() {
            return;
        }
        let is_release = |c: &WorkerCommand| matches!(c.command, Some(Command::Release(_)));
        let releases: Vec<bool> = commands.iter().map(is_release).collect();
        let request = WorkersRequest {
            commands,
            ..WorkersRequest::default()
        };
        let (deadline, attempts) = (Instant::now() + BATCH_TIMEOUT, AtomicU32::new(0));
        let sending = async {
            // Before that, the first store that answers would act, of any cluster.
            self.own_cluster.wait_until_decided_by(deadline).await?;
            let send =
                self.stores
                    .send(deadline, ATTEMPT_TIMEOUT, request, |mut store, request| {
                        attempts.fetch_add(1, Relaxed);
                        async move { store.workers(request).await }
                    });
            send.await
        };
        let answer = sending.await;
        // A store that stopped leading may have applied a part, too.
        let is_repeated = attempts.load(Relaxed) > 1;
        let outcomes = answer.map(|response| {
            let results = response.results.into_iter().enumerate();
            let outcome = |(index, result): (usize, WorkerResult)| {
                to_outcome(result, is_repeated && releases.get(index) == Some(&true))
            };
            results.map(outcome).collect()
        });
        answer_waiters(waiters, outcomes);
    }
}

impl WorkerCalls for WorkerRelay {
    /// Acquires a worker. The same nonce gets the same grant.
    async fn acquire(&self, request: AcquireWorkerRequest) -> Result<WorkerGrant, RpcError> {
        to_grant(self.submit(Command::Acquire(request)).await?)
    }

    /// Extends a grant.
    async fn renew(&self, renewal: Renewal) -> Result<WorkerGrant, RpcError> {
        to_grant(self.submit(Command::Renew(renewal)).await?)
    }

    /// Hands a worker back. Its holder makes no more ids in that epoch, with any answer.
    async fn release(&self, request: ReleaseWorkerRequest) -> Result<(), RpcError> {
        match self.submit(Command::Release(request)).await? {
            Outcome::Released(_) => Ok(()),
            Outcome::Grant(_) | Outcome::Error(_) => Err(unexpected_reply()),
        }
    }
}

/// Returns the outcome of a command. A release that was sent before may be stale because of that.
fn to_outcome(result: WorkerResult, is_repeated_release: bool) -> Result<Outcome, RpcError> {
    match result.result.ok_or_else(empty_reply)? {
        Outcome::Error(error) if is_repeated_release && error.reason() == Reason::StaleWorker => {
            Ok(Outcome::Released(ReleaseWorkerResponse {}))
        }
        Outcome::Error(error) => Err(RpcError::from_item_error(error)),
        outcome => Ok(outcome),
    }
}

fn to_grant(outcome: Outcome) -> Result<WorkerGrant, RpcError> {
    match outcome {
        Outcome::Grant(grant) => Ok(grant),
        Outcome::Released(_) | Outcome::Error(_) => Err(unexpected_reply()),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use seqsvr_net::ChannelPool;
    use tokio::runtime::Handle;

    use super::*;
    use crate::random::RandomSource;

    /// Creates a relay without a store.
    fn new_relay() -> WorkerRelay {
        let own_cluster = Arc::new(OwnCluster::default());
        let stores = StoreGroupClient::new(
            &["127.0.0.1:1".to_owned()],
            ChannelPool::new(),
            RandomSource::new(Some(1)),
            own_cluster.clone(),
            Handle::current(),
        );
        WorkerRelay::new(own_cluster, stores)
    }

    fn renewal(worker: u32) -> WorkerCommand {
        WorkerCommand {
            command: Some(Command::Renew(Renewal {
                worker,
                nonce: vec![1; 16].into(),
                ..Renewal::default()
            })),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn renewals_wait_for_others_but_for_no_other_command() {
        let (mut queue, mut callers) = (PendingWorkerCommands::default(), Vec::new());
        let mut push = |queue: &mut PendingWorkerCommands, command, now| {
            let (waiter, caller) = oneshot::channel();
            callers.push(caller);
            queue.push(command, waiter, now);
        };
        let begin = Instant::now();
        let later = begin + RENEWAL_DELAY / 2;
        push(&mut queue, renewal(0), begin);
        push(&mut queue, renewal(1), later);
        assert_eq!(queue.due, Some(begin + RENEWAL_DELAY), "from the first one");
        let release = WorkerCommand {
            command: Some(Command::Release(ReleaseWorkerRequest::default())),
        };
        push(&mut queue, release.clone(), later);
        assert_eq!(queue.due, Some(later));
        let (batch, _waiters) = queue.next_batch(later);
        assert_eq!(batch, [renewal(0), renewal(1), release]);
        assert_eq!(queue.due, None);

        // A full batch waits for no more, and what is left over for none.
        for worker in 0..WORKER_COMMANDS_MAX as u32 + 2 {
            let expected = (worker >= WORKER_COMMANDS_MAX as u32).then_some(later);
            assert_eq!(queue.due.filter(|due| *due == later), expected, "{worker}");
            push(&mut queue, renewal(worker), later);
        }
        let (batch, _waiters) = queue.next_batch(later);
        assert_eq!(batch.len(), WORKER_COMMANDS_MAX);
        assert_eq!(queue.due, Some(later));
        drop(callers);
        assert!(
            queue.next_batch(later).0.is_empty(),
            "their callers gave up"
        );
        assert_eq!(queue.due, None);
    }

    #[tokio::test]
    async fn calls_that_wait_are_bounded() {
        let relay = new_relay();
        // None: the call waits.
        let renew = |family: &str| {
            let renewal = Renewal {
                family: family.to_owned(),
                nonce: vec![1; 16].into(),
                ..Renewal::default()
            };
            let answer = relay.renew(renewal).now_or_never()?;
            Some(answer.unwrap_err())
        };
        let malformed = renew(&"x".repeat(65)).expect("it reaches no batch");
        assert_eq!(malformed.reason(), Reason::Invalid, "{malformed}");
        for _ in 0..WAITING_COMMANDS_MAX {
            assert!(renew("orders").is_none());
        }
        let full = renew("orders").expect("a bound");
        assert_eq!(full.reason(), Reason::Overloaded, "{full}");
        assert!(full.detail.retry_after_ms > 0, "{full}");

        let cancel = CancellationToken::new();
        cancel.cancel();
        relay.clone().run(cancel).await;
        let stopped = renew("orders").expect("the relay has ended");
        assert_eq!(stopped.reason(), Reason::Unreachable, "{stopped}");
    }

    #[test]
    fn repeated_release_that_is_stale_was_done() {
        let stale = || WorkerResult {
            result: Some(Outcome::Error(
                RpcError::new(Reason::StaleWorker, "").to_item_error(0),
            )),
        };
        let released = Outcome::Released(ReleaseWorkerResponse {});
        assert_eq!(to_outcome(stale(), true).unwrap(), released);
        let fault = to_outcome(stale(), false).unwrap_err();
        assert_eq!(fault.reason(), Reason::StaleWorker);
    }
}
