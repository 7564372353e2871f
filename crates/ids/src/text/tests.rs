use proptest::prelude::*;

use super::*;

const FORMS: [IdForm; 6] = IdForm::ALL;

#[test]
fn form_writes_and_reads_published_texts() {
    for (id, texts) in [
        (
            225_912_364_091_068_416,
            [
                "225912364091068416",
                "03229a1924045000",
                "068MT34J08M00",
                "0GggDr9nEwK",
                "XR57j3BV3m",
                "1psf8zbrfl6o",
            ],
        ),
        (
            i64::MAX as u64,
            [
                "9223372036854775807",
                "7fffffffffffffff",
                "7ZZZZZZZZZZZZ",
                "AzL8n0Y58m7",
                "NQm6nKp8qFC",
                "1y2p0ij32e8e7",
            ],
        ),
        (
            0,
            [
                "0",
                "0000000000000000",
                "0000000000000",
                "00000000000",
                "1",
                "0",
            ],
        ),
    ] {
        for (form, text) in FORMS.into_iter().zip(texts) {
            assert_eq!(form.format(id), text);
            assert_eq!(form.parse(text), Ok(id.into()), "{form:?} {text}");
        }
    }
}

#[test]
fn form_reads_other_spellings() {
    for (form, text, number) in [
        (IdForm::Hex, "0x03229A1924045000", 225_912_364_091_068_416),
        (IdForm::Crockford, "o68mt34jo8moo", 225_912_364_091_068_416),
        (IdForm::Crockford, "iL", 33),
        (IdForm::Base36, "1PSF8ZBRFL6O", 225_912_364_091_068_416),
        (IdForm::Decimal, "-1", u128::from(u64::MAX)),
        (IdForm::Decimal, "-9223372036854775808", 1 << 63),
        (
            IdForm::Decimal,
            "29649125613993263362",
            29_649_125_613_993_263_362,
        ),
        (IdForm::Crockford, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", u128::MAX),
    ] {
        assert_eq!(form.parse(text), Ok(number), "{form:?} {text}");
    }
}

#[test]
fn form_error_names_character_bounds_and_example() {
    for (form, text, parts) in [
        (
            IdForm::Crockford,
            "068MU34J08M00",
            [
                "'U' is no character of base32",
                "character 5",
                "068MT34J08M00",
            ],
        ),
        (
            IdForm::Base58,
            "X0",
            ["'0' is no character of base58", "1 to 9", "XR57j3BV3m"],
        ),
        (IdForm::Decimal, "", ["empty", "dec", "225912364091068416"]),
        (IdForm::Hex, "0x", ["empty", "hex", "03229a1924045000"]),
        (
            IdForm::Decimal,
            "--1",
            ["'-' is no character of dec", "0 to 9", "example"],
        ),
        (
            IdForm::Base62,
            "ü",
            [
                "'ü' is no character of base62",
                "character 1",
                "0GggDr9nEwK",
            ],
        ),
        (
            IdForm::Crockford,
            "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            ["too large", "128 bits", "068MT34J08M00"],
        ),
        (
            IdForm::Decimal,
            "-9223372036854775809",
            ["too small", "-9223372036854775808", "example"],
        ),
        (
            IdForm::Decimal,
            "-99999999999999999999",
            ["too small", "-9223372036854775808", "example"],
        ),
    ] {
        let error = form.parse(text).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{error}");
        }
    }
}

#[test]
fn text_without_a_form_is_read_in_each_possible_one() {
    let forms_of = |text: &str| -> Vec<&str> {
        let readings = read_any_form(text).unwrap();
        readings.into_iter().map(|(form, _)| form.name()).collect()
    };
    for (text, forms) in [
        (" 225912364091068416 ", vec!["dec"]),
        ("-1", vec!["dec"]),
        ("0x10", vec!["hex"]),
        ("03229a1924045000", vec!["hex"]),
        ("068MT34J08M00", vec!["base32", "base36"]),
        ("0GggDr9nEwK", vec!["base62", "base36"]),
        ("XR57j3BV3m", vec!["base58", "base36"]),
        // In base62 it has 65 bits, which no id has.
        ("NQm6nKp8qFC", vec!["base58", "base36", "base62"]),
        ("base58:XR57j3BV3m", vec!["base58"]),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", vec!["base32"]),
        ("6bd19fe77b3d45a0bb0741e46df9242d", vec!["hex"]),
    ] {
        assert_eq!(forms_of(text), forms, "{text}");
    }
    for text in [
        "",
        "abc",
        "a:b",
        "base32:u",
        "6bd19fe7-7b3d-45a0-bb07-41e46df9242d",
    ] {
        let error = read_any_form(text).unwrap_err().to_string();
        assert!(
            error.contains("example") || error.contains("as in base36:"),
            "{error}"
        );
    }
}

