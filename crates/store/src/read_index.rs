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

/// Most requests that may wait for a round; more are rejected.
const WAITING_REQUESTS_MAX: usize = 8_192;
/// Places of these that only renewals take. So a flood of other requests ends no lease.
const RENEWAL_PLACES: usize = 2_048;

/// What a confirmation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfirmedRequest {
    /// The renewal of a session, or the arbiter's check that it can answer renewals.
    Renewal,
    /// Anything else.
    Other,
}

/// Reason why leadership was not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadIndexError {
    /// This node does not lead.
    #[error("this store does not lead")]
    NotLeader {
        /// Where the leader is, if known.
        leader: Option<String>,
    },
    /// No quorum answered in time.
    #[error("no quorum of stores answered in time: retry, or use another store")]
    NoQuorum,
    /// Too many requests wait already.
    #[error(
        "too many requests wait for a confirmation of the leadership (at most {max}): retry later",
        max = WAITING_REQUESTS_MAX
    )]
    Full,
    /// The store stops.
    #[error("this store is stopping: use another store")]
    Stopped,
}

type Ticket = oneshot::Sender<Result<(), ReadIndexError>>;

/// Handle through which requests join the next quorum round.
#[derive(Clone, Debug)]
pub struct ReadIndexBatcher {
    tickets: mpsc::Sender<Ticket>,
    rounds_started: Arc<AtomicU64>,
}

/// The receiving end of a [`ReadIndexBatcher`], to be run by one task.
#[derive(Debug)]
pub struct ReadIndexRunner {
    tickets: mpsc::Receiver<Ticket>,
    rounds_started: Arc<AtomicU64>,
}

/// Creates a batcher and the end that runs its rounds.
pub fn create_batcher() -> (ReadIndexBatcher, ReadIndexRunner) {
    let (sender, receiver) = mpsc::channel(WAITING_REQUESTS_MAX);
    let rounds_started = Arc::new(AtomicU64::new(0));
    let batcher = ReadIndexBatcher {
        tickets: sender,
        rounds_started: rounds_started.clone(),
    };
    let runner = ReadIndexRunner {
        tickets: receiver,
        rounds_started,
    };
    (batcher, runner)
}

impl ReadIndexBatcher {
    /// Waits until a quorum round that started after this call confirmed that this node leads, and
    /// until everything committed before it is applied here.
    pub async fn confirm_leadership(
        &self,
        request: ConfirmedRequest,
    ) -> Result<(), ReadIndexError> {
        // Requests that pass here at the same moment may take a few places of renewals, at most one
        // for each thread.
        if request == ConfirmedRequest::Other && self.tickets.capacity() <= RENEWAL_PLACES {
            return Err(ReadIndexError::Full);
        }
        let (ticket, outcome) = oneshot::channel();
        self.tickets.try_send(ticket).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => ReadIndexError::Full,
            mpsc::error::TrySendError::Closed(_) => ReadIndexError::Stopped,
        })?;
        outcome.await.unwrap_or(Err(ReadIndexError::Stopped))
    }

    /// Returns the number of quorum rounds begun since the process started.
    pub fn rounds_started(&self) -> u64 {
        self.rounds_started.load(Ordering::Relaxed)
    }
}

impl ReadIndexRunner {
    /// Runs one round at a time for all waiting requests, until `stop` is canceled. `round` bounds
    /// its own time. A later round would not succeed where an earlier one waits: any later answer
    /// of a quorum ends both.
    pub async fn run<R, F>(mut self, round: R, stop: CancellationToken)
    where
        R: Fn() -> F,
        F: Future<Output = Result<(), ReadIndexError>>,
    {
        let work = async {
            let mut waiting = Vec::new();
            while self
                .tickets
                .recv_many(&mut waiting, WAITING_REQUESTS_MAX)
                .await
                > 0
            {
                waiting.retain(|ticket| !ticket.is_closed());
                if waiting.is_empty() {
                    continue;
                }
                self.rounds_started.fetch_add(1, Ordering::Relaxed);
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
    async fn request_during_a_round_waits_for_the_next_round() {
        let (batcher, runner) = create_batcher();
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
        let task = tokio::spawn(runner.run(round, stop.clone()));
        let request = || {
            let batcher = batcher.clone();
            tokio::spawn(async move { batcher.confirm_leadership(ConfirmedRequest::Other).await })
        };
        let first = request();
        began.acquire().await.unwrap().forget();
        let late: Vec<_> = (0..100).map(|_| request()).collect();
        while batcher.tickets.capacity() != WAITING_REQUESTS_MAX - 100 {
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
        assert_eq!(batcher.rounds_started(), 2);
        stop.cancel();
        task.await.unwrap();
        assert_eq!(
            batcher.confirm_leadership(ConfirmedRequest::Other).await,
            Err(ReadIndexError::Stopped)
        );
    }

    /// Schedule: status requests wait in such numbers that no place is left; renewals come after
    /// them.
    #[tokio::test]
    async fn flood_of_requests_leaves_places_for_renewals() {
        let (batcher, runner) = create_batcher();
        let request = |kind| {
            let batcher = batcher.clone();
            tokio::spawn(async move { batcher.confirm_leadership(kind).await })
        };
        let mut flood: Vec<_> = (0..WAITING_REQUESTS_MAX)
            .map(|_| request(ConfirmedRequest::Other))
            .collect();
        while flood.iter().filter(|task| task.is_finished()).count() < RENEWAL_PLACES {
            tokio::task::yield_now().await;
        }
        assert_eq!(batcher.tickets.capacity(), RENEWAL_PLACES);
        let renewals: Vec<_> = (0..RENEWAL_PLACES)
            .map(|_| request(ConfirmedRequest::Renewal))
            .collect();
        while batcher.tickets.capacity() > 0 {
            tokio::task::yield_now().await;
        }
        let stop = CancellationToken::new();
        tokio::spawn(runner.run(|| std::future::ready(Ok(())), stop.clone()));
        for renewal in renewals {
            assert_eq!(renewal.await.unwrap(), Ok(()));
        }
        let rejected = flood.split_off(WAITING_REQUESTS_MAX - RENEWAL_PLACES);
        for request in flood {
            assert_eq!(request.await.unwrap(), Ok(()));
        }
        for request in rejected {
            assert_eq!(request.await.unwrap(), Err(ReadIndexError::Full));
        }
        stop.cancel();
    }
}
