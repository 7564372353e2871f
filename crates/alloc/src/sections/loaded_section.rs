//! A loaded section: its counters, and the session, slot epoch and generation they belong to.
//!
//! Invariant: a number taken here is answered only if three conditions hold at a clock reading made
//! after the request was received: the session in which this object was opened is alive, its lease
//! holds, and the slot still has the epoch at which this object was opened.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::command::Fence;
use seqsvr_core::ids::{Generation, SectionKey};
use seqsvr_core::lease::ClockReading;
use seqsvr_core::namespace::{Namespace, NamespaceSpec};
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_core::section::{CounterKey, CurrentValue, Section};
use seqsvr_proto::v1::{CurrentKind, SectionHighWaterMark};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::sections::rate_meter::RateMeter;
use crate::session::leased_session::LeasedSession;
use crate::session::ownership::SlotOwnership;
use crate::session::serving_check::ServingCheck;

/// Target time between two raises of a busy section.
const RAISE_INTERVAL: Duration = Duration::from_secs(4);
/// Maximum retention score: two minutes in use, and a quarter of a minute to forget it.
const RETENTION_SCORE_MAX: u32 = 64;

/// One generation of a section, owned by this process.
pub(crate) struct LoadedSection {
    pub(crate) fence: Fence,
    pub(crate) generation: Generation,
    pub(crate) section: Section,
    pub(crate) session: Arc<LeasedSession>,
    /// Version of a table by which it was current; 0: none yet.
    current_at_version: AtomicU64,
    /// Notified when the window grew or the object was retired.
    pub(crate) changed: Notify,
    /// Number of callers that wait for the window.
    pub(crate) waiter_count: AtomicU32,
    is_raising: AtomicBool,
    /// Greatest max_seq that a waiting caller needs.
    needed_max_seq: AtomicU64,
    step: AtomicU64,
    rate: Mutex<ConsumptionRate>,
    idle_sweeps: AtomicU32,
    /// Score by which sections are kept in memory; see [`LoadedSection::sample_usage`].
    retention_score: AtomicU32,
    /// Number of touched keys at the last sample.
    keys_at_sample: AtomicU64,
    /// Whether a sample has found use since the last sweep.
    used_since_sweep: AtomicBool,
    pub(crate) rate_meter: RateMeter,
}

/// Position of the furthest counter at the last raise, and the time of that raise.
struct ConsumptionRate {
    sampled_at: Option<ClockReading>,
    highest: u64,
}

impl LoadedSection {
    pub(crate) fn new(
        fence: Fence,
        session: Arc<LeasedSession>,
        section: Section,
        step: u32,
    ) -> LoadedSection {
        LoadedSection {
            fence,
            generation: Generation(section.generation()),
            section,
            session,
            current_at_version: AtomicU64::new(0),
            changed: Notify::new(),
            waiter_count: AtomicU32::new(0),
            is_raising: AtomicBool::new(false),
            needed_max_seq: AtomicU64::new(0),
            step: AtomicU64::new(u64::from(step)),
            rate: Mutex::new(ConsumptionRate {
                sampled_at: None,
                highest: 0,
            }),
            idle_sweeps: AtomicU32::new(0),
            retention_score: AtomicU32::new(0),
            keys_at_sample: AtomicU64::new(0),
            used_since_sweep: AtomicBool::new(false),
            rate_meter: RateMeter::default(),
        }
    }

    pub(crate) fn key(&self) -> SectionKey {
        self.fence.section
    }

    /// Returns what the right to answer from this object rests on.
    pub(crate) fn ownership(&self) -> SlotOwnership {
        SlotOwnership {
            slot: self.fence.slot,
            epoch: self.fence.epoch,
            session: self.session.id,
        }
    }

    /// Returns whether the slot still has the epoch at which this object was opened, in the same
    /// session.
    pub(crate) fn is_current(&self, table: &RoutingTable) -> bool {
        self.session
            .is_owner_of(self.fence.slot, self.fence.epoch, table)
    }

    /// Returns [`LoadedSection::is_current`], computed once for each version of the table: this
    /// process has one table of a version, and it never changes.
    #[inline]
    fn is_current_cached(&self, table: &RoutingTable) -> bool {
        let version = table.version();
        if self.current_at_version.load(Relaxed) == version {
            return true;
        }
        let current = self.is_current(table);
        if current {
            self.current_at_version.store(version, Relaxed);
        }
        current
    }

