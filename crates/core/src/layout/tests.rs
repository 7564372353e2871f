use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<IdLayout, InputError> {
    text.parse()
}

fn error_of(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn layout_keeps_its_text() {
    for text in [
        "0:1,time:41,dc:5,worker:5,seq:12",
        "unsigned,time:48,seq:16",
        "0:1,time~:41,worker:10,seq~:12",
        "0:1,const:4=9,rand:8,time:39,lane:2,rand:2,seq:8",
        "time:20,seq:0",
    ] {
        assert_eq!(parse(text).unwrap().to_string(), text);
    }
    let spaced = parse("unsigned, time:42, worker:10, seq:12").unwrap();
    assert_eq!(spaced.to_string(), "unsigned,time:42,worker:10,seq:12");
}

#[test]
fn input_error_names_field_bounds_and_example() {
    for (text, parts) in [
        ("", ["\"\"", "name:bits", "time:41"]),
        ("time", ["\"time\"", "name:bits", "time:41"]),
        ("time:+41,seq:1", ["\"time:+41\"", "name:bits", "time:41"]),
        ("machine:5", ["\"machine:5\"", "worker", "time:41"]),
        (
            "const:4,time:41,seq:1",
            ["\"const:4\"", "name:bits", "const:4=9"],
        ),
        ("time:41=1,seq:1", ["\"time:41=1\"", "name:bits", "time:41"]),
        ("unsigned", ["0 fields time", "must have one", "time:41"]),
        (
            "time:19,seq:12",
            ["time has 19 bits", "20 to 63", "time:41"],
        ),
        (
            "time:99999999999,seq:1",
            ["time has too many bits", "20 to 63", "time:41"],
        ),
        ("time:41,seq:31", ["seq has 31 bits", "0 to 30", "seq:12"]),
        (
            "time:30,worker:23,seq:9",
            ["worker has 23 bits", "0 to 22", "worker:10"],
        ),
        (
            "time:41,lane:4,seq:1",
            ["lane has 4 bits", "1 to 3", "lane:2"],
        ),
        (
            "time:41,const:2=4,seq:1",
            ["const is 4", "0 to 3", "const:2=3"],
        ),
        (
            "time:41,worker:10",
            ["0 fields seq", "must have one", "seq:12"],
        ),
        (
            "time:21,time:21,seq:1",
            ["2 fields time", "must have one", "time:41"],
        ),
        (
            "time:41,dc:1,dc:2,seq:1",
            ["2 fields dc", "at most one", "worker:10"],
        ),
        (
            "0:1,time:41,worker:13,seq:12",
            ["are 67 bits", "take 3 away", "time:41"],
        ),
        (
            "time:42,worker:10,seq:12",
            ["64 bits", "signed id has 63", "unsigned,"],
        ),
        // Zeros elsewhere leave the sign in use.
        (
            "time:42,0:1,worker:9,seq:12",
            ["64 bits", "signed id has 63", "unsigned,"],
        ),
        (
            "unsigned,time:42,worker:10,seq:13",
            ["are 65 bits", "take 1 away", "time:41"],
        ),
        ("time:41,dc:23,seq:0", ["dc has 23 bits", "0 to 22", "dc:5"]),
        ("0:45,time:20,seq:0", ["0 has 45 bits", "1 to 44", "0:1"]),
        ("time~:41,seq:12", ["only one", "both are", "seq~:12"]),
    ] {
        let error = error_of(text);
        for part in parts {
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}

#[test]
fn layout_with_inverted_time_is_inverted() {
    assert!(parse("time~:41,seq~:3").unwrap().is_inverted());
    assert!(!parse("time:41,seq:3").unwrap().is_inverted());
}

#[test]
fn layout_life_is_that_of_its_ticks() {
    let twitter = parse("0:1,time:41,dc:5,worker:5,seq:12").unwrap();
    let scale = TickScale::new(1_288_834_974_657, 1).unwrap();
    assert_eq!(
        format_utc_ms(twitter.end_ms(scale)),
        "2080-07-10T17:30:30.209Z"
    );
    let now = 1_767_225_600_000;
    let end_ms = twitter.end_ms(scale);
    for within in [now, end_ms - 1] {
        assert_eq!(twitter.check_life(scale, within), Ok(()));
    }
    for beyond in [end_ms, u64::MAX] {
        let error = twitter.check_life(scale, beyond);
        assert!(error.is_err_and(|e| e.to_string().contains("ended on 2080-07-10")));
    }
    // The default of Baidu's generator.
    let seconds = parse("0:1,time:28,worker:22,seq:13").unwrap();
    let scale = TickScale::new(1_463_673_600_000, 1_000).unwrap();
    let error = seconds.check_life(scale, now).unwrap_err().to_string();
    for part in [
        "time:28 in units of 1000 ms",
        "since 2016-05-19T16:00:00.000Z",
        "ended on 2024-11-20T13:24:16.000Z",
        "give a later epoch",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn scale_bounds_are_checked() {
    for (text, unit_ms) in [
        ("1ms", 1),
        ("10ms", 10),
        ("1s", 1_000),
        ("3600s", UNIT_MS_MAX),
    ] {
        assert_eq!(TickScale::parse_unit(text), Ok(unit_ms));
    }
    for text in [
        "",
        "ms",
        "0ms",
        "3601s",
        "1",
        "1m",
        "+1s",
        "1.5s",
        "99999999999999999999s",
    ] {
        let error = TickScale::parse_unit(text).unwrap_err().to_string();
        assert!(
            error.contains("1ms to 3600000ms") && error.contains("10ms"),
            "{error}"
        );
    }
    assert!(TickScale::new(0, 0).is_err());
    assert!(TickScale::new(0, UNIT_MS_MAX + 1).is_err());
    let last_ms = 253_402_300_799_999;
    assert!(TickScale::new(last_ms, 1).is_ok());
    let error = TickScale::new(last_ms + 1, 1).unwrap_err().to_string();
    assert!(error.contains("year 9999"), "{error}");
}

#[test]
fn scale_counts_whole_ticks() {
    let scale = TickScale::new(1_000, 10).unwrap();
    assert_eq!(scale.tick_at(999), None);
    assert_eq!(scale.tick_at(1_000), Some(0));
    assert_eq!(scale.tick_at(1_029), Some(2));
    assert_eq!(scale.unix_ms_of(2), 1_020);
    assert_eq!(scale.unix_ms_of(u64::MAX), u64::MAX);
}

#[test]
fn utc_text_has_leap_days_and_far_years() {
    for (unix_ms, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_399_999, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (951_868_800_000, "2000-03-01T00:00:00.000Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (1_288_834_974_657, "2010-11-04T01:42:54.657Z"),
        (253_402_300_800_000, "10000-01-01T00:00:00.000Z"),
    ] {
        assert_eq!(format_utc_ms(unix_ms), text);
    }
    assert!(format_utc_ms(u64::MAX).starts_with("584556019-"));
}

proptest! {
    #[test]
    fn layout_of_any_text_is_read_or_rejected(
        text in "(unsigned,)?([0a-z~]{1,6}:[0-9=]{1,3},?){0,6}",
    ) {
        if let Ok(layout) = parse(&text) {
            prop_assert_eq!(parse(&layout.to_string()).unwrap(), layout);
        }
    }

    #[test]
    fn layout_shifts_cover_all_bits(time in 20u32..42, worker in 0u32..11, seq in 0u32..13) {
        let layout = parse(&format!("0:1,time:{time},worker:{worker},seq:{seq}")).unwrap();
        let mut bits = 0u64;
        for (field, shift) in layout.fields_with_shifts().filter(|(f, _)| f.bits > 0) {
            let field = ((1u64 << field.bits) - 1) << shift;
            prop_assert_eq!(bits & field, 0);
            bits |= field;
        }
        prop_assert_eq!(bits.count_ones(), layout.total_bits());
        prop_assert_eq!(bits.trailing_ones(), layout.total_bits());
    }
}