#[test]
fn epoch_is_a_date_a_time_or_milliseconds() {
    for (text, unix_ms) in [
        ("2026-01-01", 1_767_225_600_000),
        ("1970-01-01", 0),
        ("2000-02-29", 951_782_400_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ("2010-11-04T01:42:54.657Z", 1_288_834_974_657),
        ("2010-11-04t01:42:54.6579999z", 1_288_834_974_657),
        ("2016-05-20 00:00:00+08:00", 1_463_673_600_000),
        ("1969-12-31T16:00:00-08:00", 0),
        ("2020-02-19T18:20:02.5Z", 1_582_136_402_500),
        ("1288834974657", 1_288_834_974_657),
        ("0", 0),
    ] {
        assert_eq!(parse_epoch(text), Ok(unix_ms), "{text}");
    }
}

#[test]
fn epoch_error_names_part_bounds_and_example() {
    for (text, why) in [
        ("", "premature end"),
        ("2026", "a year alone"),
        ("20260101", "could be a date"),
        ("1288834974", "could be in seconds"),
        ("999999999", "could be in seconds"),
        ("26-01-01", "premature end of input"),
        ("2026/01/01", "premature end of input"),
        ("2026-13-01", "premature end of input"),
        ("2026-02-29", "premature end of input"),
        ("0000-01-01", "before 1970"),
        ("1969-12-31", "before 1970"),
        ("1970-01-01T00:00:00+00:01", "before 1970"),
        ("2026-01-01X", "premature end of input"),
        ("2026-01-01T24:00:00Z", "out of range"),
        ("2026-01-01T00:60:00Z", "out of range"),
        ("2026-01-01T00:00:60Z", "leap second"),
        ("2026-01-01T00:00:00.Z", "input contains invalid characters"),
        ("2026-01-01T00:00:00", "premature end"),
        ("2026-01-01T00:00:00+0800", "invalid characters"),
        ("2026-01-01T00:00:00+24:00", "out of range"),
        ("2026-01-01T00:00:00Z ", "trailing input"),
        ("99999999999999999999", "more than 64 bits"),
        ("２０２６-01-01", "premature end of input"),
        ("+2026-01-01", "premature end"),
    ] {
        let error = parse_epoch(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text:?}: {error}");
        assert!(error.contains("1970-01-01 to 9999-12-31"), "{error}");
        assert!(error.contains("2026-01-01T08:00:00+08:00"), "{error}");
    }
}

/// Row B11: the form of the founding text, with marks between the bits of fields.
#[test]
fn b11_long_form_has_time_number_maker_and_bits() {
    let twitter = crate::presets::find_preset("twitter").unwrap();
    let scheme = twitter.scheme(Some(1_451_606_400_000)).unwrap();
    let id = 225_912_364_279_812_097;
    let reading = scheme.read(id).unwrap();
    assert_eq!(
        format_long(&scheme, id, &reading),
        "2017-09-15T09:35:04.893Z, #1, @(2,5) => id: 225912364279812097, hex: 03229A192F445001, \
         bin: 0|00000110010001010011010000110010010111101|00010|00101|000000000001"
    );
    // A field of no bits has no mark.
    let layout = "0:1,time:41,dc:0,worker:10,seq:12".parse().unwrap();
    let narrow = crate::presets::IdScheme::new(layout, scheme.scale());
    let line = format_long(&narrow, id, &narrow.read(id).unwrap());
    assert!(
        line.ends_with("101|0001000101|000000000001") && line.contains("@(69)"),
        "{line}"
    );
    let js = crate::presets::find_preset("js")
        .unwrap()
        .scheme(None)
        .unwrap();
    let line = format_long(&js, 5, &js.read(5).unwrap());
    assert!(
        line.starts_with("2026-01-01T00:00:00.000Z, #5, @(0) => id: 5,"),
        "{line}"
    );
    assert!(line.contains("bin: 00000000000|0"), "{line}");
    assert!(line.ends_with("|000|000000101"), "{line}");
}

proptest! {
    #[test]
    fn form_reads_what_it_writes(id: u64) {
        for form in FORMS {
            prop_assert_eq!(form.parse(&form.format(id)), Ok(id.into()));
            let readings = read_any_form(&format!("{}:{}", form.name(), form.format(id)));
            prop_assert_eq!(readings, Ok(vec![(form, id.into())]));
        }
    }

    #[test]
    fn epoch_reads_what_is_written(unix_ms in 0u64..=253_402_300_799_999) {
        let text = seqsvr_core::layout::format_utc_ms(unix_ms);
        prop_assert_eq!(parse_epoch(&text), Ok(unix_ms));
    }

    #[test]
    fn padded_form_sorts_as_the_ids(a: u64, b: u64) {
        for form in [IdForm::Hex, IdForm::Crockford, IdForm::Base62] {
            prop_assert_eq!(form.format(a).cmp(&form.format(b)), a.cmp(&b));
        }
    }

    #[test]
    fn any_text_is_read_or_rejected(text in "\\PC{0,40}") {
        let _ = read_any_form(&text);
        for form in FORMS {
            let _ = form.parse(&text);
        }
        let _ = parse_epoch(&text);
    }
}