    /// Returns whether it belongs to the session of this check and is current by its table.
    #[inline]
    pub(crate) fn is_current_in(&self, check: &ServingCheck<'_>) -> bool {
        self.is_current_cached(check.table()) && Arc::ptr_eq(&self.session, check.session())
    }

    /// Returns what is known of a key's current number; None once sealed, or if the key does not
    /// belong here.
    pub(crate) fn read_current(
        &self,
        key: CounterKey<'_>,
        namespace: &Namespace,
    ) -> Option<(CurrentKind, u64)> {
        let floor = namespace.spec.progression.max_seq_floor();
        Some(match self.section.current(key).ok()? {
            CurrentValue::Touched(n) => (CurrentKind::Exact, n),
            CurrentValue::Untouched if self.section.base() == floor => (CurrentKind::Never, floor),
            CurrentValue::Untouched => (CurrentKind::AtMost, self.section.base()),
        })
    }

    /// Returns whether a raise is due: half of the step is used, or a caller waits.
    #[inline]
    pub(crate) fn should_raise(&self) -> bool {
        !self.is_raising.load(Relaxed) && self.is_raise_due()
    }

    fn is_raise_due(&self) -> bool {
        let low = self.section.numbers_remaining() <= self.step.load(Relaxed) / 2;
        (low || self.needed_max_seq.load(Relaxed) > self.section.max_seq()) && self.can_grow()
    }

    /// Returns whether less than a tenth of a step is left, which an earlier raise should have
    /// widened.
    pub(crate) fn is_low(&self) -> bool {
        self.section.numbers_remaining() < self.step.load(Relaxed) / 10 && self.can_grow()
    }

    /// Returns whether any number is left above the window.
    fn can_grow(&self) -> bool {
        let max_seq = self.section.max_seq();
        self.section
            .max_seq_for(self.section.offset_limit().saturating_add(1))
            > max_seq
    }

    /// Records that a caller needs the window to reach `max_seq`.
    pub(crate) fn require_window(&self, max_seq: u64) {
        self.needed_max_seq.fetch_max(max_seq, Relaxed);
    }

    /// Claims the right to raise; one raise is in flight at a time. Never for a sealed object: its
    /// window stays low permanently, so its refills would never end.
    pub(crate) fn try_begin_raise(&self) -> bool {
        !self.section.is_sealed() && self.is_raise_due() && !self.is_raising.swap(true, AcqRel)
    }

    /// Releases the right to raise, and wakes the callers that wait.
    pub(crate) fn end_raise(&self) {
        self.is_raising.store(false, Release);
        self.changed.notify_waiters();
    }

    /// Returns the max_seq to request. The step follows the rate of the furthest counter, so that a
    /// busy section raises about once in [`RAISE_INTERVAL`] and a quiet one by the namespace's
    /// step.
    pub(crate) fn next_max_seq(&self, now: ClockReading, spec: &NamespaceSpec) -> u64 {
        let (step_min, step_max) = (u64::from(spec.step), u64::from(spec.limits.step_max));
        let highest = self.section.highest_offset();
        let step = {
            let mut rate = self.rate.lock();
            let used = highest.saturating_sub(rate.highest);
            let step = match rate
                .sampled_at
                .map(|at| now.elapsed_owner(at).max(Duration::from_millis(1)))
            {
                Some(elapsed) => {
                    (used as f64 * (RAISE_INTERVAL.as_secs_f64() / elapsed.as_secs_f64())) as u64
                }
                None => step_min,
            };
            *rate = ConsumptionRate {
                sampled_at: Some(now),
                highest,
            };
            step.clamp(step_min, step_max)
        };
        self.step.store(step, Relaxed);
        let ahead = self
            .section
            .max_seq_for(self.section.offset_limit().saturating_add(step));
        ahead.max(
            self.needed_max_seq.load(Relaxed).min(
                self.section
                    .max_seq_for(self.section.offset_limit().saturating_add(step_max)),
            ),
        )
    }

    /// Records that a RaiseTo moved the furthest counter, so that the distance does not count as
    /// consumption.
    pub(crate) fn record_jump(&self) {
        let highest = self.section.highest_offset();
        self.rate.lock().highest = highest;
        self.rate_meter.record_jump(highest);
    }

    /// Seals permanently and wakes the callers that wait, so that they look the section up again.
    pub(crate) fn retire(&self) {
        self.section.seal();
        self.changed.notify_waiters();
    }

