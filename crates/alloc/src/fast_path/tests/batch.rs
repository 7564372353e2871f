//! One batch: what is answered, what takes the slow path, and what that costs. A clock with a hook
//! injects the changes.

use seqsvr_core::geometry::uid_as_key;
use seqsvr_core::ids::Uid;

use super::super::key_location::{DECIMAL_DIGITS_MAX, write_decimal};
use super::super::lookup_block::LOOKUP_BLOCK_ITEMS;
use super::*;

#[tokio::test]
async fn batch_is_answered_with_one_clock_reading() {
    let fixture = FastPathFixture::new().await;
    // Touches a key of each of 8 chunks of counters, which creates them.
    fixture.take_next(&[0, 1, 2, 3, 4, 5, 6, 7].map(|chunk| chunk * 1_024 + 1));
    let uids: Vec<u64> = (0..1_000).map(|i| i * 37 % 4_000 * 2).collect();
    for round in 1..=3 {
        let before = fixture.clock.readings.load(Relaxed);
        let result = fixture.take_next(&uids);
        assert!(result.missed.is_empty());
        assert_eq!(result.answers.values, vec![round; 1_000]);
        assert!((0..1_000).all(|at| result.answers.epoch_at(at) == 1));
        assert_eq!(fixture.clock.readings.load(Relaxed), before + 1);
    }
    // The same key several times in one batch.
    let result = fixture.take_next(&[5, 5, 5, 0, 5]);
    assert_eq!(result.answers.values, [1, 2, 3, 4, 4]);
    assert_eq!(
        fixture.fast_path.shared.counters.numbers_issued.get(),
        3_013
    );
    assert_eq!(
        (
            fixture.fast_path.shared.counters.next_items.get(),
            fixture.discarded_count()
        ),
        (3_013, 0)
    );
}

/// Condition: more sections than are kept for a batch; neighboring items are never of the same
/// section.
#[tokio::test]
async fn entered_sections_with_same_index_are_all_left() {
    let fixture = FastPathFixture::new().await;
    let apart = [0, 1_024, 1, 1_025, 2_048];
    for section in [1_024, 1_025, 2_048] {
        fixture.load_section(1, section);
    }
    let touch: Vec<u64> = apart.iter().map(|section| section * SECTION_SIZE).collect();
    fixture.take_next(&touch);
    let uids: Vec<u64> = (0..1_000)
        .map(|i| apart[i % 5] * SECTION_SIZE + i as u64 % 7)
        .collect();
    let result = fixture.take_next(&uids);
    assert!(result.missed.is_empty());
    let mut last = std::collections::HashMap::new();
    for (uid, value) in uids.iter().zip(&result.answers.values) {
        let first = u64::from(touch.contains(uid));
        let last = last.entry(*uid).or_insert(first);
        assert_eq!(*value, *last + 1, "uid {uid}");
        *last = *value;
    }
    let map = fixture.sections.map.pin();
    for section in apart {
        let section = SectionKey {
            namespace: NamespaceId(1),
            section: SectionId(section as u32),
        };
        let loaded = map.get(&section).unwrap();
        loaded.section.seal();
        // The furthest of its uids: 1,000 items, a fifth of them in this section, a seventh of
        // those each.
        assert!(
            loaded
                .section
                .high_water_mark()
                .is_some_and(|last| last >= 28),
            "a guard is still inside"
        );
    }
    let missed = fixture.take_next(&uids[..5]).missed;
    assert_eq!(missed, [0, 1, 2, 3, 4], "all are sealed");
}

/// Windows are checked once a section when it is left; those of a section whose entry another
/// holds, with each number.
#[tokio::test]
async fn batch_starts_refill_of_each_section() {
    let fixture = FastPathFixture::new().await;
    fixture.load_section(1, 1_024);
    let touched = [0, 1_024 * SECTION_SIZE, SECTION_SIZE];
    fixture.take_next(&touched);
    // Enough items that sections 0 and 1,024 share an entry; whole blocks of each.
    let mut uids = vec![0; 5 * LOOKUP_BLOCK_ITEMS];
    uids.extend([1_024 * SECTION_SIZE; 5 * LOOKUP_BLOCK_ITEMS]);
    uids.push(SECTION_SIZE);
    let result = fixture.try_batch(NextManyRequest {
        counts: vec![2; uids.len()],
        uids,
        ..NextManyRequest::default()
    });
    assert!(result.missed.is_empty());
    let map = fixture.sections.pin();
    let raising = [0, 1_024, 1].map(|section| {
        let section = SectionKey {
            namespace: NamespaceId(1),
            section: SectionId(section),
        };
        let loaded = map.get(&section).unwrap();
        // Half of the window is used, and the raise for it has begun.
        loaded.section.numbers_remaining() <= 500 && !loaded.try_begin_raise()
    });
    assert_eq!(raising, [true, true, false]);
}

#[tokio::test]
async fn batch_misses_new_keys_above_limit() {
    let fixture = FastPathFixture::new().await;
    let keys = |from: usize, to: usize| NextManyRequest {
        keys: (from..to).map(|n| n.to_string().into()).collect(),
        ..NextManyRequest::default()
    };
    assert_eq!(fixture.try_batch(keys(0, NEW_KEYS_MAX)).missed.len(), 0);
    let result = fixture.try_batch(keys(0, 300));
    assert_eq!(result.answers.values.len(), 2 * NEW_KEYS_MAX);
    assert_eq!(result.missed.first(), Some(&(2 * NEW_KEYS_MAX as u32)));
    assert_eq!(result.missed.len(), 300 - 2 * NEW_KEYS_MAX);
}

