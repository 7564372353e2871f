//! Queue of section commands to the store: while one Submit is in flight, the next collects.
//!
//! Invariant: a command, once queued, is repeated unchanged (same nonce, same absolute `to`) until
//! the store has answered it, so the answer that reaches the waiter is the one of its application.
//!
//! Order: raises and closes first, because callers run out of numbers behind raises, and moves and
//! memory wait for closes. A caller that opens section after section must not delay them. A Submit
//! always carries some Opens, so these wait for a bounded time. Reordering is harmless: every
//! command is fenced, and a command that depends on another is sent after the answer to it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::SUBMIT_COMMANDS_MAX;
use seqsvr_proto::v1::section_command::Command;
use seqsvr_proto::v1::section_reply::Reply;
use seqsvr_proto::v1::{self, Reason, SectionCommand, SectionHighWaterMark, SubmitRequest};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::store_client::store_group::StoreGroupClient;
use crate::store_client::unavailable::shutting_down_error;

/// Maximum queued commands; above it commands are rejected with a retry hint.
const QUEUED_COMMANDS_MAX: usize = 200_000;
/// Maximum Opens in one Submit; above it they wait for the next. Commands that come after a Submit
/// wait no longer than these Opens take.
const OPENS_PER_SUBMIT_MAX: usize = 256;
/// Maximum time of one attempt at one store; after it the next store is tried.
const SUBMIT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time in which a batch is repeated; after it the waiters get an error, and decide whether
/// to retry.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);

type QueuedCommand = (SectionCommand, oneshot::Sender<Result<Reply, RpcError>>);

/// Commands that wait for the next Submit.
#[derive(Default)]
struct PendingCommands {
    /// Raises and closes.
    urgent: VecDeque<QueuedCommand>,
    opens: VecDeque<QueuedCommand>,
}

impl PendingCommands {
    fn len(&self) -> usize {
        self.urgent.len() + self.opens.len()
    }

    fn push(&mut self, waiting: QueuedCommand) {
        match waiting.0.command {
            Some(Command::Open(_)) => self.opens.push_back(waiting),
            _ => self.urgent.push_back(waiting),
        }
    }

    /// Removes and returns the commands of the next Submit.
    fn next_batch(&mut self) -> Vec<QueuedCommand> {
        let urgent = self
            .urgent
            .len()
            .min(SUBMIT_COMMANDS_MAX - OPENS_PER_SUBMIT_MAX);
        let opens = self.opens.len().min(OPENS_PER_SUBMIT_MAX);
        let urgent = self.urgent.drain(..urgent);
        urgent.chain(self.opens.drain(..opens)).collect()
    }
}

/// Queue of section commands.
#[derive(Clone)]
pub(crate) struct CommandQueue {
    /// None after the end of [`CommandQueue::run`].
    queue: Arc<Mutex<Option<PendingCommands>>>,
    ready: Arc<Notify>,
    stores: StoreGroupClient,
}

impl CommandQueue {
    pub(crate) fn new(stores: StoreGroupClient) -> CommandQueue {
        CommandQueue {
            queue: Arc::new(Mutex::new(Some(PendingCommands::default()))),
            ready: Arc::default(),
            stores,
        }
    }

    /// Queues the close of a generation with this high-water mark, and waits for its answer.
    pub(crate) async fn submit_close(
        &self,
        last: &SectionHighWaterMark,
    ) -> Result<Reply, RpcError> {
        let close = v1::Close {
            generation: last.generation,
            high_water_mark: last.value,
        };
        self.submit(last.fence, Command::Close(close)).await
    }

    /// Queues a command and waits for its answer.
    pub(crate) async fn submit(
        &self,
        fence: Option<v1::Fence>,
        command: Command,
    ) -> Result<Reply, RpcError> {
        let command = SectionCommand {
            fence,
            command: Some(command),
        };
        let (tx, rx) = oneshot::channel();
        {
            let mut queue = self.queue.lock();
            let Some(queue) = queue.as_mut() else {
                return Err(shutting_down_error());
            };
            if queue.len() >= QUEUED_COMMANDS_MAX {
                return Err(RpcError::new(
                    Reason::Overloaded,
                    format!("too many section commands wait for the store: at most {QUEUED_COMMANDS_MAX}; retry later"),
                )
                .with_retry_after_ms(100));
            }
            queue.push((command, tx));
        }
        self.ready.notify_one();
        rx.await.unwrap_or_else(|_| Err(shutting_down_error()))
    }