    /// Waits until the section is sealed and drained, and returns its high-water mark.
    pub(crate) async fn wait_drained(&self) -> SectionHighWaterMark {
        loop {
            // Section guards never span an await, so each caller that is inside runs on another
            // thread now.
            if let Some(value) = self.section.high_water_mark() {
                return SectionHighWaterMark {
                    fence: Some(self.fence.into()),
                    generation: self.generation.0,
                    value,
                };
            }
            tokio::task::yield_now().await;
        }
    }

    /// Samples the usage. Returns whether the section was used since the last sample, and its
    /// retention score: one more for each sample with use and without new keys; half of that after
    /// a sample without use; 0 after a sample with new keys. So sections that keep growing get the
    /// lowest score, and are evicted before the steady sections of other callers. Called by one
    /// task.
    pub(crate) fn sample_usage(&self) -> (bool, u32) {
        let used = self.section.take_used() || self.waiter_count.load(Acquire) > 0;
        let touched = self.section.keys_in_memory();
        let has_new_keys = self.keys_at_sample.swap(touched, Relaxed) != touched;
        let retention_score = match self.retention_score.load(Relaxed) {
            _ if has_new_keys => 0,
            retention_score if used => (retention_score + 1).min(RETENTION_SCORE_MAX),
            retention_score => retention_score / 2,
        };
        self.retention_score.store(retention_score, Relaxed);
        self.rate_meter
            .sample(Instant::now(), self.section.highest_offset());
        if used {
            self.used_since_sweep.store(true, Relaxed);
        }
        (used, retention_score)
    }

    /// Returns whether the section was used since the last [`sample`](Self::sample_usage), and its
    /// score at that sample, or 0 if keys were new since. Changes nothing.
    pub(crate) fn peek_usage(&self) -> (bool, u32) {
        let used = self.section.is_used() || self.waiter_count.load(Acquire) > 0;
        let has_new_keys = self.keys_at_sample.load(Relaxed) != self.section.keys_in_memory();
        let retention_score = if has_new_keys {
            0
        } else {
            self.retention_score.load(Relaxed)
        };
        (used, retention_score)
    }

    /// Counts a sweep, and returns the number of sweeps without use; 0 if the section was used
    /// since the last sweep. Called after a sample.
    pub(crate) fn count_idle_sweep(&self) -> u32 {
        if self.used_since_sweep.swap(false, Relaxed) {
            self.idle_sweeps.store(0, Relaxed);
            return 0;
        }
        self.idle_sweeps.fetch_add(1, Relaxed) + 1
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use seqsvr_core::ids::{Epoch, NamespaceId, SectionId, SessionId, Slot};
    use seqsvr_core::section::SectionGrant;

    use super::*;

    fn loaded() -> LoadedSection {
        let section = SectionKey {
            namespace: NamespaceId(1),
            section: SectionId(0),
        };
        let fence = Fence {
            slot: Slot(0),
            epoch: Epoch(1),
            section,
        };
        let open = SectionGrant {
            generation: 1,
            base: 0,
            max_seq: 10,
            first: Some(1),
            stride: 1,
        };
        let session = Arc::new(LeasedSession::new(SessionId(1)));
        LoadedSection::new(fence, session, Section::dense(open, 10), 10)
    }

    #[test]
    fn raise_begins_once_at_half_of_the_step() {
        let loaded = loaded();
        let five = NonZeroU32::new(5).unwrap();
        assert!(!loaded.try_begin_raise(), "nothing is used yet");
        loaded.section.next(CounterKey::Dense(0), five).unwrap();
        assert!(loaded.try_begin_raise());
        assert!(!loaded.try_begin_raise(), "one at a time");
        loaded.section.widen_to(20);
        loaded.end_raise();
        assert!(!loaded.try_begin_raise(), "the window was widened");
    }

    /// A section retired while its raise was in flight keeps a low window permanently. Without the
    /// rule its refill requested the next raise without end, and no shutdown completed.
    #[test]
    fn sealed_section_is_not_raised() {
        let loaded = loaded();
        let five = NonZeroU32::new(5).unwrap();
        loaded.section.next(CounterKey::Dense(0), five).unwrap();
        assert!(loaded.try_begin_raise());
        loaded.retire();
        loaded.end_raise();
        assert!(!loaded.try_begin_raise());
    }
}
