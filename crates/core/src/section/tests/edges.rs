//! Each edge of the rules by name.

use super::*;

const KEY: CounterKey<'_> = CounterKey::Dense(5);

#[test]
fn next_counts_from_first_and_stops_at_the_window() {
    let section = Section::dense(open(100, 101, 1, 104), 10);
    assert_eq!(section.next(KEY, n(1)), range(101, 101));
    assert_eq!(section.next(KEY, n(2)), range(102, 103));
    assert_eq!(
        section.next(KEY, n(2)),
        Err(TakeError::WindowExhausted { needed: 105 })
    );
    assert_eq!(section.current(KEY), Ok(CurrentValue::Touched(103)));
    assert_eq!(section.next(KEY, n(1)), range(104, 104));
    section.widen_to(103);
    assert_eq!(section.max_seq(), 104, "a late reply narrows nothing");
    section.widen_to(105);
    assert_eq!(section.next(KEY, n(1)), range(105, 105));
    assert_eq!(
        (section.numbers_remaining(), section.keys_in_memory()),
        (0, 1)
    );
}

#[test]
fn next_with_a_stride_counts_numbers() {
    // Odd numbers above 100, window up to 120: 101 … 119 are ten.
    let section = Section::keyed(open(100, 101, 2, 120), HASH_KEY);
    assert_eq!(section.offset_limit(), 10);
    assert_eq!(section.max_seq_for(10), 119);
    assert_eq!(
        section.next(CounterKey::Keyed(b"a"), n(10)),
        range(101, 119)
    );
    assert_eq!(
        section.next(CounterKey::Keyed(b"a"), n(1)),
        Err(TakeError::WindowExhausted { needed: 121 })
    );
    assert_eq!(section.next(CounterKey::Keyed(b"b"), n(1)), range(101, 101));
    assert_eq!(
        section.raise_to(CounterKey::Keyed(b"b"), 110),
        Ok(CurrentValue::Touched(111))
    );
}

#[test]
fn raise_untouched_changes_no_touched_key() {
    let section = Section::dense(open(0, 1, 1, 1_000), 10);
    let touched = |n| Ok((CurrentValue::Touched(n), false));
    assert_eq!(
        section.raise_untouched(KEY, 1_001),
        Err(TakeError::WindowExhausted { needed: 1_001 })
    );
    assert_eq!(
        section.raise_untouched(KEY, 500),
        Ok((CurrentValue::Touched(500), true))
    );
    assert_eq!(section.raise_untouched(KEY, 500), touched(500));
    assert_eq!(section.raise_untouched(KEY, 900), touched(500));
    assert_eq!(section.next(CounterKey::Dense(6), n(1)), range(1, 1));
    assert_eq!(section.raise_untouched(CounterKey::Dense(6), 7), touched(1));
    section.seal();
    assert_eq!(
        section.raise_untouched(CounterKey::Dense(7), 7),
        Err(TakeError::Sealed)
    );
}

#[test]
fn raise_to_never_lowers_and_lifts_no_neighbor() {
    let section = Section::dense(open(0, 1, 1, 1_000), 10);
    assert_eq!(section.raise_to(KEY, 0), Ok(CurrentValue::Untouched));
    assert_eq!(section.raise_to(KEY, 500), Ok(CurrentValue::Touched(500)));
    assert_eq!(section.raise_to(KEY, 300), Ok(CurrentValue::Touched(500)));
    assert_eq!(
        section.raise_to(KEY, 1_001),
        Err(TakeError::WindowExhausted { needed: 1_001 })
    );
    assert_eq!(section.next(KEY, n(1)), range(501, 501));
    assert_eq!(section.next(CounterKey::Dense(6), n(1)), range(1, 1));
    assert_eq!(section.highest_offset(), 501);
}

