//! Numbers that were passed over: only a call in flight can still bring them.
//!
//! A hole is made when a call brings a number that is not the next of its key; the first number of a
//! key of a cluster that served before makes one too, so this has to be cheap. A hole is of use only to
//! calls that had begun by then, for to later ones all of it is out of order. So each hole has the time
//! at which it was made and each call the time at which it began, and what is older than every call in
//! flight is dropped when there are many. Time moves with each such sweep.
//!
//! Invariant: no hole is dropped while a call is in flight that looked at its key before it was passed
//! over. Such a call had noted its time before it looked, and whoever passed over reads the time after
//! that: by the fences between, it reads no earlier one, and a hole as old as the oldest call stays. Or
//! the call had not noted its time yet when a sweep looked for the oldest: but then, by the fences, it
//! looks at the key after the hole was made.

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};

use parking_lot::{Mutex, MutexGuard};

/// Locks; the holes of a key are under one of them.
const SHARDS: usize = 1_024;
/// About the most holes of use in all.
const MOST: usize = 1 << 20;
/// So many under one lock are kept whether of use or not.
const FEW: usize = 512;
/// When a caller without a call began.
const NEVER: u64 = u64::MAX;

/// Exclusive bounds of numbers of a key not received, and when that was noted.
#[derive(Clone, Copy)]
struct Hole {
    key: u32,
    low: u64,
    high: u64,
    made: u64,
}

/// Those of some keys.
#[derive(Default)]
struct Shard {
    holes: Vec<Hole>,
    /// With how many the useless ones are looked for, beyond FEW.
    sweep_at: usize,
    /// How many there were after the last sweep.
    counted: usize,
}

/// All holes, and since when calls are in flight.
pub(super) struct Holes {
    shards: Box<[Mutex<Shard>]>,
    /// Sweeps so far.
    time: AtomicU64,
    /// Holes, as each shard last counted them.
    count: AtomicUsize,
    callers: Box<[Caller]>,
}

/// When a caller's call in flight began. On a cache line of its own.
#[repr(align(64))]
struct Caller(AtomicU64);

/// The holes of one key, locked with others.
pub(super) struct OfKey<'a> {
    key: u32,
    shard: MutexGuard<'a, Shard>,
    holes: &'a Holes,
}

/// There are too many holes of use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Holes {
    /// For so many callers, each with one call in flight at a time.
    pub(super) fn new(callers: usize) -> Holes {
        Holes {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            time: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            callers: (0..callers)
                .map(|_| Caller(AtomicU64::new(NEVER)))
                .collect(),
        }
    }

    /// A caller's call begins; it looks at its keys after this.
    pub(super) fn begin(&self, caller: usize) {
        self.callers[caller]
            .0
            .store(self.time.load(Relaxed), Relaxed);
        fence(SeqCst);
    }

    /// A caller's call has ended.
    pub(super) fn end(&self, caller: usize) {
        self.callers[caller].0.store(NEVER, Relaxed);
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
    /// Notes that everything between these was passed over, which is so already.
    pub(super) fn add(mut self, low: u64, high: u64) -> Result<(), TooMany> {
        // After passing over, before looking at the time.
        fence(SeqCst);
        self.shard.holes.push(Hole {
            key: self.key,
            low,
            high,
            made: self.holes.time.load(Relaxed),
        });
        if self.shard.holes.len() < FEW.max(self.shard.sweep_at) {
            return Ok(());
        }
        self.sweep()
    }

    /// Drops what is of no use under this lock.
    fn sweep(&mut self) -> Result<(), TooMany> {
        let Holes {
            time,
            count,
            callers,
            ..
        } = self.holes;
        // Calls that begin from now on are later than all of these.
        time.fetch_add(1, Relaxed);
        // After locking: whatever is in there was made before this.
        fence(SeqCst);
        let begun = callers.iter().map(|caller| caller.0.load(Relaxed));
        let oldest = begun.min().unwrap_or(NEVER);
        let shard = &mut *self.shard;
        shard.holes.retain(|hole| hole.made >= oldest);
        let left = shard.holes.len();
        count.fetch_add(left, Relaxed);
        let all = count.fetch_sub(shard.counted, Relaxed) - shard.counted;
        shard.counted = left;
        shard.sweep_at = 2 * left;
        if all > MOST { Err(TooMany) } else { Ok(()) }
    }

    /// Fills a part of one hole; false: no hole has all of it.
    pub(super) fn fill(&mut self, first: u64, last: u64, stride: u64) -> bool {
        let holes = &mut self.shard.holes;
        let has = |hole: &Hole| hole.key == self.key && hole.low < first && last < hole.high;
        let Some(at) = holes.iter().position(has) else {
            return false;
        };
        let hole = holes.swap_remove(at);
        let rest = [(hole.low, first), (last, hole.high)];
        let rest = rest.into_iter().filter(|(low, high)| low + stride < *high);
        holes.extend(rest.map(|(low, high)| Hole { low, high, ..hole }));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one shard.
    fn key(n: usize) -> u32 {
        (n * SHARDS) as u32
    }

    /// Makes holes until a sweep is due, which the last of them brings about.
    fn many(holes: &Holes, from: usize) {
        let left = {
            let shard = &holes.lock(key(0)).shard;
            FEW.max(shard.sweep_at) - shard.holes.len()
        };
        for n in from..from + left {
            assert_eq!(holes.lock(key(n)).add(1, 5), Ok(()));
        }
    }

    #[test]
    fn holes_go_when_no_call_is_left_that_began_before_them() {
        let holes = Holes::new(3);
        holes.begin(0);
        many(&holes, 0);
        assert_eq!(holes.count(), FEW, "the first call may fill them");
        holes.begin(1);
        assert!(holes.lock(key(7)).fill(2, 2, 1));
        assert!(!holes.lock(key(7)).fill(2, 2, 1), "filled");
        holes.end(0);
        many(&holes, FEW);
        assert_eq!(holes.count(), FEW, "those since the second call are left");
        assert!(!holes.lock(key(8)).fill(2, 2, 1), "too late");
        assert!(holes.lock(key(FEW)).fill(2, 2, 1));
        holes.end(1);
        many(&holes, 2 * FEW);
        assert_eq!(holes.count(), 0, "nobody is in flight");
    }

    #[test]
    fn too_many_of_use_are_told() {
        let holes = Holes::new(1);
        holes.begin(0);
        let told = (0..4 * MOST).find(|n| holes.lock(*n as u32).add(1, 5).is_err());
        let told = told.unwrap();
        assert!(told >= MOST, "{told}");
    }
}
