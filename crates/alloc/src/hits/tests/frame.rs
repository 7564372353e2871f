//! One frame: what is answered, what takes the long way, and what that costs.

use seqsvr_core::geometry::uid_as_key;

use super::super::found::BLOCK;
use super::super::place::{DECIMAL_MAX, decimal};
use super::*;

#[tokio::test]
async fn a_frame_is_answered_with_one_clock_reading() {
    let world = FastPathFixture::new().await;
    // Of 8 chunks of counters, made by a first touch of each.
    world.next(&[0, 1, 2, 3, 4, 5, 6, 7].map(|chunk| chunk * 1_024 + 1));
    let uids: Vec<u64> = (0..1_000).map(|i| i * 37 % 4_000 * 2).collect();
    for round in 1..=3 {
        let before = world.clock.readings.load(Relaxed);
        let hits = world.next(&uids);
        assert!(hits.missed.is_empty());
        assert_eq!(hits.columns.values, vec![round; 1_000]);
        assert!((0..1_000).all(|at| hits.columns.epoch(at) == 1));
        assert_eq!(world.clock.readings.load(Relaxed), before + 1);
    }
    // The same key several times in one frame.
    let hits = world.next(&[5, 5, 5, 0, 5]);
    assert_eq!(hits.columns.values, [1, 2, 3, 4, 4]);
    assert_eq!(world.node.counters.numbers.get(), 3_013);
    assert_eq!(
        (world.node.counters.nexts.get(), world.burned()),
        (3_013, 0)
    );
}

/// More sections than are kept for a frame, neighbouring items never of the same.
#[tokio::test]
async fn sections_of_one_place_take_turns_and_none_stays_entered() {
    let world = FastPathFixture::new().await;
    let apart = [0, 1_024, 1, 1_025, 2_048];
    for section in [1_024, 1_025, 2_048] {
        world.load(1, section);
    }
    let touch: Vec<u64> = apart.iter().map(|section| section * SECTION).collect();
    world.next(&touch);
    let uids: Vec<u64> = (0..1_000)
        .map(|i| apart[i % 5] * SECTION + i as u64 % 7)
        .collect();
    let hits = world.next(&uids);
    assert!(hits.missed.is_empty());
    let mut last = std::collections::HashMap::new();
    for (uid, value) in uids.iter().zip(&hits.columns.values) {
        let first = u64::from(touch.contains(uid));
        let last = last.entry(*uid).or_insert(first);
        assert_eq!(*value, *last + 1, "uid {uid}");
        *last = *value;
    }
    let map = world.node.sections.map.pin();
    for section in apart {
        let section = SectionKey {
            namespace: NamespaceId(1),
            section: SectionId(section as u32),
        };
        let loaded = map.get(&section).unwrap();
        loaded.section.seal();
        // The furthest of its uids: 1,000 items, a fifth of them here, a seventh of those each.
        assert!(
            loaded.section.final_seq().is_some_and(|last| last >= 28),
            "somebody is still inside"
        );
    }
    let missed = world.next(&uids[..5]).missed;
    assert_eq!(missed, [0, 1, 2, 3, 4], "all are sealed");
}

/// Windows are looked at once a section, when it is left, and of one whose place another has with
/// each number.
#[tokio::test]
async fn each_section_that_numbers_were_taken_of_is_refilled() {
    let world = FastPathFixture::new().await;
    world.load(1, 1_024);
    let touched = [0, 1_024 * SECTION, SECTION];
    world.next(&touched);
    // Of so many items that sections 0 and 1,024 share a place; whole blocks of each.
    let mut uids = vec![0; 5 * BLOCK];
    uids.extend([1_024 * SECTION; 5 * BLOCK]);
    uids.push(SECTION);
    let hits = world.hit(NextManyRequest {
        counts: vec![2; uids.len()],
        uids,
        ..NextManyRequest::default()
    });
    assert!(hits.missed.is_empty());
    let map = world.node.sections.pin();
    let raising = [0, 1_024, 1].map(|section| {
        let section = SectionKey {
            namespace: NamespaceId(1),
            section: SectionId(section),
        };
        let loaded = map.get(&section).unwrap();
        // Half of the window is used, and the raise has begun that comes of it.
        loaded.section.left() <= 500 && !loaded.begin_raise()
    });
    assert_eq!(raising, [true, true, false]);
}