#[tokio::test]
async fn unary_batch_with_many_misses_stops_early() {
    let fixture = FastPathFixture::new().await;
    let [a, ..] = uid_of_each_section();
    let vain = 50_000_000..;
    let mixed = |n: usize| vain.clone().take(n).chain([a]).collect::<Vec<u64>>();
    let few = fixture.take_next(&mixed(UNARY_MISSES_MAX - 1));
    assert_eq!(
        (few.missed.len(), few.answers.values),
        (UNARY_MISSES_MAX - 1, vec![1])
    );
    let many = fixture.take_next(&mixed(3 * UNARY_MISSES_MAX));
    assert_eq!(many.missed.len(), 3 * UNARY_MISSES_MAX + 1);
    assert!(many.answers.values.is_empty());
    let current = BatchRequest::from(CurrentManyRequest {
        uids: mixed(3 * UNARY_MISSES_MAX),
        ..CurrentManyRequest::default()
    });
    assert_eq!(
        fixture.fast_path.try_batch(&current).missed.len(),
        3 * UNARY_MISSES_MAX + 1
    );
    assert_eq!(
        fixture.take_next(&[a]).answers.values,
        [2],
        "nothing was taken"
    );
    // Items of a Pipe's frame that memory holds do not wait for another caller's section.
    let of_many = fixture
        .fast_path
        .try_batches(&[next_batch(&mixed(3 * UNARY_MISSES_MAX))])
        .remove(0);
    assert_eq!(of_many.answers.values, [3]);
}

#[tokio::test]
async fn uid_and_decimal_key_share_a_counter() {
    let fixture = FastPathFixture::new().await;
    let texts = ["alice", "42", "0", "18446744073709551615"];
    let keys = NextManyRequest {
        keys: texts.iter().map(|key| key.as_bytes().into()).collect(),
        ..NextManyRequest::default()
    };
    assert_eq!(fixture.try_batch(keys.clone()).answers.values, [1, 1, 1, 1]);
    let uids = NextManyRequest {
        namespace: "keys".into(),
        uids: vec![42, 0, u64::MAX],
        ..NextManyRequest::default()
    };
    assert_eq!(fixture.try_batch(uids).answers.values, [2, 2, 2]);
    assert_eq!(fixture.try_batch(keys).answers.values, [2, 3, 3, 3]);
}

#[tokio::test]
async fn batch_misses_unusual_items_without_burning() {
    let fixture = FastPathFixture::new().await;
    let [a, b, ..] = uid_of_each_section();
    let of = |request: NextManyRequest| {
        let request = NextManyRequest {
            uids: vec![a, b],
            ..request
        };
        fixture.try_batch(request).missed
    };
    let request = NextManyRequest::default;
    assert_eq!(
        of(NextManyRequest {
            epochs: vec![2],
            ..request()
        }),
        [0, 1]
    );
    assert_eq!(
        of(NextManyRequest {
            epochs: vec![0, 2],
            ..request()
        }),
        [1]
    );
    assert_eq!(
        of(NextManyRequest {
            strict: true,
            ..request()
        }),
        [0, 1]
    );
    assert_eq!(
        of(NextManyRequest {
            counts: vec![1, 0],
            ..request()
        }),
        [1]
    );
    assert_eq!(
        of(NextManyRequest {
            counts: vec![100_001, 1],
            ..request()
        }),
        [0]
    );
    assert_eq!(
        of(NextManyRequest {
            namespace: "none".into(),
            ..request()
        }),
        [0, 1]
    );
    assert_eq!(
        fixture.take_next(&[4 * SECTION_SIZE, a, 1 << 40]).missed,
        [0, 2]
    );
    assert_eq!(fixture.discarded_count(), 0);
    // Past the window's end: the rest of the window stays for others.
    assert_eq!(
        of(NextManyRequest {
            counts: vec![1, 5_000],
            ..request()
        }),
        [1]
    );
    assert_eq!(fixture.discarded_count(), 0);
    fixture.take_next(&[a, b]);
    assert_eq!(
        of(NextManyRequest {
            floors: vec![0, 900],
            ..request()
        }),
        [1]
    );
    assert_eq!(fixture.discarded_count(), 0);
    let seen = fixture.take_next(&[a, b]).answers.values;
    let next = fixture.try_batch(NextManyRequest {
        uids: vec![a, b],
        floors: seen.clone(),
        ..request()
    });
    let above: Vec<u64> = seen.iter().map(|n| n + 1).collect();
    assert_eq!(next.answers.values, above, "a true floor is as usual");
    let batch: Vec<u64> = (100..=100 + FAST_PATH_ITEMS_MAX as u64)
        .map(|n| n % 1_000)
        .collect();
    assert_eq!(
        fixture.take_next(&batch).missed.len(),
        FAST_PATH_ITEMS_MAX + 1
    );
    assert_eq!(
        fixture.take_next(&batch[1..]).missed.len(),
        0,
        "as many as fit"
    );
}

#[test]
fn decimal_matches_uid_as_key() {
    for uid in [0, 7, 10, 909, u64::MAX - 1, u64::MAX] {
        let mut text = [0; DECIMAL_DIGITS_MAX];
        assert_eq!(
            write_decimal(uid, &mut text),
            uid_as_key(Uid(uid)).as_bytes()
        );
    }
}
