//! The bounded proposer above Raft: one entry in flight while the next gathers.
//!
//! Commands that come while an entry is being written and replicated share the next one. One fsync
//! serves all of them, and the busier the store, the larger its entries.
//!
//! Invariant: at most one entry is in flight; every command's reply goes to its own caller. A
//! caller receives "nothing was written" only if nothing was. When the outcome is unknown, the
//! caller receives that and retries: every command is idempotent or fenced.

mod encoded_size;
mod proposal_queue;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_metrics::MetricSample;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

pub use proposal_queue::{
    ENTRY_BYTES_MAX, ENTRY_COMMANDS_MAX, GatheredEntry, ProposalQueue, QueueFull,
};

/// Time without an outcome after which the callers receive that it is unknown.
const ENTRY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason why a command got no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposalError {
    /// The queue accepts no more; nothing was written.
    #[error(
        "the queue of this store is full (at most {commands_max} commands and {bytes_max} bytes): \
         retry later",
        commands_max = proposal_queue::QUEUE_COMMANDS_MAX,
        bytes_max = proposal_queue::QUEUE_BYTES_MAX
    )]
    Full,
    /// This node does not lead; nothing was written.
    #[error("this store does not lead")]
    NotLeader {
        /// Where the leader is, if known.
        leader: Option<String>,
    },
    /// It may or may not be applied.
    #[error("it is unknown whether the command was applied: {0}; retry it")]
    Uncertain(String),
    /// The store stops; nothing was written or it may be applied.
    #[error("this store is stopping: use another store")]
    Stopped,
}

type ProposalOutcome = Result<Reply, ProposalError>;
type ReplySender = oneshot::Sender<ProposalOutcome>;

/// Handle to the proposer.
#[derive(Clone, Debug, Default)]
pub struct Proposer {
    shared: Arc<ProposerShared>,
}

#[derive(Debug, Default)]
struct ProposerShared {
    inbox: Mutex<ProposerInbox>,
    wake: Notify,
    counters: ProposerCounters,
}

#[derive(Debug, Default)]
struct ProposerInbox {
    queue: ProposalQueue<ReplySender>,
    /// No task drains it any more.
    is_stopped: bool,
}

#[derive(Debug, Default)]
struct ProposerCounters {
    entries: AtomicU64,
    raise_entries: AtomicU64,
    raises: AtomicU64,
    opens: AtomicU64,
    closes: AtomicU64,
    commands: AtomicU64,
    entry_commands_max: AtomicU64,
    rejections: AtomicU64,
}

impl Proposer {
    /// Commits the commands, in one entry or more; returns the replies in their order. The first
    /// failure is the answer for all: the caller retries them together. Cancel-safe: a
    /// command that still waits when its caller is gone is not proposed.
    pub async fn propose(&self, commands: Vec<Command>) -> Result<Vec<Reply>, ProposalError> {
        let mut receivers = Vec::with_capacity(commands.len());
        let items = commands.into_iter().map(|command| {
            let (sender, receiver) = oneshot::channel();
            receivers.push(receiver);
            (command, sender)
        });
        let items = items.collect();
        self.enqueue(items)?;
        self.shared.wake.notify_one();
        let mut replies = Vec::with_capacity(receivers.len());
        for receiver in receivers {
            replies.push(receiver.await.map_err(|_| ProposalError::Stopped)??);
        }
        Ok(replies)
    }

    fn enqueue(&self, items: Vec<(Command, ReplySender)>) -> Result<(), ProposalError> {
        let mut inbox = self.shared.inbox.lock();
        if inbox.is_stopped {
            return Err(ProposalError::Stopped);
        }
        inbox.queue.push(items).map_err(|QueueFull| {
            self.shared
                .counters
                .rejections
                .fetch_add(1, Ordering::Relaxed);
            ProposalError::Full
        })
    }

    /// Commits one command.
    pub async fn propose_one(&self, command: Command) -> Result<Reply, ProposalError> {
        let replies = self.propose(vec![command]).await?;
        replies.into_iter().next().ok_or(ProposalError::Stopped)
    }

