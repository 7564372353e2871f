use proptest::prelude::*;

use super::*;
use crate::presets::{PRESETS, find_preset};

/// 2026-11-27.
const NOW_MS: u64 = 1_795_737_600_000;

fn names_of(candidate: &IdCandidate) -> Vec<&str> {
    candidate.presets.iter().map(|preset| preset.name).collect()
}

/// Returns package, time and id of the ids of packages that have an epoch of their own.
fn package_ids() -> Vec<(&'static str, u64, u128)> {
    let lines = include_str!("../presets/package_ids.txt").lines();
    let rows = lines.filter(|line| !line.starts_with('#'));
    let parse = |row: &'static str| {
        let columns: Vec<&str> = row.split_whitespace().collect();
        let time_ms = columns[3].parse().unwrap();
        (columns[0], time_ms, columns[7].parse().unwrap())
    };
    rows.map(parse).collect()
}

#[test]
fn candidates_of_a_package_id_have_none_before_its_preset() {
    let mut count = 0;
    for (package, time_ms, id) in package_ids() {
        let preset = find_preset(package).unwrap();
        let (Ok(id), Some(_)) = (WideId::narrow(id), preset.epoch_ms) else {
            continue;
        };
        // A user looks at an id a week after it was made.
        let candidates = find_candidates(id, time_ms + 7 * 86_400_000);
        let is_it = |c: &&IdCandidate| names_of(c).contains(&preset.name);
        let own = candidates.iter().find(is_it).unwrap();
        // One level and two levels of makers are equally plausible.
        assert_eq!(own.surprise_bits, candidates[0].surprise_bits, "{package}");
        count += 1;
    }
    assert_eq!(count, 54);
}

#[test]
fn candidates_that_read_the_same_are_one() {
    // All of one level with a zero worker bit between.
    let twitter = find_candidates(2_006_515_713_438_646_272, NOW_MS);
    assert_eq!(
        names_of(&twitter[0]),
        [
            "twitter",
            "leaf",
            "crate:ferroid:twitter",
            "npm:@sapphire/snowflake:twitter"
        ]
    );
    let reason = &twitter[0].reason;
    let expected = "2026-01-01T00:00:00.000Z is 330 days ago";
    assert!(reason.starts_with(expected), "{reason}");
    assert!(reason.ends_with("seq 0 of 0 to 4095"), "{reason}");
}

#[test]
fn candidates_of_a_reserved_number_are_less_plausible() {
    let yitter = find_preset("crate:idgenerator:6-6")
        .unwrap()
        .scheme(None)
        .unwrap();
    let bits_of = |seq| {
        let tick = yitter.scale().tick_at(NOW_MS).unwrap();
        let parts = crate::codec::IdParts {
            tick,
            seq,
            worker: 1,
            ..Default::default()
        };
        let id = yitter.codec().encode(&parts).unwrap();
        let candidates = find_candidates(id, NOW_MS);
        let own = |c: &&IdCandidate| names_of(c).contains(&"crate:idgenerator:6-6");
        candidates.iter().find(own).unwrap().surprise_bits
    };
    assert!(bits_of(4) > bits_of(5));
}

#[test]
fn candidate_of_a_nearer_time_comes_first() {
    // 2020-01-01 since Twitter's epoch, 2024-02-28 since Discord's.
    let id = (1_577_836_800_000 - 1_288_834_974_657) << 22 | 1 << 12;
    let candidates = find_candidates(id, NOW_MS);
    let place_of = |name| candidates.iter().position(|c| names_of(c).contains(&name));
    let (near, far) = (place_of("crate:ferroid:discord"), place_of("twitter"));
    assert!(near < far, "{near:?} {far:?}");
    assert_eq!(near, Some(0));
    assert_eq!(candidates[0].reading.time_ms, 1_709_072_225_343);
}

#[test]
fn candidate_of_more_packages_comes_first_of_equal_ones() {
    // Data center 1 and worker 1, or worker 33.
    let candidates = find_candidates(2_006_515_713_438_646_272 | 33 << 12, NOW_MS);
    assert_eq!(candidates[0].surprise_bits, candidates[1].surprise_bits);
    assert_eq!(names_of(&candidates[0]), ["leaf", "crate:ferroid:twitter"]);
    let two_levels = ["twitter", "npm:@sapphire/snowflake:twitter"];
    assert_eq!(names_of(&candidates[1]), two_levels);
}

