//! Each edge of the rules by name.

use super::*;

const KEY: Key<'_> = Key::Dense(5);

#[test]
fn counts_from_first_and_stops_at_the_window() {
    let section = Section::dense(open(100, 101, 1, 104), 10);
    assert_eq!(section.next(KEY, n(1)), range(101, 101));
    assert_eq!(section.next(KEY, n(2)), range(102, 103));
    assert_eq!(section.next(KEY, n(2)), Err(Refusal::Empty { needed: 105 }));
    assert_eq!(section.current(KEY), Ok(Current::Touched(103)));
    assert_eq!(section.next(KEY, n(1)), range(104, 104));
    section.widen(103);
    assert_eq!(section.max_seq(), 104, "a late reply narrows nothing");
    section.widen(105);
    assert_eq!(section.next(KEY, n(1)), range(105, 105));
    assert_eq!((section.left(), section.touched()), (0, 1));
}

#[test]
fn a_stride_counts_numbers() {
    // Odd numbers above 100, window up to 120: 101 … 119 are ten.
    let section = Section::keyed(open(100, 101, 2, 120), HASH_KEY);
    assert_eq!(section.limit(), 10);
    assert_eq!(section.max_seq_for(10), 119);
    assert_eq!(section.next(Key::Keyed(b"a"), n(10)), range(101, 119));
    assert_eq!(
        section.next(Key::Keyed(b"a"), n(1)),
        Err(Refusal::Empty { needed: 121 })
    );
    assert_eq!(section.next(Key::Keyed(b"b"), n(1)), range(101, 101));
    assert_eq!(
        section.raise_to(Key::Keyed(b"b"), 110),
        Ok(Current::Touched(111))
    );
}

#[test]
fn raise_to_never_lowers_and_lifts_no_neighbour() {
    let section = Section::dense(open(0, 1, 1, 1_000), 10);
    assert_eq!(section.raise_to(KEY, 0), Ok(Current::Untouched));
    assert_eq!(section.raise_to(KEY, 500), Ok(Current::Touched(500)));
    assert_eq!(section.raise_to(KEY, 300), Ok(Current::Touched(500)));
    assert_eq!(
        section.raise_to(KEY, 1_001),
        Err(Refusal::Empty { needed: 1_001 })
    );
    assert_eq!(section.next(KEY, n(1)), range(501, 501));
    assert_eq!(section.next(Key::Dense(6), n(1)), range(1, 1));
    assert_eq!(section.highest_offset(), 501);
}

#[test]
fn a_counter_leaves_32_bits_alone() {
    let edge = u64::from(NARROW_MAX);
    for section in [
        Section::dense(open(0, 1, 1, edge * 3), 10),
        Section::keyed(open(0, 1, 1, edge * 3), HASH_KEY),
    ] {
        let (key, other) = match section.current(KEY) {
            Ok(_) => (KEY, Key::Dense(6)),
            Err(_) => (Key::Keyed(b"a"), Key::Keyed(b"b")),
        };
        assert_eq!(
            section.raise_to(key, edge - 2),
            Ok(Current::Touched(edge - 2))
        );
        assert_eq!(section.next(key, n(1)), range(edge - 1, edge - 1));
        assert_eq!(section.next(key, n(1)), range(edge, edge));
        assert_eq!(section.next(key, n(50)), range(edge + 1, edge + 50));
        assert_eq!(section.current(key), Ok(Current::Touched(edge + 50)));
        assert_eq!(section.raise_to(key, edge), Ok(Current::Touched(edge + 50)));
        assert_eq!(
            section.raise_to(key, edge * 2),
            Ok(Current::Touched(edge * 2))
        );
        assert_eq!(section.next(key, n(1)), range(edge * 2 + 1, edge * 2 + 1));
        assert_eq!(
            section.raise_to(key, edge * 4),
            Err(Refusal::Empty { needed: edge * 4 })
        );
        assert_eq!(section.next(other, n(1)), range(1, 1));
        assert_eq!(section.touched(), 2);
    }
}

#[test]
fn the_last_number_is_handed_out_and_then_no_more() {
    let section = Section::dense(open(SEQ_MAX - 3, SEQ_MAX - 2, 1, u64::MAX), 10);
    assert_eq!(section.limit(), 3);
    assert_eq!(section.next(KEY, n(2)), range(SEQ_MAX - 2, SEQ_MAX - 1));
    assert_eq!(section.next(KEY, n(2)), Err(Refusal::Exhausted));
    assert_eq!(section.next(KEY, n(1)), range(SEQ_MAX, SEQ_MAX));
    assert_eq!(section.next(KEY, n(1)), Err(Refusal::Exhausted));
    assert_eq!(section.raise_to(KEY, SEQ_MAX + 1), Err(Refusal::Exhausted));
    assert_eq!(section.raise_to(KEY, u64::MAX), Err(Refusal::Exhausted));

    let none = Section::dense(
        Open {
            first: None,
            ..open(SEQ_MAX, 0, 1, SEQ_MAX)
        },
        10,
    );
    assert_eq!(none.next(KEY, n(1)), Err(Refusal::Exhausted));
    assert_eq!(none.raise_to(KEY, SEQ_MAX), Ok(Current::Untouched));
    none.seal();
    assert_eq!(none.final_seq(), Some(SEQ_MAX));
}

