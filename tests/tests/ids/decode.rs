//! `seqsvr decode`: exact output, warnings, and errors of bad input.

use serde_json::{Value, json};

use crate::run_with_input;

/// Runs `seqsvr decode` and returns its exit code, stdout and stderr.
fn decode(args: &[&str]) -> (i32, String, String) {
    run_with_input(&[&["decode"], args].concat(), b"")
}

/// Decodes ids that nothing is said against. Returns stdout.
fn decode_ok(args: &[&str]) -> String {
    let (code, output, errors) = decode(args);
    assert_eq!((code, &*errors), (0, ""), "{args:?}");
    output
}

/// Decodes ids with warnings. Returns stdout and stderr.
fn decode_with_warnings(args: &[&str]) -> (String, String) {
    let (code, output, errors) = decode(args);
    assert_eq!(code, 0, "{args:?}: {errors}");
    (output, errors)
}

fn parse_lines(output: &str) -> Vec<Value> {
    let lines = output.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Rows A5, B8 and C5: ids are read back.
#[test]
fn a5_b8_c5_decode_by_a_preset_prints_time_and_parts() {
    let args = [
        "225912364279812097",
        "--preset",
        "twitter",
        "--epoch",
        "2016-01-01",
    ];
    assert_eq!(
        decode_ok(&args),
        "225912364279812097: 2017-09-15T09:35:04.893Z, tick 53861704893, dc 2, worker 5, seq 1\n"
    );
    assert_eq!(
        decode_ok(&["1169786042799259001", "--preset", "leaf"]),
        "1169786042799259001: 2019-09-06T01:35:00.834Z, tick 278898726177, worker 39, seq 3449\n"
    );
    let layout = "0:1,time:29,worker:21,seq:13";
    let args = ["180363646902239241", "--layout", layout, "--unit", "1s"];
    assert_eq!(
        decode_ok(&[&args[..], &["--epoch", "1474300800000"]].concat()),
        "180363646902239241: 2017-01-19T04:15:46.000Z, tick 10498546, worker 4, seq 9\n"
    );
}

/// Row B11: the line of the founding text.
#[test]
fn b11_decode_long_prints_the_line_of_the_founding_text() {
    let args = [
        "225912364279812097",
        "--preset",
        "twitter",
        "--epoch",
        "1451606400000",
        "--long",
    ];
    assert_eq!(
        decode_ok(&args),
        "225912364279812097: 2017-09-15T09:35:04.893Z, #1, @(2,5) => id: 225912364279812097, \
         hex: 03229A192F445001, bin: \
         0|00000110010001010011010000110010010111101|00010|00101|000000000001\n"
    );
}

#[test]
fn decode_json_has_ids_as_strings_and_a_line_each() {
    let (output, _) = decode_with_warnings(&[
        "-9223372036854771711",
        "hex:ff",
        "--preset",
        "crate:snowflaked",
        "--json",
    ]);
    let lines = parse_lines(&output);
    assert_eq!(
        lines[0],
        json!({
            "text": "-9223372036854771711", "form": "dec", "id": "9223372036854779905",
            "time": "2039-09-07T15:47:35.552Z", "time_ms": 2_199_023_255_552u64,
            "tick": 2_199_023_255_552u64, "dc": null, "worker": 1, "lane": null, "seq": 1,
            "rand": null, "candidates": [], "warnings": lines[0]["warnings"],
        })
    );
    assert_eq!(lines[1]["id"], "255");
    assert_eq!(lines[1]["seq"], 255);
    assert_eq!(lines.len(), 2);
}

#[test]
fn decode_reads_each_form_and_says_which_one() {
    let preset = ["--preset", "twitter", "--epoch", "2016-01-01"];
    for (text, form) in [
        ("225912364279812097", None),
        ("0x03229A192F445001", Some("hex")),
        ("03229a192f445001", Some("hex")),
        ("base36:1psf8zevt0qp", Some("base36")),
    ] {
        let head = form.map_or(String::new(), |form| format!("{text} ({form}) = "));
        let (output, _) = decode_with_warnings(&[&[text], &preset[..]].concat());
        let expected = format!("{head}225912364279812097: 2017-09-15T09:35:04.893Z, ");
        assert!(output.starts_with(&expected), "{output}");
    }
    let (output, warnings) = decode_with_warnings(&[&["068MT34J08M00"], &preset[..]].concat());
    assert!(
        output.starts_with("068MT34J08M00 (base32) = 225912364091068416: 2017-"),
        "{output}"
    );
    assert_eq!(
        warnings,
        "warning: 068MT34J08M00: read as base32, but it can be base36 too; write \
         base36:068MT34J08M00 for that\n"
    );
}

#[test]
fn decode_without_a_preset_lists_the_plausible_ones_with_reasons() {
    let output = decode_ok(&["2006515713954717697"]);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(
        lines[0],
        "2006515713954717697: may be, the most plausible first"
    );
    assert!(
        lines[1].starts_with("  leaf, crate:ferroid:twitter: 2026-01-01T00:00:00.123Z is "),
        "{output}"
    );
    assert!(
        lines[1].ends_with(" days ago, worker 42 of 0 to 1023, seq 1 of 0 to 4095"),
        "{output}"
    );
    assert!(lines.len() > 2, "never one answer: {output}");
    let output = decode_ok(&["2006515713954717697", "--json"]);
    let candidates = &parse_lines(&output)[0]["candidates"];
    assert_eq!(candidates.as_array().unwrap().len(), lines.len() - 1);
    assert_eq!(
        candidates[0]["presets"],
        json!(["leaf", "crate:ferroid:twitter"])
    );
    assert_eq!(candidates[0]["time_ms"], 1_767_225_600_123u64);
    assert_eq!(parse_lines(&output)[0]["time"], Value::Null);
    let output = decode_ok(&["2006515713954717697", "--long"]);
    assert!(
        output
            .contains("\n  leaf, crate:ferroid:twitter: 2026-01-01T00:00:00.123Z, #1, @(42) => id")
    );
}

/// Rows B10, D4, D8 and E2: UUIDs and GUIDs.
#[test]
fn b10_d4_d8_e2_decode_reads_uuids() {
    assert_eq!(
        decode_ok(&["6bd19fe7-7b3d-45a0-bb07-41e46df9242d"]),
        "6bd19fe7-7b3d-45a0-bb07-41e46df9242d: UUID version 4 by RFC 9562: random bits, variant \
         RFC 9562\n"
    );
    assert_eq!(
        decode_ok(&["{00AB32C2-1494-EC11-B3C8-9F6BDECED846}"]),
        "{00AB32C2-1494-EC11-B3C8-9F6BDECED846} (braced) = 00ab32c2-1494-ec11-b3c8-9f6bdeced846: \
         UUID version 14 by RFC 9562: no standard defines this version, variant RFC 9562\n  UUID \
         version 1 as a GUID whose first three parts are little-endian: time and node, \
         2022-02-22T19:22:22.000Z, variant RFC 9562, clock_sequence 13256, node \
         9f:6b:de:ce:d8:46, node_kind random\n"
    );
    let (output, warnings) =
        decode_with_warnings(&["06955b90-01f9-7add-8000-c68a49d9abe4", "--json"]);
    let line = &parse_lines(&output)[0];
    assert_eq!(
        (&line["version"], &line["time"]),
        (&json!(7), &json!("2199-05-19T14:00:58.105Z"))
    );
    assert_eq!(line["candidates"][0]["time"], "2026-01-01T00:00:00.123Z");
    assert_eq!(
        line["candidates"][0]["uuid"],
        "by the draft of 2021, as PyPI uuid7 0.1.0 makes them"
    );
    assert!(
        warnings.contains("is in the future")
            && line["warnings"][0]
                .as_str()
                .unwrap()
                .contains("is in the future")
    );
}

#[test]
fn decode_warns_of_strange_ids() {
    for (args, output_part, warning) in [
        (
            &["9223372036854771713", "--preset", "twitter"][..],
            "2080-07-10T17:30:30.208Z, tick 2199023255551, dc 31, worker 31, seq 1",
            "2080-07-10T17:30:30.208Z is in the future, now is ",
        ),
        (
            &["-4190207", "--preset", "twitter"],
            "2010-11-04T01:42:54.656Z, tick -1, dc 0, worker 1, seq 1",
            "is before the epoch 2010-11-04T01:42:54.657Z",
        ),
        (
            &[
                "-7037132528120987639",
                "--preset",
                "uidgenerator",
                "--epoch",
                "2016-05-20T00:00:00+08:00",
            ],
            "worker 4, seq 9",
            "is after 2024-11-20T13:24:16.000Z, the end of the layout",
        ),
        (
            &["2006515713954717696", "--preset", "leaf"],
            "worker 42, seq 0",
            "JavaScript may have rounded it",
        ),
        (
            &["29649125613993263362", "--preset", "npm:sonyflake"],
            "2026-01-01T00:00:00.123Z, tick 1767225600123, worker 258, seq 1",
            "has 65 bits: an id has at most 64; npm sonyflake 1.1.2 makes such ids",
        ),
        (
            &["600114305634926850", "--preset", "sonyflake"],
            "2026-01-01T00:00:00.120Z, tick 35769600012, worker 258, seq 0",
            "--preset sonyflake: packages of this name differ: npm:sonyflake, pypi:sonyflake-turbo",
        ),
    ] {
        let (output, errors) = decode_with_warnings(args);
        assert!(output.contains(output_part), "{args:?}: {output}");
        assert!(
            errors.starts_with("warning: ") && errors.contains(warning),
            "{args:?}: {errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{errors}");
        let (json, _) = decode_with_warnings(&[args, &["--json"]].concat());
        let text = parse_lines(&json)[0]["warnings"].to_string();
        assert!(text.contains(warning), "{text}");
    }
}

#[test]
fn decode_warns_of_wide_ids_as_of_others() {
    let wide = "29649125613993263362";
    let future = ["--preset", "npm:sonyflake", "--epoch", "1980-01-01"];
    for (id, flags, time, warning) in [
        (
            wide,
            &future[..],
            "2036-01-01T00:00:00.123Z",
            "is in the future",
        ),
        (
            "29649125613993263104",
            &future[..2],
            "2026-01-01T00:00:00.123Z",
            "JavaScript may have rounded it",
        ),
    ] {
        let (output, errors) = decode_with_warnings(&[&[id], flags].concat());
        assert!(output.contains(time), "{id}: {output}");
        assert!(errors.contains(warning), "{id}: {errors}");
    }
}

#[test]
fn decode_continues_after_bad_ids_and_reports_them() {
    let (code, output, errors) = decode(&["1", "abc", "2", "--preset", "js"]);
    assert_eq!(code, 2);
    assert_eq!(
        output,
        "1: 2026-01-01T00:00:00.000Z, tick 0, worker 0, seq 1\n\
         2: 2026-01-01T00:00:00.000Z, tick 0, worker 0, seq 2\n"
    );
    let lines: Vec<&str> = errors.lines().collect();
    assert!(
        lines[0].starts_with("error: abc: \"abc\" is no id in any form: "),
        "{errors}"
    );
    assert_eq!(
        lines[1],
        "error: 1 of 3 ids could not be decoded: see the lines above; correct these ids"
    );
    // Lines of stdin, with ends of both kinds, a blank line, one too long, and one that is no text.
    let long = "0".repeat(5_000);
    let input = [b"1\r\n\n", long.as_bytes(), b"\n\xff\xfe\n 2 \n3"].concat();
    let (code, output, errors) = run_with_input(&["decode", "-", "4", "--preset", "js"], &input);
    assert_eq!(code, 2);
    let ids: Vec<_> = output
        .lines()
        .map(|line| line.split(':').next().unwrap())
        .collect();
    assert_eq!(ids, ["1", "2", "3", "4"]);
    assert!(errors.contains("000…\" is no id"), "{errors}");
    assert!(errors.ends_with(
        "error: 2 of 6 ids could not be decoded: see the lines above; correct these ids\n"
    ));
    let (code, output, errors) = run_with_input(&["decode", "-"], b"");
    assert_eq!((code, &*output, &*errors), (0, "", ""));
}

#[test]
fn decode_bad_input_names_the_fault_and_an_example() {
    for (args, parts) in [
        (
            &[""][..],
            &["the id is empty", "for example 225912364091068416"][..],
        ),
        (
            &["base32:068MU"],
            &[
                "'U' is no character of base32",
                "character 5",
                "for example",
            ],
        ),
        (
            &["dec:12x"],
            &["'x' is no character of dec: character 3", "0 to 9"],
        ),
        (&["0xfg"], &["'g' is no character of hex"]),
        (&["abc"], &["is no id in any form", "base36:1psf8zbrfl6o"]),
        (
            &["340282366920938463463374607431768211456"],
            &["too large", "128 bits"],
        ),
        (
            &["340282366920938463463374607431768211455"],
            &["has 128 bits: an id has at most 64"],
        ),
        (
            &["29649125613993263362", "--preset", "twitter"],
            &["has 65 bits", "npm sonyflake"],
        ),
        (
            &["-9223372036854775809"],
            &["too small", "-9223372036854775808"],
        ),
        (
            &["-1"],
            &[
                "no preset reads 18446744073709551615 as a time",
                "--preset uidgenerator --epoch",
            ],
        ),
        (
            &["9223372036854771712", "--preset", "js"],
            &["bit 62 of 0 to 63 is 1, and it is 0"],
        ),
        (
            &["5", "--preset", "yitter"],
            &[
                "--preset",
                "npm:simple-flakeid, crate:idgenerator, crate:idgenerator:6-6, which differ",
            ],
        ),
        (
            &["5", "--preset", "Sonyflake"],
            &["it may mean sonyflake, npm:sonyflake, pypi:sonyflake-turbo"],
        ),
        (
            &["5", "--preset", "nothing"],
            &["no preset is named \"nothing\"", "twitter"],
        ),
        (
            &["5", "--preset", "npm:nodejs-snowflake"],
            &[
                "needs an epoch",
                "the moment at which its object was made",
                "such as 2026-01-01",
            ],
        ),
        (
            &["5", "--preset", "js", "--layout", "time:41,seq:12"],
            &["cannot be used with"],
        ),
        (
            &["5", "--preset", "js", "--unit", "1s"],
            &["--unit needs --layout", "for example"],
        ),
        (
            &["5", "--layout", "time:41,seq:12"],
            &["--layout needs --epoch", "for example"],
        ),
        (
            &["5", "--layout", "time:4,seq:12", "--epoch", "0"],
            &["--layout", "it may have 20 to 63", "time:41"],
        ),
        (
            &[
                "5",
                "--layout",
                "0:1,time:41,worker:13,seq:12",
                "--epoch",
                "0",
            ],
            &["are 67 bits", "as in"],
        ),
        (
            &["5", "--layout", "", "--epoch", "0"],
            &["is no field of a layout", "for example"],
        ),
        (
            &["5", "--epoch", "2026-01-01"],
            &["--epoch needs --preset or --layout", "for example"],
        ),
        (
            &["5", "--preset", "js", "--epoch", "2026-13-01"],
            &[
                "--epoch",
                "a date of 1970-01-01 to 9999-12-31",
                "2026-01-01",
            ],
        ),
        (
            &["5", "--preset", "js", "--epoch", "253402300800000"],
            &["after the year 9999", "for example"],
        ),
        (
            &[
                "5",
                "--layout",
                "time:41,seq:12",
                "--epoch",
                "0",
                "--unit",
                "0ms",
            ],
            &["--unit", "1ms to 3600000ms", "10ms or 1s"],
        ),
        (
            &[
                "5",
                "--layout",
                "time:41,seq:12",
                "--epoch",
                "0",
                "--unit",
                "1h",
            ],
            &["\"1h\" is no unit"],
        ),
        (&["5", "--long", "--json"], &["cannot be used with"]),
        (&[], &["<ID>"]),
    ] {
        let (code, output, errors) = decode(args);
        assert_eq!((code, &*output), (2, ""), "{args:?}: {errors}");
        for part in parts {
            assert!(errors.contains(part), "{args:?} without {part:?}: {errors}");
        }
    }
}
