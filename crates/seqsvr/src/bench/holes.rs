//! Numbers that were passed over: only a call in flight can still bring them.
//!
//! A hole is made when a call brings a number that is not the next of its key. It is of use only to
//! calls that had begun by then, for to later ones all of it is out of order. So each hole has the time
//! at which it was made and each call the time at which it began, both counted in holes made; what is
//! older than every call in flight is dropped whenever there are many.
//!
//! Invariant: no hole is dropped while a call is in flight that looked at its key before it was made.
//! Such a call may have noted its beginning before the hole (then its time is less than the hole's, and
//! the hole stays), or not noted it yet when the oldest call was looked for: but then it looks at the
//! key after that, hence after the hole was made. The two fences put "noted, then looked at the key"
//! and "made, then looked for notes" into one order.

use std::collections::HashMap;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};

use parking_lot::{Mutex, MutexGuard};

/// Locks; the holes of a key are under one of them.
const SHARDS: usize = 256;
/// Most holes in all.
const MOST: usize = 1 << 20;
/// So many are always kept, whether of use or not.
const FEW: usize = 1 << 14;
/// When a caller without a call began.
const NEVER: u64 = u64::MAX;

/// Exclusive bounds of numbers not received, and when that was noted.
#[derive(Clone, Copy)]
struct Hole {
    low: u64,
    high: u64,
    made: u64,
}

/// Those of some keys.
type Shard = HashMap<u32, Vec<Hole>>;

/// All holes, and since when calls are in flight.
pub(super) struct Holes {
    shards: Box<[Mutex<Shard>]>,
    count: AtomicUsize,
    /// Holes made so far: the time.
    made: AtomicU64,
    /// With how many the useless ones are looked for.
    sweep_at: AtomicUsize,
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
            count: AtomicUsize::new(0),
            made: AtomicU64::new(0),
            sweep_at: AtomicUsize::new(FEW),
            callers: (0..callers)
                .map(|_| Caller(AtomicU64::new(NEVER)))
                .collect(),
        }
    }

    /// A caller's call begins; it looks at its keys after this.
    pub(super) fn begin(&self, caller: usize) {
        self.callers[caller]
            .0
            .store(self.made.load(Relaxed), Relaxed);
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

    /// Drops what is of no use if there are many. No key's holes may be locked by the caller.
    pub(super) fn sweep(&self) -> Result<(), TooMany> {
        let at = self.sweep_at.load(Relaxed);
        // One at a time: who comes meanwhile sees a greater bound.
        let mine = self.count.load(Relaxed) >= at
            && self
                .sweep_at
                .compare_exchange(at, usize::MAX, Relaxed, Relaxed)
                .is_ok();
        if !mine {
            return Ok(());
        }
        for shard in &self.shards {
            let mut shard = shard.lock();
            // After locking: whatever is in there was made before this.
            fence(SeqCst);
            let oldest = self
                .callers
                .iter()
                .map(|caller| caller.0.load(Relaxed))
                .min();
            let oldest = oldest.unwrap_or(NEVER);
            shard.retain(|_, of_key| {
                let before = of_key.len();
                of_key.retain(|hole| hole.made > oldest);
                self.count.fetch_sub(before - of_key.len(), Relaxed);
                !of_key.is_empty()
            });
        }
        let left = self.count.load(Relaxed);
        self.sweep_at
            .store((2 * left).clamp(FEW, MOST + 1), Relaxed);
        if left > MOST { Err(TooMany) } else { Ok(()) }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }
}

impl OfKey<'_> {
    /// Notes that everything between these was passed over.
    pub(super) fn add(&mut self, low: u64, high: u64) {
        let made = self.holes.made.fetch_add(1, Relaxed) + 1;
        let hole = Hole { low, high, made };
        self.shard.entry(self.key).or_default().push(hole);
        self.holes.count.fetch_add(1, Relaxed);
    }

    /// Fills a part of one hole; false: no hole has all of it.
    pub(super) fn fill(&mut self, first: u64, last: u64, stride: u64) -> bool {
        let Some(of_key) = self.shard.get_mut(&self.key) else {
            return false;
        };
        let Some(at) = of_key
            .iter()
            .position(|hole| hole.low < first && last < hole.high)
        else {
            return false;
        };
        let before = of_key.len();
        let Hole { low, high, made } = of_key.swap_remove(at);
        let rest = [(low, first), (last, high)];
        let rest = rest.into_iter().filter(|(low, high)| low + stride < *high);
        of_key.extend(rest.map(|(low, high)| Hole { low, high, made }));
        let now = of_key.len();
        if now == 0 {
            self.shard.remove(&self.key);
        }
        self.holes.count.fetch_add(now, Relaxed);
        self.holes.count.fetch_sub(before, Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_go_when_no_call_is_left_that_began_before_them() {
        let holes = Holes::new(3);
        let many = |from: u32| (from..from + FEW as u32).for_each(|key| holes.lock(key).add(1, 5));
        holes.begin(0);
        many(0);
        holes.begin(1);
        assert_eq!(holes.sweep(), Ok(()));
        assert_eq!(holes.count(), FEW, "the first call may fill them");
        assert!(holes.lock(7).fill(2, 2, 1));
        assert!(!holes.lock(7).fill(2, 2, 1), "filled");
        holes.end(0);
        many(FEW as u32);
        assert_eq!(holes.sweep(), Ok(()));
        assert_eq!(holes.count(), FEW, "of the second call's are left");
        assert!(!holes.lock(8).fill(2, 2, 1), "too late");
        assert!(holes.lock(FEW as u32).fill(2, 2, 1));
        holes.end(1);
        many(2 * FEW as u32);
        assert_eq!(holes.sweep(), Ok(()));
        assert_eq!(holes.count(), 0, "nobody is in flight");
    }

    #[test]
    fn too_many_of_use_are_told() {
        let holes = Holes::new(1);
        holes.begin(0);
        let told = (0..=MOST as u32).find(|key| {
            holes.lock(*key).add(1, 5);
            holes.sweep().is_err()
        });
        assert_eq!(told, Some(MOST as u32));
    }
}
