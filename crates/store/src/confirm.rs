//! Shared leadership confirmations: many requests, one quorum round.
//!
//! Invariant: the round that answers a request started after the request came in. A caller's ticket
//! is in the channel before the round that takes it begins; tickets that come during a round wait
//! for the next.
//!
//! Schedule that breaks it: a keep-alive joins a round already under way. The round's answers may
//! be older than the request's t0. A newer leader may have been elected in between, and its wait W
//! since its election would not cover a lease counted from t0.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Most requests that may wait for a round.
const WAITING_MAX: usize = 8_192;

/// Reason why leadership was not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// This node does not lead.
    #[error("this store does not lead")]
    NotLeader {
        /// Where the leader is, if known.
        leader: Option<String>,
    },
    /// No quorum answered in time.
    #[error("no quorum of stores answered in time: retry, or ask another store")]
    NoQuorum,
    /// Too many requests wait already.
    #[error("too many requests wait for a confirmation: retry a little later")]
    Full,
    /// The store stops.
    #[error("this store is stopping: ask another one")]
    Stopped,
}

type Ticket = oneshot::Sender<Result<(), Error>>;

/// Handle to the confirmer.
#[derive(Clone, Debug)]
pub struct Confirmer {
    tickets: mpsc::Sender<Ticket>,
    rounds: Arc<AtomicU64>,
}

/// The receiving end of a [`Confirmer`], to be run by one task.
#[derive(Debug)]
pub struct Rounds {
    tickets: mpsc::Receiver<Ticket>,
    rounds: Arc<AtomicU64>,
}

/// Makes a confirmer and the end that runs it.
pub fn new() -> (Confirmer, Rounds) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let rounds = Arc::new(AtomicU64::new(0));
    let confirmer = Confirmer {
        tickets: sender,
        rounds: rounds.clone(),
    };
    (
        confirmer,
        Rounds {
            tickets: receiver,
            rounds,
        },
    )
}

impl Confirmer {
    /// Waits until a quorum round that started after this call confirmed that this node leads, and
    /// until everything committed before it is applied here.
    pub async fn confirm(&self) -> Result<(), Error> {
        let (ticket, outcome) = oneshot::channel();
        self.tickets.try_send(ticket).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => Error::Full,
            mpsc::error::TrySendError::Closed(_) => Error::Stopped,
        })?;
        outcome.await.unwrap_or(Err(Error::Stopped))
    }

    /// Returns the number of quorum rounds begun since the process started.
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }
}

impl Rounds {
    /// Runs one round at a time for all waiting requests, until `stop` is cancelled. `round` bounds
    /// its own time. A later round would not succeed where an earlier one waits: any later answer
    /// of a quorum ends both.
    pub async fn run<R, F>(mut self, round: R, stop: CancellationToken)
    where
        R: Fn() -> F,
        F: Future<Output = Result<(), Error>>,
    {
        let work = async {
            let mut waiting = Vec::new();
            while self.tickets.recv_many(&mut waiting, WAITING_MAX).await > 0 {
                waiting.retain(|ticket| !ticket.is_closed());
                if waiting.is_empty() {
                    continue;
                }
                self.rounds.fetch_add(1, Ordering::Relaxed);
                let outcome = round().await;
                for ticket in waiting.drain(..) {
                    // A caller that is gone needs no answer.
                    drop(ticket.send(outcome.clone()));
                }
            }
        };
        stop.run_until_cancelled(work).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn whoever_comes_during_a_round_waits_for_the_next() {
        let (confirmer, rounds) = new();
        let stop = CancellationToken::new();
        let (began, may_end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (b, m) = (began.clone(), may_end.clone());
        let round = move || {
            let (b, m) = (b.clone(), m.clone());
            async move {
                b.add_permits(1);
                m.acquire().await.unwrap().forget();
                Ok(())
            }
        };
        let task = tokio::spawn(rounds.run(round, stop.clone()));
        let ask = || {
            let confirmer = confirmer.clone();
            tokio::spawn(async move { confirmer.confirm().await })
        };
        let first = ask();
        began.acquire().await.unwrap().forget();
        let late: Vec<_> = (0..100).map(|_| ask()).collect();
        while confirmer.tickets.capacity() != WAITING_MAX - 100 {
            tokio::task::yield_now().await;
        }
        may_end.add_permits(1);
        assert_eq!(first.await.unwrap(), Ok(()));
        began.acquire().await.unwrap().forget();
        assert!(late.iter().all(|task| !task.is_finished()));
        may_end.add_permits(1);
        for task in late {
            assert_eq!(task.await.unwrap(), Ok(()));
        }
        assert_eq!(confirmer.rounds(), 2);
        stop.cancel();
        task.await.unwrap();
        assert_eq!(confirmer.confirm().await, Err(Error::Stopped));
    }
}
