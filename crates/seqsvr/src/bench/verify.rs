//! Verifies numbers as they come, from all callers of this process.
//!
//! Invariant: a range is accepted only if all of it is greater than every number of its key that had
//! been received when its call began, and none of it was received before. For the latter each key
//! has the greatest number received, and holes: what was passed over by calls that overtook others,
//! or given to nobody. A range above the greatest is new; one below must lie in a hole, and fills it.
//!
//! A hole is of use only to calls that had begun when it was made, for to later ones all of it is out
//! of order. So none is noted when no other call of the key is in flight, and a key's holes go with the
//! last call in flight.

use std::collections::HashMap;
use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use parking_lot::Mutex;

/// Set in `calls` under the lock of the key's holes; without it there are none.
const HOLED: u32 = 1 << 31;
/// Locks of holes; a key's holes are under one of them.
const SHARDS: usize = 256;
/// Most holes in all.
const HOLES_MAX: usize = 1 << 20;

/// Numbers of one item: first, first + stride, … last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) stride: u64,
}

/// What is wrong with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Not above a number received before the call began.
    Order { range: Range, before: u64 },
    /// Some of it was received already.
    Twice { range: Range },
    /// Not wrong by itself, but nothing can be verified any more.
    Holes,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Order { range, before } => write!(
                f,
                "out of order: {} came to a call that began after {before} had been received",
                range.first
            ),
            Wrong::Twice { range } => {
                write!(f, "given twice: {} to {}", range.first, range.last)
            }
            Wrong::Holes => f.write_str(
                "too many numbers of these keys go to others while calls are in flight: use a namespace that nobody else uses",
            ),
        }
    }
}

/// Exclusive bounds of numbers not received.
type Hole = (u64, u64);
/// Those of some keys.
type Holes = HashMap<u32, Vec<Hole>>;

/// What was received of each key.
pub(crate) struct Verifier {
    keys: Box<[Received]>,
    holes: Box<[Mutex<Holes>]>,
    count: AtomicUsize,
}

struct Received {
    greatest: AtomicU64,
    /// Calls in flight, and whether there are holes ([`HOLED`]).
    calls: AtomicU32,
}