#[tokio::test]
async fn of_keys_nobody_touched_some_take_the_long_way() {
    let world = FastPathFixture::new().await;
    let keys = |from: usize, to: usize| NextManyRequest {
        keys: (from..to).map(|n| n.to_string().into()).collect(),
        ..NextManyRequest::default()
    };
    assert_eq!(world.hit(keys(0, UNTOUCHED_MAX)).missed.len(), 0);
    let hits = world.hit(keys(0, 300));
    assert_eq!(hits.columns.values.len(), 2 * UNTOUCHED_MAX);
    assert_eq!(hits.missed.first(), Some(&(2 * UNTOUCHED_MAX as u32)));
    assert_eq!(hits.missed.len(), 300 - 2 * UNTOUCHED_MAX);
}

#[tokio::test]
async fn a_frame_of_sections_that_are_not_loaded_is_not_searched_to_its_end() {
    let world = FastPathFixture::new().await;
    let [a, ..] = four();
    let vain = 50_000_000..;
    let mixed = |n: usize| vain.clone().take(n).chain([a]).collect::<Vec<u64>>();
    let few = world.next(&mixed(MISSED_MAX - 1));
    assert_eq!(
        (few.missed.len(), few.columns.values),
        (MISSED_MAX - 1, vec![1])
    );
    let many = world.next(&mixed(3 * MISSED_MAX));
    assert_eq!(many.missed.len(), 3 * MISSED_MAX + 1);
    assert!(many.columns.values.is_empty());
    let current = BatchRequest::from(CurrentManyRequest {
        uids: mixed(3 * MISSED_MAX),
        ..CurrentManyRequest::default()
    });
    assert_eq!(world.node.hit(&current).missed.len(), 3 * MISSED_MAX + 1);
    assert_eq!(world.next(&[a]).columns.values, [2], "nothing was taken");
    // What memory holds of a Pipe's frame waits for nobody else's section.
    let of_many = world
        .node
        .hit_all(&[frame(&mixed(3 * MISSED_MAX))])
        .remove(0);
    assert_eq!(of_many.columns.values, [3]);
}

#[tokio::test]
async fn keys_and_their_decimal_texts_are_one() {
    let world = FastPathFixture::new().await;
    let texts = ["alice", "42", "0", "18446744073709551615"];
    let keys = NextManyRequest {
        keys: texts.iter().map(|key| key.as_bytes().into()).collect(),
        ..NextManyRequest::default()
    };
    assert_eq!(world.hit(keys.clone()).columns.values, [1, 1, 1, 1]);
    let uids = NextManyRequest {
        namespace: "keys".into(),
        uids: vec![42, 0, u64::MAX],
        ..NextManyRequest::default()
    };
    assert_eq!(world.hit(uids).columns.values, [2, 2, 2]);
    assert_eq!(world.hit(keys).columns.values, [2, 3, 3, 3]);
}

#[tokio::test]
async fn what_is_not_as_usual_is_missed_and_costs_nothing() {
    let world = FastPathFixture::new().await;
    let [a, b, ..] = four();
    let of = |request: NextManyRequest| {
        let request = NextManyRequest {
            uids: vec![a, b],
            ..request
        };
        world.hit(request).missed
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
    assert_eq!(world.next(&[4 * SECTION, a, 1 << 40]).missed, [0, 2]);
    assert_eq!(world.burned(), 0);
    // Past the window's end: the rest of the window stays for others.
    assert_eq!(
        of(NextManyRequest {
            counts: vec![1, 5_000],
            ..request()
        }),
        [1]
    );
    assert_eq!(world.burned(), 0);
    world.next(&[a, b]);
    assert_eq!(
        of(NextManyRequest {
            floors: vec![0, 900],
            ..request()
        }),
        [1]
    );
    assert_eq!(world.burned(), 0);
    let seen = world.next(&[a, b]).columns.values;
    let next = world.hit(NextManyRequest {
        uids: vec![a, b],
        floors: seen.clone(),
        ..request()
    });
    let above: Vec<u64> = seen.iter().map(|n| n + 1).collect();
    assert_eq!(next.columns.values, above, "a true floor is as usual");
    let frame: Vec<u64> = (100..=100 + FRAME_MAX as u64).map(|n| n % 1_000).collect();
    assert_eq!(world.next(&frame).missed.len(), FRAME_MAX + 1);
    assert_eq!(world.next(&frame[1..]).missed.len(), 0, "as many as fit");
}

#[test]
fn decimals_are_the_contracts() {
    for uid in [0, 7, 10, 909, u64::MAX - 1, u64::MAX].map(Uid) {
        let mut text = [0; DECIMAL_MAX];
        assert_eq!(decimal(uid, &mut text), uid_as_key(uid).as_bytes());
    }
}