#[test]
fn wide_counter_leaves_its_neighbors_narrow() {
    let edge = u64::from(NARROW_MAX);
    for section in [
        Section::dense(open(0, 1, 1, edge * 3), 10),
        Section::keyed(open(0, 1, 1, edge * 3), HASH_KEY),
    ] {
        let (key, other) = match section.current(KEY) {
            Ok(_) => (KEY, CounterKey::Dense(6)),
            Err(_) => (CounterKey::Keyed(b"a"), CounterKey::Keyed(b"b")),
        };
        assert_eq!(
            section.raise_to(key, edge - 2),
            Ok(CurrentValue::Touched(edge - 2))
        );
        assert_eq!(section.next(key, n(1)), range(edge - 1, edge - 1));
        assert_eq!(section.next(key, n(1)), range(edge, edge));
        assert_eq!(section.next(key, n(50)), range(edge + 1, edge + 50));
        assert_eq!(section.current(key), Ok(CurrentValue::Touched(edge + 50)));
        assert_eq!(
            section.raise_to(key, edge),
            Ok(CurrentValue::Touched(edge + 50))
        );
        assert_eq!(
            section.raise_to(key, edge * 2),
            Ok(CurrentValue::Touched(edge * 2))
        );
        assert_eq!(section.next(key, n(1)), range(edge * 2 + 1, edge * 2 + 1));
        assert_eq!(
            section.raise_to(key, edge * 4),
            Err(TakeError::WindowExhausted { needed: edge * 4 })
        );
        assert_eq!(section.next(other, n(1)), range(1, 1));
        assert_eq!(section.keys_in_memory(), 2);
    }
}

#[test]
fn next_at_the_last_number_is_the_end() {
    let section = Section::dense(open(SEQ_MAX - 3, SEQ_MAX - 2, 1, u64::MAX), 10);
    assert_eq!(section.offset_limit(), 3);
    assert_eq!(section.next(KEY, n(2)), range(SEQ_MAX - 2, SEQ_MAX - 1));
    assert_eq!(section.next(KEY, n(2)), Err(TakeError::SequenceExhausted));
    assert_eq!(section.next(KEY, n(1)), range(SEQ_MAX, SEQ_MAX));
    assert_eq!(section.next(KEY, n(1)), Err(TakeError::SequenceExhausted));
    assert_eq!(
        section.raise_to(KEY, SEQ_MAX + 1),
        Err(TakeError::SequenceExhausted)
    );
    assert_eq!(
        section.raise_to(KEY, u64::MAX),
        Err(TakeError::SequenceExhausted)
    );

    let none = Section::dense(
        SectionGrant {
            first: None,
            ..open(SEQ_MAX, 0, 1, SEQ_MAX)
        },
        10,
    );
    assert_eq!(none.next(KEY, n(1)), Err(TakeError::SequenceExhausted));
    assert_eq!(none.raise_to(KEY, SEQ_MAX), Ok(CurrentValue::Untouched));
    none.seal();
    assert_eq!(none.high_water_mark(), Some(SEQ_MAX));
}

#[test]
fn sealed_section_serves_nothing_and_reports_its_highest() {
    let section = Section::dense(open(10, 12, 4, 100), 10);
    assert_eq!(section.next(KEY, n(3)), range(12, 20));
    assert_eq!(section.high_water_mark(), None);
    let guard = section.enter().unwrap();
    section.seal();
    section.seal();
    assert!(section.enter().is_none());
    assert_eq!(section.high_water_mark(), None, "a guard is inside");
    assert_eq!(guard.next(KEY, n(1)), range(24, 24));
    drop(guard);
    assert_eq!(section.high_water_mark(), Some(24));
    assert_eq!(section.next(KEY, n(1)), Err(TakeError::Sealed));
    assert_eq!(section.raise_to(KEY, 50), Err(TakeError::Sealed));
    assert_eq!(section.current(KEY), Err(TakeError::Sealed));

    let idle = Section::dense(open(10, 12, 4, 100), 10);
    idle.seal();
    assert_eq!(
        idle.high_water_mark(),
        Some(10),
        "the base, if nothing was used"
    );
}