    /// Sends until canceled.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        while cancel
            .run_until_cancelled(self.ready.notified())
            .await
            .is_some()
        {
            loop {
                let batch = self.queue.lock().get_or_insert_default().next_batch();
                if batch.is_empty()
                    || cancel
                        .run_until_cancelled(self.send_batch(batch))
                        .await
                        .is_none()
                {
                    break;
                }
            }
        }
        // Callers that wait, and later callers, get an error.
        *self.queue.lock() = None;
    }

    async fn send_batch(&self, batch: Vec<QueuedCommand>) {
        let (commands, waiters): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let request = SubmitRequest {
            commands,
            ..SubmitRequest::default()
        };
        let answer = self
            .stores
            .send(
                Instant::now() + BATCH_TIMEOUT,
                SUBMIT_ATTEMPT_TIMEOUT,
                request,
                |mut store, request| async move { store.submit(request).await },
            )
            .await;
        let replies = answer.map(|response| {
            let replies = response.replies.into_iter();
            let reply = |reply: v1::SectionReply| reply.reply.ok_or_else(empty_reply);
            replies.map(reply).collect()
        });
        answer_waiters(waiters, replies);
    }
}

/// Sends each waiter its reply, or all of them the fault of the batch.
pub(crate) fn answer_waiters<T>(
    waiters: Vec<oneshot::Sender<Result<T, RpcError>>>,
    replies: Result<Vec<Result<T, RpcError>>, RpcError>,
) {
    let replies = replies.and_then(|replies| {
        let mismatch = "internal error: the store returned another number of replies than commands";
        let is_complete = replies.len() == waiters.len();
        let mismatch = || RpcError::new(Reason::Unspecified, mismatch);
        is_complete.then_some(replies).ok_or_else(mismatch)
    });
    // A waiter that gave up needs no answer.
    match replies {
        Ok(replies) => {
            for (waiter, reply) in waiters.into_iter().zip(replies) {
                let _ = waiter.send(reply);
            }
        }
        Err(fault) => {
            for waiter in waiters {
                let _ = waiter.send(Err(fault.clone()));
            }
        }
    }
}

/// Returns the error for a reply without content.
pub(crate) fn empty_reply() -> RpcError {
    RpcError::new(Reason::Unspecified, "the store sent an empty reply")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::RandomSource;

    #[test]
    fn command_queue_sends_raises_before_opens_and_some_opens() {
        let command = |command| SectionCommand {
            command: Some(command),
            ..SectionCommand::default()
        };
        let open = || command(Command::Open(Default::default()));
        let raise = || command(Command::Raise(Default::default()));
        let (mut queue, mut receivers) = (PendingCommands::default(), Vec::new());
        let crowd = (0..2 * SUBMIT_COMMANDS_MAX)
            .map(|_| open())
            .chain([raise()]);
        for one in crowd.chain((0..2 * SUBMIT_COMMANDS_MAX).map(|_| raise())) {
            let (tx, rx) = oneshot::channel();
            queue.push((one, tx));
            receivers.push(rx);
        }
        for _ in 0..2 {
            let batch = queue.next_batch();
            let is_open = |w: &&QueuedCommand| w.0 == open();
            assert_eq!(batch.len(), SUBMIT_COMMANDS_MAX);
            assert_eq!(batch.iter().filter(is_open).count(), OPENS_PER_SUBMIT_MAX);
        }
        assert_eq!(
            queue.opens.len(),
            2 * SUBMIT_COMMANDS_MAX - 2 * OPENS_PER_SUBMIT_MAX
        );
    }

    /// Otherwise a task that opens or raises while the process stops would wait without end.
    #[tokio::test]
    async fn submit_after_shutdown_is_rejected() {
        let nowhere = StoreGroupClient::new(
            &["127.0.0.1:1".to_owned()],
            seqsvr_net::ChannelPool::new(),
            RandomSource::new(Some(1)),
            Arc::default(),
            tokio::runtime::Handle::current(),
        );
        let submitter = CommandQueue::new(nowhere);
        let cancel = CancellationToken::new();
        cancel.cancel();
        submitter.clone().run(cancel).await;
        let submitted = tokio::time::timeout(
            Duration::from_secs(5),
            submitter.submit(None, Command::Open(Default::default())),
        );
        let fault = submitted
            .await
            .expect("an answer")
            .expect_err("the queue is closed");
        assert_eq!(fault.reason(), Reason::Unreachable);
    }
}
