//! Right and wrong ranges: in order, overtaken, and from many threads.

use super::*;

fn range(first: u64, last: u64) -> Range {
    Range {
        first,
        last,
        stride: 1,
    }
}

fn span(begin: u64, end: u64) -> Span {
    Span { begin, end }
}

#[test]
fn in_turn_and_overtaken() {
    let all = Verifier::new(2, 3);
    assert_eq!(all.greatest(0), 0);
    assert_eq!(all.take(0, span(1, 2), range(1, 1)), Ok(()));
    // Three calls begin at 2; the first one served is answered last.
    (0..3).for_each(|caller| all.follow(caller, 2));
    assert_eq!(all.take(0, span(2, 3), range(4, 5)), Ok(()));
    assert_eq!(all.take(0, span(2, 4), range(3, 3)), Ok(()));
    assert_eq!(all.take(0, span(2, 5), range(2, 2)), Ok(()));
    assert_eq!(all.greatest(0), 5);
    assert_eq!(all.holes.count(), 0, "all are filled");
    let jump = all.take(0, span(5, 6), range(1_000, 1_000));
    assert_eq!(jump, Ok(()));
    assert_eq!(all.greatest(1), 0, "of another key");
    assert_eq!(all.holes.count(), 1);
}

#[test]
fn twice_is_seen_whoever_was_first() {
    let all = Verifier::new(1, 4);
    let take = |range| all.take(0, span(0, 1), range);
    take(range(1, 5)).unwrap();
    let twice = |range| Err(Wrong::Twice { range });
    assert_eq!(take(range(5, 5)), twice(range(5, 5)));
    assert_eq!(take(range(4, 6)), twice(range(4, 6)));
    take(range(9, 9)).unwrap();
    assert_eq!(take(range(6, 9)), twice(range(6, 9)));
    take(range(7, 7)).unwrap();
    assert_eq!(take(range(7, 7)), twice(range(7, 7)));
    take(range(6, 6)).unwrap();
    take(range(8, 8)).unwrap();
    assert_eq!(take(range(8, 8)), twice(range(8, 8)));
}

/// The number 6 is received at 10. A number of the hole between 1 and 6 may be returned to calls
/// that began before 10, and to no other: not to the caller's next call, which begins at 10.
#[test]
fn order_is_seen() {
    for (begin, ok) in [(9, true), (10, false), (11, false)] {
        let all = Verifier::new(1, 4);
        all.take(0, span(0, 1), range(1, 1)).unwrap();
        all.take(0, span(5, 10), range(6, 6)).unwrap();
        // Filling a part of the hole does not change its age.
        all.take(0, span(5, 12), range(4, 4)).unwrap();
        for n in [2, 3, 5] {
            let late = Wrong::Order {
                range: range(n, n),
                before: if n == 5 { 6 } else { 4 },
            };
            let expected = if ok { Ok(()) } else { Err(late) };
            assert_eq!(all.take(0, span(begin, 20), range(n, n)), expected);
        }
    }
}

#[test]
fn strides() {
    let all = Verifier::new(1, 4);
    let of = |first, last| Range {
        first,
        last,
        stride: 3,
    };
    let take = |range| all.take(0, span(0, 1), range);
    take(of(2, 2)).unwrap();
    take(of(11, 14)).unwrap();
    take(of(5, 8)).unwrap();
    assert!(take(of(8, 8)).is_err());
    assert_eq!(all.holes.count(), 0, "no hole is left");
}

#[test]
fn from_many_threads_at_once() {
    const EACH: u64 = 20_000;
    let (all, source) = (Verifier::new(1, 4), AtomicU64::new(1));
    let time = AtomicU64::new(1);
    let clock = || time.fetch_add(1, AcqRel);
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let (all, source) = (&all, &source);
            scope.spawn(move || {
                let mut now = clock();
                for round in 0..EACH {
                    // Some callers rest, others continue at once.
                    let begin = match (caller, round % 3) {
                        (0, _) | (_, 0) => all.begin(caller, clock),
                        _ => {
                            all.follow(caller, now);
                            now
                        }
                    };
                    let n = source.fetch_add(1, Relaxed);
                    now = clock();
                    let call = Span { begin, end: now };
                    assert_eq!(all.take(0, call, range(n, n)), Ok(()));
                    if caller == 0 || round % 3 == 2 {
                        all.rest(caller);
                    }
                }
            });
        }
    });
    assert_eq!(all.greatest(0), 4 * EACH);
    assert_eq!(all.holes.count(), 0, "a hole is left");
    let again = range(EACH, EACH);
    let call = span(0, u64::MAX);
    assert_eq!(all.take(0, call, again), Err(Wrong::Twice { range: again }));
}