#[test]
fn candidate_of_a_later_timeline_is_less_plausible() {
    let bits_of = |lane: u64| {
        let candidates = find_candidates(lane << 22 | 1 << 24 | 1 << 12, NOW_MS);
        let timelines = candidates
            .iter()
            .find(|c| names_of(c).contains(&"timelines"));
        timelines.map(|c| c.surprise_bits).unwrap()
    };
    assert_eq!([1, 2, 3].map(|lane| bits_of(lane) - bits_of(0)), [2, 4, 4]);
}

#[test]
fn candidate_may_be_ahead_by_a_day() {
    let twitter = find_preset("twitter").unwrap().scheme(None).unwrap();
    let is_found = |ahead_ms| {
        let tick = twitter.scale().tick_at(NOW_MS + ahead_ms).unwrap();
        let candidates = find_candidates(tick << 22, NOW_MS);
        candidates.iter().any(|c| names_of(c).contains(&"twitter"))
    };
    assert!(is_found(86_400_000));
    assert!(!is_found(86_400_001));
}

#[test]
fn wide_id_is_read_with_its_reason() {
    for (id, time, worker) in [
        (29_649_125_613_993_263_362, "2026-01-01T00:00:00.123Z", 258),
        (
            30_178_211_895_688_953_855,
            "2026-12-31T23:59:59.999Z",
            65_535,
        ),
    ] {
        let text = WideId::narrow(id).unwrap_err().to_string();
        for part in [
            "has 65 bits",
            "npm sonyflake 1.1.2",
            time,
            &format!("worker {worker}, seq 1"),
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
    // 65 bits of milliseconds before 2006.
    let old = (u128::from(OLDEST_MS) - 1) << 24;
    assert_eq!(WideId::narrow(old).unwrap_err().as_sonyflake(), None);
    let text = WideId::narrow(u128::MAX).unwrap_err().to_string();
    assert!(
        text.contains("has 128 bits") && text.contains("example"),
        "{text}"
    );
    assert_eq!(WideId::narrow(7), Ok(7));
}

#[test]
fn rounded_ids_of_javascript_are_noticed() {
    for (id, is_rounded) in [
        (1 << 53, false),
        ((1 << 53) + 2, true),
        ((1 << 53) + 3, false),
        (7_412_281_403_498_721_281, false),
        // Number(7412281403498721281), exactly and as it is printed.
        (7_412_281_403_498_721_280, true),
        (7_412_281_403_498_721_000, true),
        (225_912_364_279_812_097, false),
        (225_912_364_279_812_100, true),
    ] {
        assert_eq!(is_maybe_rounded(id), is_rounded, "{id}");
    }
}

proptest! {
    #[test]
    fn rounded_id_of_javascript_is_always_noticed(id in (1u64 << 53) + 1..1 << 63) {
        let rounded = id as f64;
        prop_assert!(is_maybe_rounded(rounded as u64) || rounded as u64 == 1 << 53);
        let printed: u64 = rounded.to_string().parse().unwrap();
        prop_assert!(is_maybe_rounded(printed) || printed == 1 << 53);
    }

    #[test]
    fn any_id_has_only_plausible_candidates(id: u64, now_ms in OLDEST_MS..4_000_000_000_000) {
        let candidates = find_candidates(id, now_ms);
        prop_assert!(candidates.is_sorted_by_key(|c| c.surprise_bits));
        for candidate in &candidates {
            let time_ms = candidate.reading.time_ms;
            prop_assert!((OLDEST_MS..=now_ms + 86_400_000).contains(&time_ms));
            for preset in &candidate.presets {
                let reading = preset.scheme(None).unwrap().read(id).unwrap();
                prop_assert_eq!(reading, candidate.reading);
            }
        }
        let read: usize = candidates.iter().map(|c| c.presets.len()).sum();
        prop_assert!(read <= PRESETS.len());
    }
}
