//! What callers of a holder and its keeper share.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use seqsvr_core::family::{Family, FamilyLimits};
use seqsvr_proto::error::RpcError;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::held_worker::HeldWorker;
use crate::store_clock::StoreClock;

/// How a process holds workers of a family.
#[derive(Clone, Debug)]
pub struct HolderOptions {
    /// Name of the holder, 1 to 128 printable ASCII characters.
    pub name: String,
    /// Workers that it always has, and most workers that it takes on demand.
    pub workers: RangeInclusive<usize>,
    /// Worker that it claims; None: any.
    pub claimed: Option<u32>,
    /// How far a grant reaches in front of store time; 0: as far as the family says.
    pub window_ms: u32,
}

/// What callers and the keeper share.
pub(crate) struct HolderState {
    pub(crate) family: Family,
    pub(crate) clock: Arc<StoreClock>,
    epoch_us: u64,
    unit_ms: u64,
    /// How far ids may be stamped in front of store time.
    pub(crate) ahead_ticks: AtomicU64,
    /// Callers take of the first one that has room.
    pub(crate) workers: ArcSwap<Vec<Arc<HeldWorker>>>,
    /// Changes whenever more may be taken, or the last failure is another one.
    pub(crate) changes: watch::Sender<()>,
    /// Notified when callers find no room in all workers.
    pub(crate) demand: Notify,
    /// Why there is no further worker or grant, and since when none is given.
    pub(crate) failure: Mutex<Option<(RpcError, Instant)>>,
}

impl HolderState {
    /// Makes the state of a holder without workers.
    pub(crate) fn new(family: Family, clock: Arc<StoreClock>) -> HolderState {
        let scale = family.spec.scale;
        let state = HolderState {
            epoch_us: scale.epoch_ms() * 1_000,
            unit_ms: scale.unit_ms(),
            ahead_ticks: AtomicU64::new(0),
            workers: ArcSwap::default(),
            changes: watch::Sender::new(()),
            demand: Notify::new(),
            failure: Mutex::default(),
            clock,
            family,
        };
        state.set_limits(&state.family.limits);
        state
    }

    /// Returns the present tick.
    #[inline]
    pub(crate) fn now_tick(&self) -> u64 {
        let since_epoch_ms = self.clock.now_us().saturating_sub(self.epoch_us) / 1_000;
        // Mostly 1: a division by a number that the compiler does not know takes 2 ns.
        match self.unit_ms {
            1 => since_epoch_ms,
            unit_ms => since_epoch_ms / unit_ms,
        }
    }

    /// Returns whether a further worker helps callers that would have to wait for these ticks. It
    /// does not after a set-back of store time, as it begins where this process ended.
    #[inline]
    pub(crate) fn is_near(&self, wait_ticks: u64) -> bool {
        wait_ticks <= self.ahead_ticks.load(Ordering::Relaxed) + 1
    }

    /// Returns the time that ticks take.
    pub(crate) fn duration_of(&self, ticks: u64) -> Duration {
        Duration::from_millis(ticks.saturating_mul(self.unit_ms))
    }

    /// Sets why callers get no further ids, and wakes those that wait.
    pub(crate) fn note_failure(&self, failure: Option<RpcError>) {
        let mut last = self.failure.lock();
        let since = last.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        *last = failure.map(|failure| (failure, since));
        drop(last);
        self.changes.send_replace(());
    }

    pub(crate) fn set_limits(&self, limits: &FamilyLimits) {
        let ahead_ticks = u64::from(limits.ahead_ms) / self.unit_ms;
        self.ahead_ticks.store(ahead_ticks, Ordering::Relaxed);
    }
}
