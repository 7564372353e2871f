//! Batches that are received together: one clock reading and one check for all of them.

use super::*;

/// Returns batches of both operations and both namespaces, over the same sections.
fn mixed_batches() -> [BatchRequest; 4] {
    let keys = NextManyRequest {
        keys: vec!["alice".into(), "bob".into()],
        ..NextManyRequest::default()
    };
    let current = CurrentManyRequest {
        uids: uid_of_each_section().to_vec(),
        ..CurrentManyRequest::default()
    };
    [
        next_batch(&uid_of_each_section()),
        BatchRequest::from(keys),
        BatchRequest::from(current),
        next_batch(&uid_of_each_section()[1..]),
    ]
}

#[tokio::test]
async fn batches_together_are_answered_with_one_clock_reading() {
    let fixture = FastPathFixture::new().await;
    fixture.take_next(&uid_of_each_section());
    let before = fixture.clock.readings.load(Relaxed);
    let all = fixture.fast_path.try_batches(&mixed_batches());
    assert_eq!(fixture.clock.readings.load(Relaxed), before + 1);
    let values: Vec<&[u64]> = all.iter().map(|result| &*result.answers.values).collect();
    assert_eq!(values, [&[2; 4][..], &[1; 2], &[2; 4], &[3; 3]]);
    assert!(all.iter().all(|result| result.missed.is_empty()));
    let counters = &fixture.fast_path.shared.counters;
    assert_eq!(
        (counters.next_items.get(), counters.numbers_issued.get()),
        (13, 13)
    );
}

#[tokio::test]
async fn batches_together_are_withdrawn_together() {
    let fixture = FastPathFixture::new().await;
    let clock = fixture.clock.clone();
    fixture.run_at_check(move || clock.ns.store(LEASE.as_nanos() as u64, Relaxed));
    let all = fixture.fast_path.try_batches(&mixed_batches());
    let missed: Vec<usize> = all.iter().map(|result| result.missed.len()).collect();
    assert_eq!(missed, [4, 2, 4, 3]);
    assert_eq!(
        fixture.discarded_count(),
        9,
        "what was only read is not discarded"
    );

    let fixture = FastPathFixture::new().await;
    let moved = fixture.slot_of_uid(uid_of_each_section()[1]);
    let table = fixture.table.clone();
    fixture.run_at_check(move || {
        let newer = table_delta(2, vec![owned_route(moved.0, 2, 2)]);
        assert!(table.apply(newer).unwrap());
    });
    let all = fixture.fast_path.try_batches(&mixed_batches());
    let gone = |uids: &[u64]| -> Vec<u32> {
        let uids = (0..).zip(uids);
        let gone = uids.filter(|(_, uid)| fixture.slot_of_uid(**uid) == moved);
        gone.map(|(i, _)| i).collect()
    };
    let (first, last) = (
        gone(&uid_of_each_section()),
        gone(&uid_of_each_section()[1..]),
    );
    assert!(last.contains(&0));
    let discarded = first.len() + all[1].missed.len() + last.len();
    assert_eq!((&all[0].missed, &all[3].missed), (&first, &last));
    assert_eq!(all[2].missed.len(), 4, "read again");
    assert_eq!(fixture.discarded_count(), discarded as u64);
}
