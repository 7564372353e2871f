//! Gaps: numbers that were skipped. Only a call in flight can still return them.
//!
//! A hole is made when a call returns a number that is not the next one of its key. The first
//! number of a key makes one too if the cluster served before, so this has to be cheap. The hole
//! has the time at which that call was answered: the first time at which a number above the hole
//! was received. So a call that began later and returns a number of the hole is out of order, and
//! only calls that began earlier need the hole. When there are many holes, those that are no
//! younger than the oldest call in flight are dropped.
//!
//! Invariant: no hole is dropped while a call is in flight that began before the hole was made.
//!
//! Each caller has a start time, which sweeps read. While a call is in flight, the start time of
//! its caller is no later than the begin of the call. Between two calls without a rest, the start
//! time of the first call stays until that of the second replaces it. A caller that rests clears
//! its start time; before it reads the clock for its next call, it stores 0, the earliest of all
//! times. By the fences, a sweep sees that 0, or the clock is read after the sweep and thus after
//! the holes of the sweep were made. So the earliest start time that a sweep found stays a lower
//! bound of all later ones. A sweep uses the last bound that was found as long as it drops most
//! holes, because callers write the start times all the time and reading them is expensive.

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

use parking_lot::{Mutex, MutexGuard};

/// Number of locks; the holes of a key are under one of them.
const SHARDS: usize = 1_024;
/// Approximate maximum of needed holes in all. Above it the run ends with an error.
const MOST: usize = 1 << 20;
/// Holes under one lock that are kept without a sweep.
const FEW: usize = 64;
/// Start time of a caller without a call.
const NEVER: u64 = u64::MAX;

/// Exclusive bounds of numbers of a key that were not received, and the time at which a number
/// above them was first received.
#[derive(Clone, Copy)]
struct Hole {
    key: u32,
    low: u64,
    high: u64,
    made: u64,
}

/// Holes of the keys that share one lock.
#[derive(Default)]
struct Shard {
    holes: Vec<Hole>,
    /// Number of holes, above FEW, at which the next sweep runs.
    sweep_at: usize,
    /// Number of holes after the last sweep.
    counted: usize,
}

/// All holes, and the start times of the calls in flight.
pub(super) struct Holes {
    shards: Box<[Mutex<Shard>]>,
    swept: Box<Swept>,
    callers: Box<[Caller]>,
}

/// State that sweeps write. It has a cache line of its own, because the neighboring data is read
/// for each number.
#[derive(Default)]
#[repr(align(64))]
struct Swept {
    /// Sum of the holes after the last sweep of each shard.
    count: AtomicUsize,
    /// Earliest start time that some sweep found.
    oldest: AtomicU64,
}

/// Start time of a caller: no later than the begin of its call in flight. On a cache line of its
/// own.
#[repr(align(64))]
struct Caller(AtomicU64);

/// Locked holes of one key. The lock is shared with other keys.
pub(super) struct OfKey<'a> {
    key: u32,
    shard: MutexGuard<'a, Shard>,
    holes: &'a Holes,
}

/// Result of filling a hole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filled {
    Yes,
    /// The call began after this number above the hole had been received.
    Late(u64),
    /// No hole has the whole range.
    No,
}

/// Error: there are too many needed holes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Holes {
    /// Creates a tracker for so many callers, each with one call in flight at a time.
    pub(super) fn new(callers: usize) -> Holes {
        Holes {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            swept: Box::default(),
            callers: (0..callers).map(|_| Caller(AtomicU64::new(0))).collect(),
        }
    }

    /// Notes that a caller's call begins at `begin`, when its last one ended or the run began.
    pub(super) fn follow(&self, caller: usize, begin: u64) {
        // Release: after all numbers of its last call were taken.
        self.callers[caller].0.store(begin, Release);
    }

    /// Notes that a caller's call begins now, possibly after a rest. Returns the begin.
    pub(super) fn begin(&self, caller: usize, clock: impl FnOnce() -> u64) -> u64 {
        self.callers[caller].0.store(0, Relaxed);
        fence(SeqCst);
        let begin = clock();
        self.callers[caller].0.store(begin, Release);
        begin
    }

    /// Notes that a caller has no call in flight.
    pub(super) fn rest(&self, caller: usize) {
        self.callers[caller].0.store(NEVER, Release);
    }

    /// Locks a key's holes.
    pub(super) fn lock(&self, key: u32) -> OfKey<'_> {
        OfKey {
            key,
            shard: self.shards[key as usize % SHARDS].lock(),
            holes: self,
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.lock().holes.len()).sum()
    }
}

