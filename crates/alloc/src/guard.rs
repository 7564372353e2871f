//! The causal guard: a caller that has seen more than we would give shows that we may be stale.
//!
//! Invariant: such a caller is answered only by what a store confirmed in a round that started
//! after its request arrived; never by jumping to a floor nobody verified. Rounds are coalesced and
//! rate-limited, so that made-up floors cost the store little.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::id::{Epoch, Slot};
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{ReadRequest, Reason};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::node::Node;

/// Most callers waiting for a confirmation.
const WAITING_MAX: usize = 10_000;
/// Least time between two rounds.
const INTERVAL: Duration = Duration::from_millis(10);
/// How long one round may take.
const ROUND: Duration = Duration::from_secs(2);

/// What a confirmation found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The slot is ours at the epoch we hold: the caller's value was wrong.
    Ours,
    /// It is not, or our session is over.
    Stale,
}

type Asked = (Slot, Epoch, oneshot::Sender<Result<Verdict, Fault>>);

/// Callers waiting for the next round.
#[derive(Default)]
pub(crate) struct Guard {
    waiting: Mutex<Vec<Asked>>,
    ready: Notify,
}

impl Node {
    /// Confirms with the store that `slot` is ours at `epoch`, by a round that starts after now.
    pub(crate) async fn confirm(&self, slot: Slot, epoch: Epoch) -> Result<Verdict, Fault> {
        let (tx, rx) = oneshot::channel();
        {
            let mut waiting = self.guard.waiting.lock();
            if waiting.len() >= WAITING_MAX {
                return Err(Fault::new(
                    Reason::TooMany,
                    "too many confirmations wait; retry later",
                )
                .with_retry_after_ms(100));
            }
            waiting.push((slot, epoch, tx));
        }
        self.guard.ready.notify_one();
        rx.await.unwrap_or_else(|_| {
            Err(Fault::new(
                Reason::Unreachable,
                "this AllocSvr is shutting down",
            ))
        })
    }

    /// Runs confirmation rounds until cancelled.
    pub(crate) async fn run_guard(self: Arc<Self>, cancel: CancellationToken) {
        while cancel
            .run_until_cancelled(self.guard.ready.notified())
            .await
            .is_some()
        {
            // Whoever asked is in this round; whoever asks from here on is in the next.
            let asked = std::mem::take(&mut *self.guard.waiting.lock());
            if !asked.is_empty() {
                self.counters.guard_rounds.add(1);
                self.round(asked).await;
            }
            sleep(INTERVAL).await;
        }
        self.guard.waiting.lock().clear();
    }

    async fn round(&self, asked: Vec<Asked>) {
        let session = self.session.load_full();
        let slots: Vec<Slot> = asked
            .iter()
            .map(|a| a.0)
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
        let request = ReadRequest {
            session: session.as_ref().map(|s| s.id.0),
            slots: slots.iter().map(|s| u32::from(s.0)).collect(),
            ..ReadRequest::default()
        };
        let answer = self
            .stores
            .call(Instant::now() + ROUND, ROUND, |channel| {
                let request = request.clone();
                async move { StoreClient::new(channel).read(request).await }
            })
            .await;
        let found: BTreeMap<Slot, (u64, u64)> = match &answer {
            Ok(read) => slots
                .into_iter()
                .zip(read.epochs.iter().copied().zip(read.owners.iter().copied()))
                .collect(),
            Err(_) => BTreeMap::new(),
        };
        for (slot, epoch, tx) in asked {
            let verdict = match (&answer, &session) {
                (Err(fault), _) if fault.reason() == Reason::NoSuchSession => Ok(Verdict::Stale),
                (Err(fault), _) => Err(fault.clone()),
                (Ok(_), None) => Ok(Verdict::Stale),
                (Ok(_), Some(session)) if found.get(&slot) == Some(&(epoch.0, session.id.0)) => {
                    Ok(Verdict::Ours)
                }
                (Ok(_), Some(_)) => Ok(Verdict::Stale),
            };
            let _ = tx.send(verdict);
        }
    }
}
