//! Numbers that were passed over: only a call in flight can still bring them.
//!
//! A hole is made when a call brings a number that is not the next of its key; the first number of
//! a key of a cluster that served before makes one too, so this has to be cheap. It bears the time
//! at which that call was answered: the first time at which anything above the hole was received.
//! So a call that began later and brings a number of the hole is out of order, and a hole is of use
//! only to calls that began earlier: what is as old as the oldest call in flight is dropped when
//! there are many.
//!
//! Invariant: no hole is dropped while a call is in flight that began before it was made. While a
//! call is in flight its caller's note is no later than its beginning: between two calls that
//! follow each other at once the note of the first stays until that of the second takes its place,
//! and whoever rests in between and takes the note away puts down the earliest of times before they
//! read the clock. By the fences a sweep sees that note, or the clock is read after the sweep,
//! hence after its holes were made. So the earliest note that a sweep found stays a lower bound of
//! all to come, and sweeps make do with the last one that was found for as long as it lets them
//! drop most of their holes: the notes are those that callers write.

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

use parking_lot::{Mutex, MutexGuard};

/// Locks; the holes of a key are under one of them.
const SHARDS: usize = 1_024;
/// About the most holes of use in all.
const MOST: usize = 1 << 20;
/// So many under one lock are kept whether of use or not.
const FEW: usize = 64;
/// The note of a caller without a call.
const NEVER: u64 = u64::MAX;

/// Exclusive bounds of numbers of a key not received, and when a number above was first received.
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
    swept: Box<Swept>,
    callers: Box<[Caller]>,
}

/// What sweeps write. On a cache line of its own: what is beside is read for each number.
#[derive(Default)]
#[repr(align(64))]
struct Swept {
    /// Holes, as each shard last counted them.
    count: AtomicUsize,
    /// Some earliest note that was found.
    oldest: AtomicU64,
}

/// No later than when a caller's call in flight began. On a cache line of its own.
#[repr(align(64))]
struct Caller(AtomicU64);

/// The holes of one key, locked with others.
pub(super) struct OfKey<'a> {
    key: u32,
    shard: MutexGuard<'a, Shard>,
    holes: &'a Holes,
}

/// Whether a hole was filled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filled {
    Yes,
    /// The call began when this number above had been received.
    Late(u64),
    /// No hole has all of it.
    No,
}

/// There are too many holes of use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Holes {
    /// For so many callers, each with one call in flight at a time.
    pub(super) fn new(callers: usize) -> Holes {
        Holes {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            swept: Box::default(),
            callers: (0..callers).map(|_| Caller(AtomicU64::new(0))).collect(),
        }
    }

    /// A caller's call begins at this time, at which its last one ended or the run began.
    pub(super) fn follow(&self, caller: usize, begin: u64) {
        // After all that its last call brought was taken.
        self.callers[caller].0.store(begin, Release);
    }

    /// A caller's call begins now, maybe after a rest; tells when that is.
    pub(super) fn begin(&self, caller: usize, clock: impl FnOnce() -> u64) -> u64 {
        self.callers[caller].0.store(0, Relaxed);
        fence(SeqCst);
        let begin = clock();
        self.callers[caller].0.store(begin, Release);
        begin
    }

    /// A caller rests, or makes no more calls.
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
    /// Notes that everything between these was passed over by a call that was answered at `made`.
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

    /// Drops what is of no use under this lock.
    fn sweep(&mut self) -> Result<(), TooMany> {
        let Swept { count, oldest } = &*self.holes.swept;
        let shard = &mut *self.shard;
        let many = shard.holes.len() / 2;
        let bound = oldest.load(Relaxed);
        shard.holes.retain(|hole| hole.made > bound);
        if shard.holes.len() > many {
            // After locking: whatever is in there was made before this.
            fence(SeqCst);
            let callers = self.holes.callers.iter();
            let begun = callers.map(|caller| caller.0.load(Acquire));
            let bound = begun.min().unwrap_or(NEVER);
            shard.holes.retain(|hole| hole.made > bound);
            // With nobody in flight it is no bound of what begins later.
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

    /// Fills a part of one hole with what a call brought that began then.
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

    /// Of one shard.
    fn key(n: usize) -> u32 {
        (n * SHARDS) as u32
    }

    /// Makes holes at a time until a sweep is due, which the last of them brings about.
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