#[test]
fn sealed_serves_nothing_and_tells_its_highest() {
    let section = Section::dense(open(10, 12, 4, 100), 10);
    assert_eq!(section.next(KEY, n(3)), range(12, 20));
    assert_eq!(section.final_seq(), None);
    let adder = section.enter().unwrap();
    section.seal();
    section.seal();
    assert!(section.enter().is_none());
    assert_eq!(section.final_seq(), None, "an adder is inside");
    assert_eq!(adder.next(KEY, n(1)), range(24, 24));
    drop(adder);
    assert_eq!(section.final_seq(), Some(24));
    assert_eq!(section.next(KEY, n(1)), Err(Refusal::Sealed));
    assert_eq!(section.raise_to(KEY, 50), Err(Refusal::Sealed));
    assert_eq!(section.current(KEY), Err(Refusal::Sealed));

    let idle = Section::dense(open(10, 12, 4, 100), 10);
    idle.seal();
    assert_eq!(idle.final_seq(), Some(10), "the base, if nothing was used");
}

#[test]
fn a_spot_is_the_keys_counter() {
    for section in [
        Section::dense(open(0, 1, 1, 5), 10),
        Section::keyed(open(0, 1, 1, 5), HASH_KEY),
    ] {
        let key = match section.next(KEY, n(1)) {
            Ok(_) => KEY,
            Err(_) => Key::Keyed(b"a"),
        };
        section.next(key, n(1)).unwrap();
        let at = section.next(key, n(1)).unwrap().last;
        let spot_of = |key| section.sought(key).and_then(|sought| section.spot(sought));
        let spot = spot_of(key).unwrap();
        assert_eq!(u64::from(spot.fetch()), at);
        assert_eq!(spot.current(), Current::Touched(at));
        assert_eq!(spot.next(n(1)), range(at + 1, at + 1));
        assert_eq!(section.current(key), Ok(Current::Touched(at + 1)));
        assert!(matches!(spot.next(n(5)), Err(Refusal::Empty { .. })));
        section.widen(100);
        assert_eq!(section.next(key, n(1)), range(at + 2, at + 2));
        assert_eq!(spot.next(n(1)), range(at + 3, at + 3));
        section.seal();
        assert_eq!(spot.next(n(1)), Err(Refusal::Sealed));
        assert!(spot_of(Key::Dense(10)).is_none());
        assert!(spot_of(Key::Keyed(b"untouched")).is_none());
    }
}

#[test]
fn a_key_of_another_section_is_refused() {
    let dense = Section::dense(open(0, 1, 1, 100), 10);
    assert_eq!(dense.next(Key::Dense(10), n(1)), Err(Refusal::NotHere));
    assert_eq!(dense.current(Key::Keyed(b"a")), Err(Refusal::NotHere));
    let keyed = Section::keyed(open(0, 1, 1, 100), HASH_KEY);
    assert_eq!(keyed.raise_to(KEY, 5), Err(Refusal::NotHere));
}

#[test]
fn a_refused_call_costs_no_memory() {
    let section = Section::keyed(open(0, 1, 1, 0), HASH_KEY);
    let empty = section.bytes();
    for key in 0..1_000u32 {
        let bytes = key.to_le_bytes();
        let key = Key::Keyed(&bytes);
        assert_eq!(section.next(key, n(1)), Err(Refusal::Empty { needed: 1 }));
        assert_eq!(section.current(key), Ok(Current::Untouched));
        assert_eq!(section.raise_to(key, 0), Ok(Current::Untouched));
    }
    assert_eq!((section.bytes(), section.touched()), (empty, 0));
}

/// Bounds of `docs/limits.md`.
#[test]
fn keys_take_as_much_memory_as_is_said() {
    let section = Section::keyed(open(0, 1, 1, 10), HASH_KEY);
    let empty = section.bytes();
    for keys in 1..20_000usize {
        let key = keys.to_le_bytes();
        section.next(Key::Keyed(&key), n(1)).unwrap();
        let most = match keys {
            ..=500 => (keys * 92).max(128),
            _ => keys * 54,
        };
        let bytes = section.bytes() - empty;
        assert!((keys * 21..=most).contains(&bytes), "{keys}: {bytes}");
    }
}

#[test]
fn use_is_told_once() {
    let section = Section::dense(open(0, 1, 1, 100), 10);
    assert!(!section.take_used());
    section.next(KEY, n(1)).unwrap();
    assert!(section.take_used());
    section.current(KEY).unwrap();
    assert!(!section.take_used());
}

#[test]
#[should_panic(expected = "first must be above base")]
fn a_first_that_would_repeat_numbers_is_refused() {
    Section::dense(open(10, 10, 1, 100), 10);
}
