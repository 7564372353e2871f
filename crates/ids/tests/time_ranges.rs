//! Ranges of ids that are of a range of time.

use proptest::prelude::*;
use seqsvr_core::layout::TickScale;
use seqsvr_ids::presets::IdScheme;

#[test]
fn range_of_time_counts_whole_ticks_within_the_layout() {
    let scale = TickScale::new(1_000_000, 10).unwrap();
    let scheme = IdScheme::new("time:20,worker:2,seq:2".parse().unwrap(), scale);
    for (time_ms, ids) in [
        (1_000_000..1_000_001, 0..=15),
        (1_000_009..1_000_010, 0..=15),
        (1_000_009..1_000_011, 0..=31),
        (0..1_000_020, 0..=31),
        (1_000_020..u64::MAX, 32..=(1 << 24) - 1),
    ] {
        assert_eq!(
            scheme.range_of_time(time_ms.clone()),
            Ok(ids),
            "{time_ms:?}"
        );
    }
    for time_ms in [5..5, 0..0, 9..1_000_000, 11_485_760..u64::MAX] {
        let error = scheme.range_of_time(time_ms.clone()).unwrap_err();
        let text = format!("from {} to {}:", time_ms.start, time_ms.end);
        assert!(error.to_string().contains(&text), "{error}");
        assert!(error.to_string().contains("within 1000000 to 11485760"));
    }
    let by_worker = IdScheme::new("0:1,worker:10,time:41,seq:12".parse().unwrap(), scale);
    let error = by_worker.range_of_time(0..2_000_000).unwrap_err();
    assert!(error.to_string().contains("not ordered by time"), "{error}");
}

proptest! {
    #[test]
    fn range_of_time_has_exactly_the_ids_of_its_ticks(
        layout in prop::sample::select(vec![
            "0:1,time:41,worker:10,seq:12",
            "0:1,time~:41,worker:10,seq~:12",
            "0:1,const:2=2,time:30,seq:8,rand:4,worker:16",
            "unsigned,time:42,dc:5,worker:5,seq:12",
        ]),
        id: u64,
        lengths: (u32, u32),
    ) {
        let scheme = IdScheme::new(layout.parse().unwrap(), TickScale::new(0, 1).unwrap());
        let (zeros, ones) = scheme.codec().tick_bounds(0).unwrap();
        let (last_zeros, last_ones) = scheme
            .codec()
            .tick_bounds(scheme.codec().max_parts().tick)
            .unwrap();
        // Any id of the layout.
        let id = id & (ones | last_ones) | zeros & last_zeros;
        let tick = scheme.read(id).unwrap().parts.tick;
        let [before, after] = [lengths.0, lengths.1].map(|n| u64::from(n >> 8));
        let from = tick.saturating_sub(before);
        let until = tick + after;
        if from < until {
            let contains = scheme.range_of_time(from..until).unwrap().contains(&id);
            prop_assert_eq!(contains, after > 0);
        }
        if from < tick {
            prop_assert!(!scheme.range_of_time(from..tick).unwrap().contains(&id));
        }
        if tick < scheme.codec().max_parts().tick {
            let later = scheme.range_of_time(tick + 1..tick + 2 + after).unwrap();
            prop_assert!(!later.contains(&id));
        }
    }
}
