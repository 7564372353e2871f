//! The bounded proposer above Raft: one entry in flight while the next gathers.
//!
//! Commands that come while an entry is being written and replicated share the next one. One fsync
//! serves all of them, and the busier the store, the larger its entries.
//!
//! Invariant: at most one entry is in flight; every command's reply goes to its own caller. A
//! caller receives "nothing was written" only if nothing was. When the outcome is unknown, the
//! caller receives that and retries: every command is idempotent or fenced.

mod queue;
mod size;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_metrics::Figure;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

pub use queue::{ENTRY_BYTES_MAX, ENTRY_COMMANDS_MAX, Full, Gathered, Queue};

/// Time without an outcome after which the callers receive that it is unknown.
const ENTRY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason why a command got no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The queue accepts no more; nothing was written.
    #[error("the store's queue is full: retry a little later")]
    Full,
    /// This node does not lead; nothing was written.
    #[error("this store does not lead")]
    NotLeader {
        /// Where the leader is, if known.
        leader: Option<String>,
    },
    /// It may or may not be applied.
    #[error("it is unknown whether the command was applied ({0}): send it again")]
    Uncertain(String),
    /// The store stops; nothing was written or it may be applied.
    #[error("this store is stopping: ask another one")]
    Stopped,
}

type Outcome = Result<Reply, Error>;
type Waiter = oneshot::Sender<Outcome>;

/// Handle to the proposer.
#[derive(Clone, Debug, Default)]
pub struct Proposer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    wake: Notify,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Inbox {
    queue: Queue<Waiter>,
    /// No task drains it any more.
    stopped: bool,
}

#[derive(Debug, Default)]
struct Counts {
    entries: AtomicU64,
    raise_entries: AtomicU64,
    raises: AtomicU64,
    opens: AtomicU64,
    closes: AtomicU64,
    commands: AtomicU64,
    entry_commands_max: AtomicU64,
    refused_full: AtomicU64,
}

impl Proposer {
    /// Has the commands committed, in one entry or more; returns the replies in their order. The
    /// first failure is the answer for all: the caller retries them together. Cancel-safe: a
    /// command that still waits when its caller is gone is not proposed.
    pub async fn propose(&self, commands: Vec<Command>) -> Result<Vec<Reply>, Error> {
        let mut receivers = Vec::with_capacity(commands.len());
        let items = commands.into_iter().map(|command| {
            let (sender, receiver) = oneshot::channel();
            receivers.push(receiver);
            (command, sender)
        });
        let items = items.collect();
        self.push(items)?;
        self.shared.wake.notify_one();
        let mut replies = Vec::with_capacity(receivers.len());
        for receiver in receivers {
            replies.push(receiver.await.map_err(|_| Error::Stopped)??);
        }
        Ok(replies)
    }

    fn push(&self, items: Vec<(Command, Waiter)>) -> Result<(), Error> {
        let mut inbox = self.shared.inbox.lock();
        if inbox.stopped {
            return Err(Error::Stopped);
        }
        inbox.queue.push(items).map_err(|Full| {
            self.shared
                .counts
                .refused_full
                .fetch_add(1, Ordering::Relaxed);
            Error::Full
        })
    }

    /// Has one command committed.
    pub async fn propose_one(&self, command: Command) -> Result<Reply, Error> {
        let replies = self.propose(vec![command]).await?;
        replies.into_iter().next().ok_or(Error::Stopped)
    }

    /// Drains the queue into entries until `stop` is cancelled. `write` has one entry committed and
    /// applied. Only one task may run this.
    pub async fn run<W, F>(&self, write: W, stop: CancellationToken)
    where
        W: Fn(Batch) -> F,
        F: Future<Output = Result<Vec<Reply>, Error>>,
    {
        let work = async {
            loop {
                let gathered = self.shared.inbox.lock().queue.gather(Waiter::is_closed);
                match gathered {
                    Some(gathered) => self.write_one(&write, gathered).await,
                    None => self.shared.wake.notified().await,
                }
            }
        };
        stop.run_until_cancelled(work).await;
        // Waiters dropped here receive that the store stops; so do those of an entry in flight.
        let mut inbox = self.shared.inbox.lock();
        inbox.stopped = true;
        drop(inbox.queue.drain());
    }

    async fn write_one<W, F>(&self, write: &W, gathered: Gathered<Waiter>)
    where
        W: Fn(Batch) -> F,
        F: Future<Output = Result<Vec<Reply>, Error>>,
    {
        let Gathered { batch, waiters } = gathered;
        let tally = Tally::of(&batch);
        let outcome = tokio::time::timeout(ENTRY_TIMEOUT, write(batch)).await;
        let outcome = outcome
            .unwrap_or_else(|_| Err(Error::Uncertain("no quorum wrote it in time".into())))
            .and_then(|replies| {
                if replies.len() == waiters.len() {
                    Ok(replies)
                } else {
                    Err(Error::Uncertain("replies are missing".into()))
                }
            });
        if matches!(outcome, Ok(_) | Err(Error::Uncertain(_))) {
            self.shared.counts.add(&tally);
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
    pub fn figures(&self) -> Vec<Figure> {
        let c = &self.shared.counts;
        let waiting = self.shared.inbox.lock().queue.len() as u64;
        let counter = |name, help, count: &AtomicU64| {
            Figure::counter(name, help, count.load(Ordering::Relaxed))
        };
        vec![
            counter("proposer_entries", "Entries proposed", &c.entries),
            counter(
                "proposer_raise_entries",
                "Entries that carried a raise",
                &c.raise_entries,
            ),
            counter("proposer_raises", "Raises proposed", &c.raises),
            counter("proposer_opens", "Opens proposed", &c.opens),
            counter("proposer_closes", "Closes of sections proposed", &c.closes),
            counter("proposer_commands", "Commands proposed", &c.commands),
            Figure::gauge(
                "proposer_entry_commands_max",
                "Most commands in one entry",
                c.entry_commands_max.load(Ordering::Relaxed),
            ),
            counter(
                "proposer_refused_full",
                "Refused because the queue was full",
                &c.refused_full,
            ),
            Figure::gauge("proposer_waiting", "Commands waiting now", waiting),
        ]
    }
}

/// Counts of what one entry carries, made before the entry is given away.
struct Tally {
    raises: u64,
    opens: u64,
    closes: u64,
    commands: u64,
}

impl Tally {
    fn of(batch: &Batch) -> Tally {
        let count =
            |is: fn(&Command) -> bool| batch.commands.iter().filter(|c| is(c)).count() as u64;
        Tally {
            raises: count(|c| matches!(c, Command::Raise { .. })),
            opens: count(|c| matches!(c, Command::Open { .. })),
            closes: count(|c| matches!(c, Command::CloseSection { .. })),
            commands: batch.commands.len() as u64,
        }
    }
}

impl Counts {
    fn add(&self, tally: &Tally) {
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
