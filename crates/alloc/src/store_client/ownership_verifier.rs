//! Confirms ownership with the store: for the causal guard (a caller that has seen more than this
//! node would give shows that the node may be stale) and for strict calls.
//!
//! Invariant: such a caller is answered only with what a store confirmed in a round that started
//! after its request arrived; never by a jump to a floor that no store confirmed. Rounds are
//! coalesced and rate-limited, so that made-up floors cost the store little.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::ids::Slot;
use seqsvr_core::{planted, reached};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{ReadRequest, Reason};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::metrics::counters::AllocCounters;
use crate::session::ownership::SlotOwnership;
use crate::store_client::store_group::StoreGroupClient;
use crate::store_client::unavailable::shutting_down_error;

/// Maximum callers that wait for a confirmation; above it calls are rejected with a retry hint.
const PENDING_CHECKS_MAX: usize = 10_000;
/// Minimum time between two rounds. Strict callers wait for it, and made-up floors cost the store
/// no more.
const ROUND_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// Maximum time of one round; after it its callers get an error.
const ROUND_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time of one attempt at one store; after it the next store is tried. A stopped leader
/// does not answer, and strict callers have to find the next leader in time.
const STORE_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(300);

/// Result of a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnershipVerdict {
    /// This session owns the slot at this epoch: the caller's value was wrong.
    Current,
    /// It does not, or the session has ended.
    Stale,
}

type PendingCheck = (
    SlotOwnership,
    oneshot::Sender<Result<OwnershipVerdict, RpcError>>,
);

/// Queue of callers that wait for the next round.
pub(crate) struct OwnershipVerifier {
    stores: StoreGroupClient,
    counters: Arc<AllocCounters>,
    pending: Mutex<Vec<PendingCheck>>,
    ready: Notify,
}

impl OwnershipVerifier {
    pub(crate) fn new(stores: StoreGroupClient, counters: Arc<AllocCounters>) -> OwnershipVerifier {
        OwnershipVerifier {
            stores,
            counters,
            pending: Mutex::default(),
            ready: Notify::new(),
        }
    }

    /// Confirms an ownership with the store, by a round that starts after now.
    pub(crate) async fn verify(
        &self,
        ownership: SlotOwnership,
    ) -> Result<OwnershipVerdict, RpcError> {
        let (tx, rx) = oneshot::channel();
        {
            let mut pending = self.pending.lock();
            if pending.len() >= PENDING_CHECKS_MAX {
                return Err(RpcError::new(
                    Reason::Overloaded,
                    format!(
                        "too many confirmations wait: at most {PENDING_CHECKS_MAX}; retry later"
                    ),
                )
                .with_retry_after_ms(100));
            }
            pending.push((ownership, tx));
        }
        self.ready.notify_one();
        rx.await.unwrap_or_else(|_| Err(shutting_down_error()))
    }

    /// Runs confirmation rounds until canceled.
    pub(crate) async fn run(self: Arc<Self>, cancel: CancellationToken) {
        while cancel
            .run_until_cancelled(self.ready.notified())
            .await
            .is_some()
        {
            // Callers that are queued now are in this round. Later callers are in the next.
            let checks = std::mem::take(&mut *self.pending.lock());
            if !checks.is_empty() {
                self.counters.ownership_checks.add(1);
                run_round(&self.stores, checks).await;
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
        // An ended session owns no slot: its slots have moved to later epochs.
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
