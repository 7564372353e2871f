//! Gaps: numbers that were skipped. Only a call in flight can still return them.
//!
//! A gap is made when a call returns a number that is not the next one of its key. The first
//! number of a key makes one too if the cluster served before, so this has to be cheap. The gap
//! has the time at which that call was answered: the first time at which a number above the gap
//! was received. So a call that began later and returns a number of the gap is out of order, and
//! only calls that began earlier need the gap. When there are many gaps, those that are no
//! younger than the oldest call in flight are dropped.
//!
//! Invariant: no gap is dropped while a call is in flight that began before the gap was made.
//!
//! Each caller has a start time, which sweeps read. While a call is in flight, the start time of
//! its caller is no later than the begin of the call. Between two calls without a rest, the start
//! time of the first call stays until that of the second replaces it. A caller that rests clears
//! its start time; before it reads the clock for its next call, it stores 0, the earliest of all
//! times. By the fences, a sweep sees that 0, or the clock is read after the sweep and thus after
//! the gaps of the sweep were made. So the earliest start time that a sweep found stays a lower
//! bound of all later ones. A sweep uses the last bound that was found as long as it drops most
//! gaps, because callers write the start times all the time and reading them is expensive.

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

use parking_lot::{Mutex, MutexGuard};

use super::VerifyError;

/// Number of locks; the gaps of a key are under one of them.
const SHARD_COUNT: usize = 1_024;
/// Approximate maximum of needed gaps in all. Above it the run ends with an error.
const GAPS_MAX: usize = 1 << 20;
/// Gaps under one lock that are kept without a sweep.
const UNSWEPT_GAPS_MAX: usize = 64;
/// Start time of a caller without a call.
const NO_CALL: u64 = u64::MAX;

/// Exclusive bounds of numbers of a key that were not received, and the time at which a number
/// above them was first received.
#[derive(Clone, Copy)]
struct Gap {
    key: u32,
    low: u64,
    high: u64,
    made_at: u64,
}

/// Gaps of the keys that share one lock.
#[derive(Default)]
struct GapShard {
    gaps: Vec<Gap>,
    /// Number of gaps, above UNSWEPT_GAPS_MAX, at which the next sweep runs.
    next_sweep_at: usize,
    /// Number of gaps after the last sweep.
    counted_gaps: usize,
}

/// All gaps, and the start times of the calls in flight.
pub(crate) struct GapTracker {
    shards: Box<[Mutex<GapShard>]>,
    sweep_state: Box<SweepState>,
    callers: Box<[CallerStart]>,
}

/// State that sweeps write. It has a cache line of its own, because the neighboring data is read
/// for each number.
#[derive(Default)]
#[repr(align(64))]
struct SweepState {
    /// Sum of the gaps after the last sweep of each shard.
    gap_count: AtomicUsize,
    /// Earliest start time that some sweep found.
    oldest_start: AtomicU64,
}

/// Start time of a caller: no later than the begin of its call in flight. On a cache line of its
/// own.
#[repr(align(64))]
struct CallerStart(AtomicU64);

/// Locked gaps of one key. The lock is shared with other keys.
pub(super) struct KeyGaps<'a> {
    key: u32,
    shard: MutexGuard<'a, GapShard>,
    tracker: &'a GapTracker,
}

/// Result of filling a gap.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FillResult {
    Filled,
    /// The call began after this number above the gap had been received.
    CallTooLate(u64),
    /// No gap has the whole range.
    NoGap,
}

impl GapTracker {
    /// Creates a tracker for this many callers, each with one call in flight at a time.
    pub(super) fn new(callers: usize) -> GapTracker {
        GapTracker {
            shards: (0..SHARD_COUNT).map(|_| Mutex::default()).collect(),
            sweep_state: Box::default(),
            callers: (0..callers)
                .map(|_| CallerStart(AtomicU64::new(0)))
                .collect(),
        }
    }

    /// Notes that a caller's call begins at `begin`, when its last one ended or the run began.
    pub(crate) fn note_begin_at(&self, caller: usize, begin: u64) {
        // Release: after all numbers of its last call were taken.
        self.callers[caller].0.store(begin, Release);
    }

    /// Notes that a caller's call begins now, possibly after a rest. Returns the begin.
    pub(crate) fn note_begin_now(&self, caller: usize, clock: impl FnOnce() -> u64) -> u64 {
        self.callers[caller].0.store(0, Relaxed);
        fence(SeqCst);
        let begin = clock();
        self.callers[caller].0.store(begin, Release);
        begin
    }

    /// Notes that a caller has no call in flight, and that all its numbers were taken.
    pub(crate) fn note_rest(&self, caller: usize) {
        self.callers[caller].0.store(NO_CALL, Release);
    }

    /// Locks a key's gaps.
    pub(super) fn lock_key(&self, key: u32) -> KeyGaps<'_> {
        KeyGaps {
            key,
            shard: self.shards[key as usize % SHARD_COUNT].lock(),
            tracker: self,
        }
    }

    #[cfg(test)]
    pub(super) fn gap_count(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.lock().gaps.len()).sum()
    }
}

