//! What the founding texts say about layouts of ids. Each test bears the number of its row.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use seqsvr_core::layout::{IdLayout, TickScale};
use seqsvr_ids::codec::{IdCodec, IdParts};
use seqsvr_ids::presets::{IdScheme, find_preset};
use seqsvr_ids::text::parse_epoch;

const YEAR_MS: f64 = 365.0 * 86_400_000.0;

fn scheme_of(layout: &str, epoch: &str, unit_ms: u64) -> IdScheme {
    let scale = TickScale::new(parse_epoch(epoch).unwrap(), unit_ms).unwrap();
    IdScheme::new(layout.parse().unwrap(), scale)
}

#[test]
fn a5_twitter_has_1024_makers_and_4096_ids_a_tick_for_69_years() {
    let twitter = find_preset("twitter").unwrap().scheme(None).unwrap();
    let max = twitter.codec().max_parts();
    let counts = [max.dc, max.worker, max.seq].map(|max| max + 1);
    assert_eq!(counts, [32, 32, 4_096]);
    let scale = twitter.scale();
    let life_ms = twitter.layout().end_ms(scale) - scale.epoch_ms();
    assert_eq!((life_ms as f64 / YEAR_MS) as u64, 69);
}

#[test]
fn a6_e6_fields_have_any_widths_and_order() {
    for text in [
        "0:1,time:31,worker:10,seq:22",
        "0:1,worker:10,time:41,seq:12",
        "0:1,time:39,seq:8,worker:16",
        "0:1,const:2=3,time:37,rand:4,dc:3,worker:7,seq:10",
    ] {
        let codec = IdCodec::new(&text.parse().unwrap());
        let parts = IdParts {
            tick: 123_456_789,
            dc: codec.max_parts().dc,
            worker: 77,
            seq: 200,
            rand: codec.max_parts().rand,
            lane: 0,
        };
        let id = codec.encode(&parts).unwrap();
        assert_eq!(codec.decode(id), Ok(parts), "{text}");
    }
}

#[test]
fn b2_ids_are_positive_up_to_the_last_tick() {
    let twitter = find_preset("twitter").unwrap().scheme(None).unwrap();
    let last = IdParts {
        tick: (1 << 41) - 1,
        dc: 31,
        worker: 31,
        seq: 4_095,
        ..IdParts::default()
    };
    assert_eq!(twitter.codec().encode(&last), Ok(i64::MAX as u64));
    let after = IdParts {
        tick: 1 << 41,
        ..last
    };
    assert!(twitter.codec().encode(&after).is_err());
}

#[test]
fn b3_an_epoch_of_2014_lasts_69_73_years() {
    let scheme = scheme_of("0:1,time:41,worker:10,seq:12", "2014-01-01", 1);
    let life_ms = scheme.layout().end_ms(scheme.scale()) - scheme.scale().epoch_ms();
    assert_eq!(format!("{:.2}", life_ms as f64 / YEAR_MS), "69.73");
    assert_eq!(scheme.read(0).unwrap().time_ms, 1_388_534_400_000);
}

#[test]
fn b4_a_maker_has_two_levels_of_3_and_7_bits() {
    let scheme = scheme_of("0:1,time:41,dc:3,worker:7,seq:12", "2014-01-01", 1);
    let parts = IdParts {
        dc: 5,
        worker: 100,
        ..IdParts::default()
    };
    let id = scheme.codec().encode(&parts).unwrap();
    assert_eq!(id, (5 << 7 | 100) << 12);
    assert_eq!(scheme.read(id).unwrap().parts, parts);
}

#[test]
fn b6_16_bits_of_makers_leave_64_ids_a_millisecond() {
    let ip16 = find_preset("ip16").unwrap().scheme(None).unwrap();
    assert_eq!(ip16.codec().max_parts().worker, 65_535);
    assert_eq!(ip16.codec().max_parts().seq + 1, 64);
}

#[test]
fn c3_c5_ids_are_shifts_by_22_17_and_12() {
    let twitter = find_preset("twitter").unwrap().scheme(None).unwrap();
    let (time_ms, dc, worker, seq) = (1_767_225_600_123, 3u32, 7u32, 42u32);
    let tick = twitter.scale().tick_at(time_ms).unwrap();
    let parts = IdParts {
        tick,
        dc,
        worker,
        seq,
        ..IdParts::default()
    };
    let id = twitter.codec().encode(&parts).unwrap();
    let difference = time_ms - 1_288_834_974_657;
    let formula = difference << 22 | 3 << 17 | 7 << 12 | 42;
    assert_eq!(id, formula);
    assert_eq!((id >> 22) + 1_288_834_974_657, time_ms);
    assert_eq!((id >> 17 & 31, id >> 12 & 31, id & 4_095), (3, 7, 42));
    assert_eq!(twitter.read(id).unwrap().parts, parts);
    for (dc, worker, text) in [(32, 0, "dc 32"), (0, 32, "worker 32")] {
        let error = twitter.codec().encode(&IdParts {
            dc,
            worker,
            ..parts
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("0 to 31"), "{error}");
    }
}

#[test]
fn d1_d6_ids_of_an_inverted_layout_fall_with_time() {
    let scheme = scheme_of("0:1,time~:41,worker:10,seq~:12", "2026-01-01", 1);
    let id_at = |tick, seq| {
        let parts = IdParts {
            tick,
            seq,
            worker: 9,
            ..IdParts::default()
        };
        scheme.codec().encode(&parts).unwrap()
    };
    let ids = [id_at(0, 0), id_at(0, 1), id_at(1, 0), id_at(1 << 40, 4_095)];
    assert!(ids.is_sorted_by(|earlier, later| earlier > later));
    assert!(scheme.layout().is_inverted());
    // Only one of both would make ids that rise within a tick and fall over ticks.
    assert!("0:1,time~:41,worker:10,seq:12".parse::<IdLayout>().is_err());
}

#[test]
fn e11_e20_two_lane_bits_last_17_years() {
    for name in ["rollbacks", "timelines"] {
        let scheme = find_preset(name).unwrap().scheme(None).unwrap();
        assert_eq!(scheme.codec().max_parts().lane + 1, 4);
        let life_ms = scheme.layout().end_ms(scheme.scale()) - scheme.scale().epoch_ms();
        assert_eq!((life_ms as f64 / YEAR_MS) as u64, 17);
    }
}

#[test]
fn e18_uidgenerator_counts_seconds_for_8_51_years() {
    let preset = find_preset("uidgenerator").unwrap();
    let scheme = preset.scheme(Some(1_767_225_600_000)).unwrap();
    let life_ms = scheme.layout().end_ms(scheme.scale()) - scheme.scale().epoch_ms();
    assert_eq!(format!("{:.2}", life_ms as f64 / YEAR_MS), "8.51");
    assert_eq!(scheme.codec().max_parts().worker, 4_194_303);
}
