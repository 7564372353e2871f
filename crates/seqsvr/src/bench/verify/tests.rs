//! Ranges right and wrong, in turn, overtaken, and from many threads.

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
    let all = Verifier::new(2, 3);
    assert_eq!(all.greatest(0), 0);
    assert_eq!(all.take(0, 0, range(1, 1)), Ok(()));
    // Three calls begin now; the last one answered is the first one served.
    (0..3).for_each(|caller| all.begin(caller));
    assert_eq!(all.greatest(0), 1);
    assert_eq!(all.take(0, 1, range(4, 5)), Ok(()));
    assert_eq!(all.take(0, 1, range(3, 3)), Ok(()));
    assert_eq!(all.take(0, 1, range(2, 2)), Ok(()));
    assert_eq!(all.greatest(0), 5);
    assert_eq!(all.holes.count(), 0, "all are filled");
    assert_eq!(all.take(0, 5, range(1_000, 1_000)), Ok(()), "a jump");
    assert_eq!(all.greatest(1), 0, "of another key");
    assert_eq!(all.holes.count(), 1);
}

#[test]
fn twice_is_seen_whoever_was_first() {
    let all = Verifier::new(1, 4);
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
    let all = Verifier::new(1, 4);
    all.take(0, 0, range(3, 3)).unwrap();
    let (before, range) = (3, range(2, 2));
    assert_eq!(
        all.take(0, before, range),
        Err(Wrong::Order { range, before })
    );
}

#[test]
fn strides() {
    let all = Verifier::new(1, 4);
    let of = |first, last| Range {
        first,
        last,
        stride: 3,
    };
    all.take(0, 0, of(2, 2)).unwrap();
    all.take(0, 2, of(11, 14)).unwrap();
    all.take(0, 2, of(5, 8)).unwrap();
    assert!(all.take(0, 2, of(8, 8)).is_err());
    assert_eq!(all.holes.count(), 0, "no hole is left");
}

#[test]
fn from_many_threads_at_once() {
    const EACH: u64 = 20_000;
    let (all, source) = (Verifier::new(1, 4), AtomicU64::new(1));
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let (all, source) = (&all, &source);
            scope.spawn(move || {
                for _ in 0..EACH {
                    all.begin(caller);
                    let before = all.greatest(0);
                    let n = source.fetch_add(1, Relaxed);
                    assert_eq!(all.take(0, before, range(n, n)), Ok(()));
                    all.end(caller);
                }
            });
        }
    });
    assert_eq!(all.greatest(0), 4 * EACH);
    assert_eq!(all.holes.count(), 0, "a hole is left");
    let again = range(EACH, EACH);
    assert_eq!(all.take(0, 0, again), Err(Wrong::Twice { range: again }));
}
