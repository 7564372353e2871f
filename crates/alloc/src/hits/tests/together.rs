//! Frames that came together: one clock reading and one check for all of them.

use super::*;

/// Frames of both kinds and both namespaces, over the same sections.
fn together() -> [BatchRequest; 4] {
    let keys = NextManyRequest {
        keys: vec!["alice".into(), "bob".into()],
        ..NextManyRequest::default()
    };
    let current = CurrentManyRequest {
        uids: four().to_vec(),
        ..CurrentManyRequest::default()
    };
    [
        frame(&four()),
        BatchRequest::from(keys),
        BatchRequest::from(current),
        frame(&four()[1..]),
    ]
}

#[tokio::test]
async fn frames_that_came_together_are_answered_with_one_clock_reading() {
    let world = FastPathFixture::new().await;
    world.next(&four());
    let before = world.clock.readings.load(Relaxed);
    let all = world.node.hit_all(&together());
    assert_eq!(world.clock.readings.load(Relaxed), before + 1);
    let values: Vec<&[u64]> = all.iter().map(|hits| &*hits.columns.values).collect();
    assert_eq!(values, [&[2; 4][..], &[1; 2], &[2; 4], &[3; 3]]);
    assert!(all.iter().all(|hits| hits.missed.is_empty()));
    let counters = &world.node.counters;
    assert_eq!((counters.nexts.get(), counters.numbers.get()), (13, 13));
}

#[tokio::test]
async fn frames_that_came_together_are_withdrawn_together() {
    let world = FastPathFixture::new().await;
    let clock = world.clock.clone();
    world.at_the_check(move || clock.ns.store(D.as_nanos() as u64, Relaxed));
    let all = world.node.hit_all(&together());
    let missed: Vec<usize> = all.iter().map(|hits| hits.missed.len()).collect();
    assert_eq!(missed, [4, 2, 4, 3]);
    assert_eq!(world.burned(), 9, "what was only read is not burned");

    let world = FastPathFixture::new().await;
    let moved = world.slot(four()[1]);
    let node = world.node.clone();
    world.at_the_check(move || {
        let newer = delta(2, vec![route(moved.0, 2, 2)]);
        assert!(node.table.apply(newer).unwrap());
    });
    let all = world.node.hit_all(&together());
    let gone = |uids: &[u64]| -> Vec<u32> {
        let uids = (0..).zip(uids);
        let gone = uids.filter(|(_, uid)| world.slot(**uid) == moved);
        gone.map(|(i, _)| i).collect()
    };
    let (first, last) = (gone(&four()), gone(&four()[1..]));
    assert!(last.contains(&0));
    let burned = first.len() + all[1].missed.len() + last.len();
    assert_eq!((&all[0].missed, &all[3].missed), (&first, &last));
    assert_eq!(all[2].missed.len(), 4, "asked again");
    assert_eq!(world.burned(), burned as u64);
}
