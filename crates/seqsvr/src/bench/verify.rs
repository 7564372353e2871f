//! Verifies numbers as they come, from all callers of this process.
//!
//! Invariant: a range is accepted only if all of it is greater than every number of its key that had
//! been received when its call began, and none of it was received before. For the latter each key
//! has the greatest number received, and holes: what was passed over by calls that overtook others,
//! or given to nobody. A range above the greatest is new; one below must lie in a hole, and fills it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use parking_lot::Mutex;

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
                "too many numbers of these keys go to others: use a namespace that nobody else uses",
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
    greatest: Box<[AtomicU64]>,
    holes: Box<[Mutex<Holes>]>,
    count: AtomicUsize,
}

impl Verifier {
    /// Of so many keys; takes 8 bytes each.
    pub(crate) fn new(keys: u32) -> Verifier {
        Verifier {
            greatest: (0..keys).map(|_| AtomicU64::new(0)).collect(),
            holes: (0..SHARDS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
        }
    }

    /// Greatest number received; ask before the call begins.
    pub(crate) fn greatest(&self, key: u32) -> u64 {
        self.greatest[key as usize].load(Acquire)
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
        let greatest = &self.greatest[key as usize];
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
                Ok(_) if seen + stride < first => {
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
        assert_eq!(all.take(0, 0, range(1, 1)), Ok(()));
        // Three calls begin now; the last one answered is the first one served.
        assert_eq!(all.greatest(0), 1);
        assert_eq!(all.take(0, 1, range(4, 5)), Ok(()));
        assert_eq!(all.take(0, 1, range(3, 3)), Ok(()));
        assert_eq!(all.take(0, 1, range(2, 2)), Ok(()));
        assert_eq!(all.greatest(0), 5);
        assert_eq!(all.take(0, 5, range(1_000, 1_000)), Ok(()), "a jump");
        assert_eq!(all.greatest(1), 0, "of another key");
    }

    #[test]
    fn twice_is_seen_whoever_was_first() {
        let all = Verifier::new(1);
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
                        let before = all.greatest(0);
                        let n = source.fetch_add(1, Relaxed);
                        assert_eq!(all.take(0, before, range(n, n)), Ok(()));
                    }
                });
            }
        });
        assert_eq!(all.greatest(0), 4 * EACH);
        let again = range(EACH, EACH);
        assert_eq!(all.take(0, 0, again), Err(Wrong::Twice { range: again }));
    }
}