impl Verifier {
    /// Of so many keys; takes 16 bytes each.
    pub(crate) fn new(keys: u32) -> Verifier {
        let received = |_| Received {
            greatest: AtomicU64::new(0),
            calls: AtomicU32::new(0),
        };
        Verifier {
            keys: (0..keys).map(received).collect(),
            holes: (0..SHARDS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
        }
    }

    /// Fetches what is known of these keys all at once: otherwise each `begin` waits for its own.
    pub(crate) fn fetch(&self, keys: impl Iterator<Item = u32>) {
        let greatest = keys.map(|key| self.keys[key as usize].greatest.load(Relaxed));
        black_box(greatest.fold(0, u64::wrapping_add));
    }

    /// A call begins; gives the greatest number received by now.
    pub(crate) fn begin(&self, key: u32) -> u64 {
        let key = &self.keys[key as usize];
        key.calls.fetch_add(1, AcqRel);
        key.greatest.load(Acquire)
    }

    /// A call ended, with an answer that was taken before or without one.
    pub(crate) fn end(&self, key: u32) {
        let calls = &self.keys[key as usize].calls;
        if calls.fetch_sub(1, AcqRel) != HOLED | 1 {
            return;
        }
        let mut holes = self.holes[key as usize % SHARDS].lock();
        // Calls that began since may have made holes for each other.
        let last = calls.compare_exchange(HOLED, 0, AcqRel, Acquire).is_ok();
        if last && let Some(gone) = holes.remove(&key) {
            self.count.fetch_sub(gone.len(), Relaxed);
        }
    }

    /// Takes what a call received that began when the greatest was `before`.
    pub(crate) fn take(&self, key: u32, before: u64, range: Range) -> Result<(), Wrong> {
        let Range {
            first,
            last,
            stride,
        } = range;
        if first <= before {
            return Err(Wrong::Order { range, before });
        }
        let Received { greatest, calls } = &self.keys[key as usize];
        let next = before + stride == first;
        if next
            && greatest
                .compare_exchange(before, last, AcqRel, Acquire)
                .is_ok()
        {
            return Ok(());
        }
        // Whoever passes over others notes the hole before they can look for it.
        let mut holes = self.holes[key as usize % SHARDS].lock();
        let mut seen = greatest.load(Acquire);
        while seen < first {
            match greatest.compare_exchange(seen, last, AcqRel, Acquire) {
                // Written, so that a call not counted here sees the number just received.
                Ok(_) if seen + stride < first && calls.fetch_add(0, AcqRel) & !HOLED > 1 => {
                    calls.fetch_or(HOLED, AcqRel);
                    holes.entry(key).or_default().push((seen, first));
                    let all = self.count.fetch_add(1, Relaxed);
                    return if all < HOLES_MAX {
                        Ok(())
                    } else {
                        Err(Wrong::Holes)
                    };
                }
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        let within = |(low, high): &Hole| *low < first && last < *high;
        let found = holes.get_mut(&key).and_then(|of_key| {
            let at = of_key.iter().position(within)?;
            Some((of_key, at))
        });
        let Some((of_key, at)) = found else {
            return Err(Wrong::Twice { range });
        };
        let before = of_key.len();
        let (low, high) = of_key.swap_remove(at);
        let rest = [(low, first), (last, high)];
        of_key.extend(rest.into_iter().filter(|(low, high)| low + stride < *high));
        let now = of_key.len();
        if now == 0 {
            holes.remove(&key);
        }
        if now > before {
            self.count.fetch_add(1, Relaxed);
        } else {
            self.count.fetch_sub(before - now, Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, last: u64) -> Range {
        Range {
            first,
            last,
            stride: 1,
        }
    }

    #[test]
    fn in_turn_and_overtaken() {
        let all = Verifier::new(2);
        assert_eq!(all.begin(0), 0);
        assert_eq!(all.take(0, 0, range(1, 1)), Ok(()));
        all.end(0);
        // Three calls begin now; the last one answered is the first one served.
        assert_eq!([(); 3].map(|()| all.begin(0)), [1; 3]);
        assert_eq!(all.take(0, 1, range(4, 5)), Ok(()));
        assert_eq!(all.take(0, 1, range(3, 3)), Ok(()));
        assert_eq!(all.take(0, 1, range(2, 2)), Ok(()));
        assert_eq!(all.begin(0), 5);
        assert_eq!(all.take(0, 5, range(1_000, 1_000)), Ok(()), "a jump");
        assert_eq!(all.begin(1), 0, "of another key");
        assert_eq!(all.count.load(Relaxed), 1, "others are in flight");
        (0..4).for_each(|_| all.end(0));
        assert_eq!(all.count.load(Relaxed), 0);
        // Alone, a call leaves no hole: nobody can fill it any more.
        assert_eq!(all.begin(0), 1_000);
        assert_eq!(all.take(0, 1_000, range(5_000, 5_000)), Ok(()));
        assert_eq!(all.count.load(Relaxed), 0);
    }

    #[test]
    fn twice_is_seen_whoever_was_first() {
        let all = Verifier::new(1);
        assert_eq!([(); 2].map(|()| all.begin(0)), [0; 2]);
        all.take(0, 0, range(1, 5)).unwrap();
        let twice = |range| Err(Wrong::Twice { range });
        assert_eq!(all.take(0, 0, range(5, 5)), twice(range(5, 5)));
        assert_eq!(all.take(0, 0, range(4, 6)), twice(range(4, 6)));
        all.take(0, 5, range(9, 9)).unwrap();
        assert_eq!(all.take(0, 5, range(6, 9)), twice(range(6, 9)));
        all.take(0, 5, range(7, 7)).unwrap();
        assert_eq!(all.take(0, 5, range(7, 7)), twice(range(7, 7)));
        all.take(0, 5, range(6, 6)).unwrap();
        all.take(0, 5, range(8, 8)).unwrap();
        assert_eq!(all.take(0, 5, range(8, 8)), twice(range(8, 8)));
    }

    #[test]
    fn order_is_seen() {
        let all = Verifier::new(1);
        all.take(0, 0, range(3, 3)).unwrap();
        let (before, range) = (3, range(2, 2));
        assert_eq!(
            all.take(0, before, range),
            Err(Wrong::Order { range, before })
        );
    }

    #[test]
    fn strides() {
        let all = Verifier::new(1);
        let of = |first, last| Range {
            first,
            last,
            stride: 3,
        };
        assert_eq!([(); 2].map(|()| all.begin(0)), [0; 2]);
        all.take(0, 0, of(2, 2)).unwrap();
        all.take(0, 2, of(11, 14)).unwrap();
        all.take(0, 2, of(5, 8)).unwrap();
        assert!(all.take(0, 2, of(8, 8)).is_err());
        assert!(
            all.holes.iter().all(|h| h.lock().is_empty()),
            "no hole is left"
        );
    }

    #[test]
    fn from_many_threads_at_once() {
        const EACH: u64 = 20_000;
        let (all, source) = (Verifier::new(1), AtomicU64::new(1));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let before = all.begin(0);
                        let n = source.fetch_add(1, Relaxed);
                        assert_eq!(all.take(0, before, range(n, n)), Ok(()));
                        all.end(0);
                    }
                });
            }
        });
        assert_eq!(all.begin(0), 4 * EACH);
        assert_eq!(all.count.load(Relaxed), 0, "a hole is left");
        let again = range(EACH, EACH);
        assert_eq!(all.take(0, 0, again), Err(Wrong::Twice { range: again }));
    }
}