impl KeyGaps<'_> {
    /// Adds the numbers between `low` and `high`, which a call skipped that was answered at
    /// `made_at`.
    ///
    /// # Errors
    /// There are too many needed gaps.
    pub(super) fn add_gap(mut self, low: u64, high: u64, made_at: u64) -> Result<(), VerifyError> {
        let key = self.key;
        let gaps = &mut self.shard.gaps;
        gaps.push(Gap {
            key,
            low,
            high,
            made_at,
        });
        if self.shard.gaps.len() < UNSWEPT_GAPS_MAX.max(self.shard.next_sweep_at) {
            return Ok(());
        }
        self.drop_unneeded()
    }

    /// Drops the gaps under this lock that no call needs.
    fn drop_unneeded(&mut self) -> Result<(), VerifyError> {
        let SweepState {
            gap_count,
            oldest_start,
        } = &*self.tracker.sweep_state;
        let shard = &mut *self.shard;
        let half = shard.gaps.len() / 2;
        let bound = oldest_start.load(Relaxed);
        shard.gaps.retain(|gap| gap.made_at > bound);
        if shard.gaps.len() > half {
            // After locking: all gaps of this shard were made before this fence.
            fence(SeqCst);
            let callers = self.tracker.callers.iter();
            let starts = callers.map(|caller| caller.0.load(Acquire));
            let bound = starts.min().unwrap_or(NO_CALL);
            shard.gaps.retain(|gap| gap.made_at > bound);
            // Without a call in flight it is no bound of later calls.
            if bound != NO_CALL {
                oldest_start.fetch_max(bound, Relaxed);
            }
        }
        let remaining = shard.gaps.len();
        gap_count.fetch_add(remaining, Relaxed);
        let total = gap_count.fetch_sub(shard.counted_gaps, Relaxed) - shard.counted_gaps;
        shard.counted_gaps = remaining;
        shard.next_sweep_at = 2 * remaining;
        if total > GAPS_MAX {
            Err(VerifyError::TooManyGaps)
        } else {
            Ok(())
        }
    }

    /// Fills a part of one gap with a range that a call returned that began at `begin`.
    pub(super) fn fill_gap(
        &mut self,
        first: u64,
        last: u64,
        stride: u64,
        begin: u64,
    ) -> FillResult {
        let gaps = &mut self.shard.gaps;
        let has_range = |gap: &Gap| gap.key == self.key && gap.low < first && last < gap.high;
        let Some(index) = gaps.iter().position(has_range) else {
            return FillResult::NoGap;
        };
        if gaps[index].made_at <= begin {
            return FillResult::CallTooLate(gaps[index].high);
        }
        let gap = gaps.swap_remove(index);
        let rest = [(gap.low, first), (last, gap.high)];
        let rest = rest.into_iter().filter(|(low, high)| low + stride < *high);
        gaps.extend(rest.map(|(low, high)| Gap { low, high, ..gap }));
        FillResult::Filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the n-th key of the first shard.
    fn nth_key(n: usize) -> u32 {
        (n * SHARD_COUNT) as u32
    }

    /// Adds gaps at the time `made_at` until the last of them starts a sweep.
    fn add_until_sweep(tracker: &GapTracker, from: usize, made_at: u64) {
        let left = {
            let shard = &tracker.lock_key(nth_key(0)).shard;
            UNSWEPT_GAPS_MAX.max(shard.next_sweep_at) - shard.gaps.len()
        };
        for n in from..from + left {
            assert_eq!(tracker.lock_key(nth_key(n)).add_gap(1, 5, made_at), Ok(()));
        }
    }

    #[test]
    fn gaps_are_dropped_when_no_earlier_call_is_in_flight() {
        let tracker = GapTracker::new(3);
        add_until_sweep(&tracker, 0, 10);
        assert_eq!(
            tracker.gap_count(),
            UNSWEPT_GAPS_MAX,
            "no caller has a start time yet"
        );
        tracker.note_begin_at(0, 9);
        tracker.note_begin_at(1, 20);
        tracker.note_rest(2);
        add_until_sweep(&tracker, UNSWEPT_GAPS_MAX, 19);
        assert_eq!(
            tracker.gap_count(),
            2 * UNSWEPT_GAPS_MAX,
            "the first call may fill them"
        );
        let fill = |n, begin| tracker.lock_key(nth_key(n)).fill_gap(2, 2, 1, begin);
        assert_eq!(fill(7, 9), FillResult::Filled);
        assert_eq!(fill(7, 9), FillResult::NoGap, "filled");
        assert_eq!(fill(8, 10), FillResult::CallTooLate(5));
        tracker.note_begin_at(0, 19);
        assert_eq!(tracker.note_begin_now(2, || 30), 30);
        add_until_sweep(&tracker, 2 * UNSWEPT_GAPS_MAX, 20);
        let left = tracker.gap_count();
        assert!(
            (1..=2 * UNSWEPT_GAPS_MAX).contains(&left),
            "only those of 20: {left}"
        );
        assert_eq!(fill(8, 9), FillResult::NoGap, "dropped");
        assert_eq!(fill(2 * UNSWEPT_GAPS_MAX, 19), FillResult::Filled);
        (0..3).for_each(|caller| tracker.note_rest(caller));
        add_until_sweep(&tracker, 6 * UNSWEPT_GAPS_MAX, 40);
        assert_eq!(tracker.gap_count(), 0, "no call is in flight");
    }

    #[test]
    fn gaps_above_the_maximum_are_an_error() {
        let tracker = GapTracker::new(1);
        tracker.note_begin_at(0, 1);
        let first_error =
            (0..4 * GAPS_MAX).find(|n| tracker.lock_key(*n as u32).add_gap(1, 5, 2).is_err());
        let first_error = first_error.unwrap();
        assert!(first_error >= GAPS_MAX, "{first_error}");
    }
}
