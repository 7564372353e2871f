//! Right and wrong ranges: in order, overtaken, and from many threads.

use super::*;

fn range(first: u64, last: u64) -> StridedRange {
    StridedRange {
        first,
        last,
        stride: 1,
    }
}

fn span(begin: u64, end: u64) -> CallSpan {
    CallSpan { begin, end }
}

#[test]
fn verifier_accepts_ranges_in_order_and_overtaken() {
    let verifier = Verifier::new(2, 3);
    assert_eq!(verifier.greatest_received(0), 0);
    assert_eq!(verifier.accept_range(0, span(1, 2), range(1, 1)), Ok(()));
    // Three calls begin at 2; the first one served is answered last.
    (0..3).for_each(|caller| verifier.gaps.note_begin_at(caller, 2));
    assert_eq!(verifier.accept_range(0, span(2, 3), range(4, 5)), Ok(()));
    assert_eq!(verifier.accept_range(0, span(2, 4), range(3, 3)), Ok(()));
    assert_eq!(verifier.accept_range(0, span(2, 5), range(2, 2)), Ok(()));
    assert_eq!(verifier.greatest_received(0), 5);
    assert_eq!(verifier.gaps.gap_count(), 0, "all are filled");
    let jump = verifier.accept_range(0, span(5, 6), range(1_000, 1_000));
    assert_eq!(jump, Ok(()));
    assert_eq!(verifier.greatest_received(1), 0, "of another key");
    assert_eq!(verifier.gaps.gap_count(), 1);
}

#[test]
fn verifier_rejects_numbers_received_before() {
    let verifier = Verifier::new(1, 4);
    let accept = |range| verifier.accept_range(0, span(0, 1), range);
    accept(range(1, 5)).unwrap();
    let duplicate = |range| Err(VerifyError::Duplicate { range });
    assert_eq!(accept(range(5, 5)), duplicate(range(5, 5)));
    assert_eq!(accept(range(4, 6)), duplicate(range(4, 6)));
    accept(range(9, 9)).unwrap();
    assert_eq!(accept(range(6, 9)), duplicate(range(6, 9)));
    accept(range(7, 7)).unwrap();
    assert_eq!(accept(range(7, 7)), duplicate(range(7, 7)));
    accept(range(6, 6)).unwrap();
    accept(range(8, 8)).unwrap();
    assert_eq!(accept(range(8, 8)), duplicate(range(8, 8)));
}

/// The number 6 is received at 10. A number of the gap between 1 and 6 may be returned to calls
/// that began before 10, and to no other: not to the caller's next call, which begins at 10.
#[test]
fn verifier_rejects_ranges_of_later_calls() {
    for (begin, is_accepted) in [(9, true), (10, false), (11, false)] {
        let verifier = Verifier::new(1, 4);
        verifier.accept_range(0, span(0, 1), range(1, 1)).unwrap();
        verifier.accept_range(0, span(5, 10), range(6, 6)).unwrap();
        // Filling a part of the gap does not change its age.
        verifier.accept_range(0, span(5, 12), range(4, 4)).unwrap();
        for n in [2, 3, 5] {
            let out_of_order = VerifyError::OutOfOrder {
                range: range(n, n),
                before: if n == 5 { 6 } else { 4 },
            };
            let expected = if is_accepted {
                Ok(())
            } else {
                Err(out_of_order)
            };
            assert_eq!(
                verifier.accept_range(0, span(begin, 20), range(n, n)),
                expected
            );
        }
    }
}

#[test]
fn verifier_accepts_ranges_with_a_stride() {
    let verifier = Verifier::new(1, 4);
    let stride_3 = |first, last| StridedRange {
        first,
        last,
        stride: 3,
    };
    let accept = |range| verifier.accept_range(0, span(0, 1), range);
    accept(stride_3(2, 2)).unwrap();
    accept(stride_3(11, 14)).unwrap();
    accept(stride_3(5, 8)).unwrap();
    assert!(accept(stride_3(8, 8)).is_err());
    assert_eq!(verifier.gaps.gap_count(), 0, "no gap is left");
}

#[test]
fn verifier_accepts_ranges_of_concurrent_callers() {
    const RANGES_PER_CALLER: u64 = 20_000;
    let (verifier, source) = (Verifier::new(1, 4), AtomicU64::new(1));
    let time = AtomicU64::new(1);
    let clock = || time.fetch_add(1, AcqRel);
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let (verifier, source) = (&verifier, &source);
            scope.spawn(move || {
                let mut now = clock();
                for round in 0..RANGES_PER_CALLER {
                    // Some callers rest, others continue at once.
                    let begin = match (caller, round % 3) {
                        (0, _) | (_, 0) => verifier.gaps.note_begin_now(caller, clock),
                        _ => {
                            verifier.gaps.note_begin_at(caller, now);
                            now
                        }
                    };
                    let n = source.fetch_add(1, Relaxed);
                    now = clock();
                    let call = CallSpan { begin, end: now };
                    assert_eq!(verifier.accept_range(0, call, range(n, n)), Ok(()));
                    if caller == 0 || round % 3 == 2 {
                        verifier.gaps.note_rest(caller);
                    }
                }
            });
        }
    });
    assert_eq!(verifier.greatest_received(0), 4 * RANGES_PER_CALLER);
    assert_eq!(verifier.gaps.gap_count(), 0, "a gap is left");
    let again = range(RANGES_PER_CALLER, RANGES_PER_CALLER);
    let call = span(0, u64::MAX);
    assert_eq!(
        verifier.accept_range(0, call, again),
        Err(VerifyError::Duplicate { range: again })
    );
}
