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
        let (Ok(id), Some(_)) = (narrow_id(id), preset.epoch_ms) else {
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
        let text = narrow_id(id).unwrap_err().to_string();
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
    assert_eq!(find_wide_candidate(old), None);
    let text = narrow_id(u128::MAX).unwrap_err().to_string();
    assert!(
        text.contains("has 128 bits") && text.contains("example"),
        "{text}"
    );
    assert_eq!(narrow_id(7), Ok(7));
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

/// Rows B10 and E2: the examples of RFC 9562, appendix A, and the UUID of the founding text.
#[test]
fn b10_e2_uuid_of_each_version_is_read() {
    let time_ms = Some(1_645_557_742_000);
    for (text, version, time_ms, content) in [
        (
            "C232AB00-9414-11EC-B3C8-9F6BDECED846",
            Some(1),
            time_ms,
            "node",
        ),
        (
            "5df41881-3aed-3515-88a7-2f4a814cf09e",
            Some(3),
            None,
            "MD5 hash of a name",
        ),
        (
            "919108f7-52d1-4320-9bac-f847db4148a8",
            Some(4),
            None,
            "random bits",
        ),
        (
            "6bd19fe7-7b3d-45a0-bb07-41e46df9242d",
            Some(4),
            None,
            "random bits",
        ),
        (
            "2ed6657d-e927-568b-95e1-2665a8aea6a2",
            Some(5),
            None,
            "SHA-1 hash of a name",
        ),
        (
            "1EC9414C-232A-6B00-B3C8-9F6BDECED846",
            Some(6),
            time_ms,
            "sorted by time",
        ),
        (
            "017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
            Some(7),
            time_ms,
            "Unix time",
        ),
        (
            "2489E9AD-2EE2-8E00-8EC9-32D5F69181C0",
            Some(8),
            None,
            "maker's own",
        ),
        (
            "2489E9AD-2EE2-9E00-8EC9-32D5F69181C0",
            Some(9),
            None,
            "no standard",
        ),
        ("00000000-0000-0000-0000-000000000000", None, None, "nil"),
        ("ffffffff-ffff-ffff-ffff-ffffffffffff", None, None, "max"),
        (
            "919108f7-52d1-4320-1bac-f847db4148a8",
            None,
            None,
            "has no version",
        ),
    ] {
        let reading = read_uuid(text, NOW_MS).unwrap();
        let meaning = reading.meaning;
        assert_eq!(reading.id, text.to_lowercase());
        assert_eq!(
            (meaning.version, meaning.time_ms),
            (version, time_ms),
            "{text}"
        );
        assert!(
            meaning.content.contains(content),
            "{text}: {}",
            meaning.content
        );
        assert_eq!(reading.others, [], "{text}");
        assert_eq!(meaning.variant == "RFC 9562", version.is_some(), "{text}");
    }
}

/// Rows D8 and E2: versions 1 and 2, whose time is that of RFC 9562's example.
#[test]
fn d8_e2_uuid_of_time_and_node_has_parts() {
    let parts_of = |text| read_uuid(text, NOW_MS).unwrap().meaning.parts;
    let node = [("node", "9f:6b:de:ce:d8:46"), ("node_kind", "random")];
    let expected = [[("clock_sequence", "13256")].as_slice(), &node].concat();
    let own = |parts: Vec<(&'static str, String)>, expected: &[(&str, &str)]| {
        let parts: Vec<_> = parts
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        assert_eq!(parts, expected);
    };
    own(parts_of("c232ab00-9414-11ec-b3c8-9f6bdeced846"), &expected);
    own(parts_of("1ec9414c-232a-6b00-b3c8-9f6bdeced846"), &expected);
    let dce = "000003e8-9414-21ec-b301-9c6bdeced846";
    let card = [
        ("local_id", "1000"),
        ("domain", "1 (POSIX group)"),
        ("clock_sequence", "51"),
        ("node", "9c:6b:de:ce:d8:46"),
        ("node_kind", "address of a network card"),
    ];
    own(parts_of(dce), &card);
    // The local id replaces 32 bits of 100 ns.
    let from_ms = read_uuid(dce, NOW_MS).unwrap().meaning.time_ms.unwrap();
    assert!(
        (from_ms..from_ms + 429_497).contains(&1_645_557_742_000),
        "{from_ms}"
    );
    // The Gregorian epoch, 1582-10-15, and the last millisecond before 1970.
    for text in [
        "00000000-0000-1000-8000-000000000000",
        "13813fff-1dd2-11b2-8000-000000000000",
    ] {
        assert_eq!(read_uuid(text, NOW_MS).unwrap().meaning.time_ms, None);
    }
    let unix_epoch = read_uuid("13814000-1dd2-11b2-8000-000000000000", NOW_MS).unwrap();
    assert_eq!(unix_epoch.meaning.time_ms, Some(0));
}

/// Row D4: a GUID in each form, and as Windows keeps its bytes.
#[test]
fn d4_guid_is_read_in_each_form_and_byte_order() {
    for (text, form) in [
        ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "hyphenated"),
        ("017f22e279b07cc398c4dc0c0c07398f", "simple"),
        (" {017F22E2-79B0-7CC3-98C4-DC0C0C07398F} ", "braced"),
        ("URN:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "urn"),
    ] {
        let reading = read_uuid(text, NOW_MS).unwrap();
        assert_eq!(reading.form, form);
        assert_eq!(reading.id, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    }
    for text in [
        "00ab32c2-1494-ec11-b3c8-9f6bdeced846",
        "e2227f01-b079-c37c-98c4-dc0c0c07398f",
    ] {
        let others = read_uuid(text, NOW_MS).unwrap().others;
        assert_eq!(others.len(), 1, "{text}");
        assert_eq!(others[0].time_ms, Some(1_645_557_742_000), "{text}");
        assert!(others[0].how.contains("little-endian"), "{text}");
    }
    for text in [
        "",
        "017f22e2",
        "{017f22e279b07cc398c4dc0c0c07398f}",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
    ] {
        assert_eq!(read_uuid(text, NOW_MS), None, "{text}");
    }
}

/// Ids that PyPI `uuid7` 0.1.0 made at these times.
#[test]
fn uuid_of_version_7_far_ahead_is_one_of_the_draft() {
    for (text, time_ms, seq) in [
        (
            "06955b90-01f9-7add-8000-c68a49d9abe4",
            1_767_225_600_123,
            "0",
        ),
        (
            "06b09a32-18f3-750a-8000-77115e8e2999",
            1_795_793_697_559,
            "0",
        ),
        (
            "06955b90-01f9-7add-8001-c68a49d9abe4",
            1_767_225_600_123,
            "1",
        ),
    ] {
        let reading = read_uuid(text, 1_795_793_700_000).unwrap();
        assert!(reading.meaning.time_ms > Some(4_102_444_800_000), "{text}");
        assert_eq!(reading.others.len(), 1, "{text}");
        let draft = &reading.others[0];
        assert_eq!(draft.time_ms, Some(time_ms), "{text}");
        assert_eq!(draft.parts, [("seq", seq.to_owned())]);
        assert!(draft.how.contains("PyPI uuid7 0.1.0"), "{}", draft.how);
    }
}

proptest! {
    #[test]
    fn any_uuid_is_read_in_each_form(bits: u128, now_ms: u64) {
        let uuid = uuid::Uuid::from_u128(bits);
        let reading = read_uuid(&uuid.to_string(), now_ms).unwrap();
        for (text, form) in [
            (uuid.simple().to_string(), "simple"),
            (uuid.braced().to_string(), "braced"),
            (uuid.urn().to_string(), "urn"),
        ] {
            let other = read_uuid(&text, now_ms).unwrap();
            prop_assert_eq!(other, UuidReading { form, ..reading.clone() });
        }
        for other in &reading.others {
            prop_assert!(is_plausible_time(other.time_ms.unwrap(), now_ms));
        }
    }

    #[test]
    fn rounded_id_of_javascript_is_always_noticed(id in (1u64 << 53) + 1..1 << 63) {
        let rounded = id as f64;
        prop_assert!(is_maybe_rounded(rounded as u128) || rounded as u64 == 1 << 53);
        let printed: u64 = rounded.to_string().parse().unwrap();
        prop_assert!(is_maybe_rounded(printed.into()) || printed == 1 << 53);
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