#[test]
fn counter_ref_is_the_counter_of_its_key() {
    for section in [
        Section::dense(open(0, 1, 1, 5), 10),
        Section::keyed(open(0, 1, 1, 5), HASH_KEY),
    ] {
        let key = match section.next(KEY, n(1)) {
            Ok(_) => KEY,
            Err(_) => CounterKey::Keyed(b"a"),
        };
        section.next(key, n(1)).unwrap();
        let at = section.next(key, n(1)).unwrap().last;
        let spot_of = |key| {
            section
                .prepare_lookup(key)
                .and_then(|sought| section.find_counter(sought))
        };
        let spot = spot_of(key).unwrap();
        assert_eq!(u64::from(spot.prefetch_counter()), at);
        assert_eq!(spot.current(), CurrentValue::Touched(at));
        assert_eq!(spot.next(n(1)), range(at + 1, at + 1));
        assert_eq!(section.current(key), Ok(CurrentValue::Touched(at + 1)));
        assert!(matches!(
            spot.next(n(5)),
            Err(TakeError::WindowExhausted { .. })
        ));
        section.widen_to(100);
        assert_eq!(section.next(key, n(1)), range(at + 2, at + 2));
        assert_eq!(spot.next(n(1)), range(at + 3, at + 3));
        section.seal();
        assert_eq!(spot.next(n(1)), Err(TakeError::Sealed));
        assert!(spot_of(CounterKey::Dense(10)).is_none());
        assert!(spot_of(CounterKey::Keyed(b"untouched")).is_none());
    }
}

#[test]
fn key_of_another_section_is_rejected() {
    let dense = Section::dense(open(0, 1, 1, 100), 10);
    assert_eq!(
        dense.next(CounterKey::Dense(10), n(1)),
        Err(TakeError::WrongSection)
    );
    assert_eq!(
        dense.current(CounterKey::Keyed(b"a")),
        Err(TakeError::WrongSection)
    );
    let keyed = Section::keyed(open(0, 1, 1, 100), HASH_KEY);
    assert_eq!(keyed.raise_to(KEY, 5), Err(TakeError::WrongSection));
}

#[test]
fn rejected_call_costs_no_memory() {
    let section = Section::keyed(open(0, 1, 1, 0), HASH_KEY);
    let empty = section.memory_bytes();
    for key in 0..1_000u32 {
        let bytes = key.to_le_bytes();
        let key = CounterKey::Keyed(&bytes);
        assert_eq!(
            section.next(key, n(1)),
            Err(TakeError::WindowExhausted { needed: 1 })
        );
        assert_eq!(section.current(key), Ok(CurrentValue::Untouched));
        assert_eq!(section.raise_to(key, 0), Ok(CurrentValue::Untouched));
    }
    assert_eq!(
        (section.memory_bytes(), section.keys_in_memory()),
        (empty, 0)
    );
}

/// Bounds of `docs/operations/limits.md`.
#[test]
fn section_memory_bytes_match_its_keys() {
    let section = Section::keyed(open(0, 1, 1, 10), HASH_KEY);
    let empty = section.memory_bytes();
    for keys in 1..20_000usize {
        let key = keys.to_le_bytes();
        section.next(CounterKey::Keyed(&key), n(1)).unwrap();
        let most = match keys {
            ..=500 => (keys * 92).max(128),
            _ => keys * 54,
        };
        let bytes = section.memory_bytes() - empty;
        assert!((keys * 21..=most).contains(&bytes), "{keys}: {bytes}");
    }
}

#[test]
fn take_used_reports_a_use_once() {
    let section = Section::dense(open(0, 1, 1, 100), 10);
    assert!(!section.take_used());
    section.next(KEY, n(1)).unwrap();
    assert!(section.take_used());
    section.current(KEY).unwrap();
    assert!(!section.take_used());
}

#[test]
#[should_panic(expected = "first must be above base")]
fn grant_that_would_repeat_numbers_is_rejected() {
    Section::dense(open(10, 10, 1, 100), 10);
}