impl OfKey<'_> {
    /// Adds the numbers between `low` and `high`, which a call skipped that was answered at
    /// `made`.
    ///
    /// # Errors
    /// There are too many needed holes.
    pub(super) fn add(mut self, low: u64, high: u64, made: u64) -> Result<(), TooMany> {
        let key = self.key;
        let holes = &mut self.shard.holes;
        holes.push(Hole {
            key,
            low,
            high,
            made,
        });
        if self.shard.holes.len() < FEW.max(self.shard.sweep_at) {
            return Ok(());
        }
        self.sweep()
    }

    /// Drops the holes under this lock that no call needs.
    fn sweep(&mut self) -> Result<(), TooMany> {
        let Swept { count, oldest } = &*self.holes.swept;
        let shard = &mut *self.shard;
        let many = shard.holes.len() / 2;
        let bound = oldest.load(Relaxed);
        shard.holes.retain(|hole| hole.made > bound);
        if shard.holes.len() > many {
            // After locking: all holes of this shard were made before this fence.
            fence(SeqCst);
            let callers = self.holes.callers.iter();
            let begun = callers.map(|caller| caller.0.load(Acquire));
            let bound = begun.min().unwrap_or(NEVER);
            shard.holes.retain(|hole| hole.made > bound);
            // Without a call in flight it is no bound of later calls.
            if bound != NEVER {
                oldest.fetch_max(bound, Relaxed);
            }
        }
        let left = shard.holes.len();
        count.fetch_add(left, Relaxed);
        let all = count.fetch_sub(shard.counted, Relaxed) - shard.counted;
        shard.counted = left;
        shard.sweep_at = 2 * left;
        if all > MOST { Err(TooMany) } else { Ok(()) }
    }

    /// Fills a part of one hole with a range that a call returned that began at `begin`.
    pub(super) fn fill(&mut self, first: u64, last: u64, stride: u64, begin: u64) -> Filled {
        let holes = &mut self.shard.holes;
        let has = |hole: &Hole| hole.key == self.key && hole.low < first && last < hole.high;
        let Some(at) = holes.iter().position(has) else {
            return Filled::No;
        };
        if holes[at].made <= begin {
            return Filled::Late(holes[at].high);
        }
        let hole = holes.swap_remove(at);
        let rest = [(hole.low, first), (last, hole.high)];
        let rest = rest.into_iter().filter(|(low, high)| low + stride < *high);
        holes.extend(rest.map(|(low, high)| Hole { low, high, ..hole }));
        Filled::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the n-th key of the first shard.
    fn key(n: usize) -> u32 {
        (n * SHARDS) as u32
    }

    /// Makes holes at the time `made` until the last of them starts a sweep.
    fn many(holes: &Holes, from: usize, made: u64) {
        let left = {
            let shard = &holes.lock(key(0)).shard;
            FEW.max(shard.sweep_at) - shard.holes.len()
        };
        for n in from..from + left {
            assert_eq!(holes.lock(key(n)).add(1, 5, made), Ok(()));
        }
    }

    #[test]
    fn holes_go_when_no_call_is_left_that_began_before_them() {
        let holes = Holes::new(3);
        many(&holes, 0, 10);
        assert_eq!(holes.count(), FEW, "nobody has told yet when they began");
        holes.follow(0, 9);
        holes.follow(1, 20);
        holes.rest(2);
        many(&holes, FEW, 19);
        assert_eq!(holes.count(), 2 * FEW, "the first call may fill them");
        let fill = |n, begin| holes.lock(key(n)).fill(2, 2, 1, begin);
        assert_eq!(fill(7, 9), Filled::Yes);
        assert_eq!(fill(7, 9), Filled::No, "filled");
        assert_eq!(fill(8, 10), Filled::Late(5));
        holes.follow(0, 19);
        assert_eq!(holes.begin(2, || 30), 30);
        many(&holes, 2 * FEW, 20);
        let left = holes.count();
        assert!((1..=2 * FEW).contains(&left), "those of 20 only: {left}");
        assert_eq!(fill(8, 9), Filled::No, "dropped");
        assert_eq!(fill(2 * FEW, 19), Filled::Yes);
        (0..3).for_each(|caller| holes.rest(caller));
        many(&holes, 6 * FEW, 40);
        assert_eq!(holes.count(), 0, "nobody is in flight");
    }

    #[test]
    fn too_many_of_use_are_told() {
        let holes = Holes::new(1);
        holes.follow(0, 1);
        let told = (0..4 * MOST).find(|n| holes.lock(*n as u32).add(1, 5, 2).is_err());
        let told = told.unwrap();
        assert!(told >= MOST, "{told}");
    }
}
