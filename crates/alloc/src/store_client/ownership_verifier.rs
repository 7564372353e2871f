//! Confirmations with the store: for the causal guard (a caller that has seen more than we would
//! give shows that we may be stale) and for strict calls.
//!
//! Invariant: such a caller is answered only by what a store confirmed in a round that started
//! after its request arrived; never by jumping to a floor nobody verified. Rounds are coalesced and
//! rate-limited, so that made-up floors cost the store little.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::id::Slot;
use seqsvr_core::{planted, reached};
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::{ReadRequest, Reason};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::metrics::counters::AllocCounters;
use crate::session::ownership::SlotOwnership;
use crate::store_client::store_group::StoreGroupClient;

/// Most callers waiting for a confirmation.
const PENDING_CHECKS_MAX: usize = 10_000;
/// Least time between two rounds: strict callers wait for it, made-up floors cost the store no
/// more.
const ROUND_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// How long one round may take.
const ROUND_TIMEOUT: Duration = Duration::from_secs(2);
/// How long one store may take before another is asked: a leader that was stopped answers nobody,
/// and strict callers have to find the next one in time.
const STORE_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(300);

/// What a confirmation found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnershipVerdict {
    /// The slot is ours at the epoch we hold: the caller's value was wrong.
    Current,
    /// It is not, or our session is over.
    Stale,
}

type PendingCheck = (
    SlotOwnership,
    oneshot::Sender<Result<OwnershipVerdict, Fault>>,
);

/// Callers waiting for the next round.
#[derive(Default)]
pub(crate) struct OwnershipVerifier {
    pending: Mutex<Vec<PendingCheck>>,
    ready: Notify,
}

impl OwnershipVerifier {
    /// Confirms with the store that a holding stands, by a round that starts after now.
    pub(crate) async fn verify(&self, ownership: SlotOwnership) -> Result<OwnershipVerdict, Fault> {
        let (tx, rx) = oneshot::channel();
        {
            let mut pending = self.pending.lock();
            if pending.len() >= PENDING_CHECKS_MAX {
                return Err(Fault::new(
                    Reason::TooMany,
                    "too many confirmations wait; retry later",
                )
                .with_retry_after_ms(100));
            }
            pending.push((ownership, tx));
        }
        self.ready.notify_one();
        rx.await.unwrap_or_else(|_| {
            Err(Fault::new(
                Reason::Unreachable,
                "this AllocSvr is shutting down",
            ))
        })
    }

    /// Runs confirmation rounds until cancelled.
    pub(crate) async fn run(
        &self,
        stores: &StoreGroupClient,
        counters: &AllocCounters,
        cancel: CancellationToken,
    ) {
        while cancel
            .run_until_cancelled(self.ready.notified())
            .await
            .is_some()
        {
            // Whoever asked is in this round; whoever asks from here on is in the next.
            let checks = std::mem::take(&mut *self.pending.lock());
            if !checks.is_empty() {
                counters.guard_rounds.add(1);
                run_round(stores, checks).await;
            }
            sleep(ROUND_INTERVAL_MIN).await;
        }
        self.pending.lock().clear();
    }
}

/// Confirms these ownerships in one read.
async fn run_round(stores: &StoreGroupClient, checks: Vec<PendingCheck>) {
    let slots: BTreeSet<Slot> = checks.iter().map(|(ownership, _)| ownership.slot).collect();
    let request = ReadRequest {
        slots: slots.iter().map(|s| u32::from(s.0)).collect(),
        ..ReadRequest::default()
    };
    let answer = stores
        .send(
            Instant::now() + ROUND_TIMEOUT,
            STORE_ATTEMPT_TIMEOUT,
            request,
            |mut store, request| async move { store.read(request).await },
        )
        .await;
    let found = answer.map(|read| {
        let held = read.epochs.into_iter().zip(read.owners);
        slots.into_iter().zip(held).collect::<BTreeMap<_, _>>()
    });
    for (ownership, tx) in checks {
        // An ended session owns nothing: its slots have gone on to later epochs.
        let expected = (ownership.epoch.0, ownership.session.0);
        let verdict = found.as_ref().map_err(Clone::clone);
        let verdict = verdict.map(|found| match found.get(&ownership.slot) {
            Some(now) if *now == expected || planted!(ConfirmAnyOwner) => OwnershipVerdict::Current,
            _ => {
                reached!("alloc: a holding was stale");
                OwnershipVerdict::Stale
            }
        });
        let _ = tx.send(verdict);
    }
}