    /// Drains the queue into entries until `stop` is canceled. `write` commits one entry and
    /// applies it. Only one task may run this.
    pub async fn run<W, F>(&self, write: W, stop: CancellationToken)
    where
        W: Fn(Batch) -> F,
        F: Future<Output = Result<Vec<Reply>, ProposalError>>,
    {
        let work = async {
            loop {
                let entry = self
                    .shared
                    .inbox
                    .lock()
                    .queue
                    .gather(ReplySender::is_closed);
                match entry {
                    Some(entry) => self.write_entry(&write, entry).await,
                    None => self.shared.wake.notified().await,
                }
            }
        };
        stop.run_until_cancelled(work).await;
        // Waiters dropped here receive that the store stops; so do those of an entry in flight.
        let mut inbox = self.shared.inbox.lock();
        inbox.is_stopped = true;
        drop(inbox.queue.drain());
    }

    async fn write_entry<W, F>(&self, write: &W, entry: GatheredEntry<ReplySender>)
    where
        W: Fn(Batch) -> F,
        F: Future<Output = Result<Vec<Reply>, ProposalError>>,
    {
        let GatheredEntry { batch, waiters } = entry;
        let tally = EntryTally::from_batch(&batch);
        let outcome = tokio::time::timeout(ENTRY_TIMEOUT, write(batch)).await;
        let outcome = outcome
            .unwrap_or_else(|_| {
                Err(ProposalError::Uncertain(
                    "no quorum wrote it in time".into(),
                ))
            })
            .and_then(|replies| {
                if replies.len() == waiters.len() {
                    Ok(replies)
                } else {
                    Err(ProposalError::Uncertain("replies are missing".into()))
                }
            });
        if matches!(outcome, Ok(_) | Err(ProposalError::Uncertain(_))) {
            self.shared.counters.record_entry(&tally);
        }
        // A waiter that is gone needs no answer.
        match outcome {
            Ok(replies) => {
                for (waiter, reply) in waiters.into_iter().zip(replies) {
                    drop(waiter.send(Ok(reply)));
                }
            }
            Err(error) => {
                for waiter in waiters {
                    drop(waiter.send(Err(error.clone())));
                }
            }
        }
    }

    /// Returns what it has done since the process started, and how much waits.
    pub fn collect_samples(&self) -> Vec<MetricSample> {
        let counters = &self.shared.counters;
        let waiting = self.shared.inbox.lock().queue.len() as u64;
        let counter = |name, help, count: &AtomicU64| {
            MetricSample::counter(name, help, count.load(Ordering::Relaxed))
        };
        vec![
            counter("proposer_entries", "Entries proposed", &counters.entries),
            counter(
                "proposer_raise_entries",
                "Entries with at least one raise",
                &counters.raise_entries,
            ),
            counter("proposer_raises", "Raises proposed", &counters.raises),
            counter("proposer_opens", "Opens proposed", &counters.opens),
            counter(
                "proposer_closes",
                "Closes of sections proposed",
                &counters.closes,
            ),
            counter("proposer_commands", "Commands proposed", &counters.commands),
            MetricSample::gauge(
                "proposer_entry_commands_max",
                "Largest number of commands in one entry",
                counters.entry_commands_max.load(Ordering::Relaxed),
            ),
            counter(
                "proposer_rejections",
                "Rejected because the queue was full",
                &counters.rejections,
            ),
            MetricSample::gauge("proposer_queued_commands", "Commands in the queue", waiting),
        ]
    }
}

/// Counts of what one entry carries, made before the entry is given away.
struct EntryTally {
    raises: u64,
    opens: u64,
    closes: u64,
    commands: u64,
}

impl EntryTally {
    fn from_batch(batch: &Batch) -> EntryTally {
        let count =
            |is: fn(&Command) -> bool| batch.commands.iter().filter(|c| is(c)).count() as u64;
        EntryTally {
            raises: count(|c| matches!(c, Command::Raise { .. })),
            opens: count(|c| matches!(c, Command::Open { .. })),
            closes: count(|c| matches!(c, Command::CloseSection { .. })),
            commands: batch.commands.len() as u64,
        }
    }
}

impl ProposerCounters {
    fn record_entry(&self, tally: &EntryTally) {
        let add = |counter: &AtomicU64, n| {
            counter.fetch_add(n, Ordering::Relaxed);
        };
        add(&self.entries, 1);
        add(&self.raise_entries, u64::from(tally.raises > 0));
        add(&self.raises, tally.raises);
        add(&self.opens, tally.opens);
        add(&self.closes, tally.closes);
        add(&self.commands, tally.commands);
        self.entry_commands_max
            .fetch_max(tally.commands, Ordering::Relaxed);
    }
}
