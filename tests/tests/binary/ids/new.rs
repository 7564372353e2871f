//! `seqsvr id new`: kinds, flags, and that no id repeats.
//!
//! The large ones: `cargo test -p seqsvr-tests --test binary ids::new -- --ignored --nocapture`.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Instant;

use super::{assert_bad_input, run_ok};
use crate::dev::clean_command;

/// Ids of a large test of one kind.
const MANY: u64 = 10_000_000;

fn make(args: &str, count: u64) -> Vec<String> {
    let count = count.to_string();
    let mut all = vec!["id", "new"];
    all.extend(args.split(' '));
    all.extend(["--count", &count]);
    run_ok(&all).lines().map(str::to_owned).collect()
}

#[test]
fn b10_e2_uuids_of_each_version_are_made() {
    for (kind, version) in [
        ("uuid1", '1'),
        ("uuid4", '4'),
        ("uuid6", '6'),
        ("uuid7", '7'),
        ("uuid8 --worker 3", '8'),
    ] {
        let made = make(kind, 3_000);
        for text in &made {
            assert_eq!(text.len(), 36, "{kind}: {text}");
            assert_eq!(text.chars().nth(14), Some(version), "{kind}: {text}");
        }
        assert_eq!(made.iter().collect::<HashSet<_>>().len(), 3_000, "{kind}");
        let rises = made.is_sorted_by(|a, b| a < b);
        assert!(rises || !"678".contains(version), "{kind}");
    }
    // RFC 9562, A.2 and A.4.
    let named = |kind| run_ok(&["id", "new", kind, "dns", "www.example.com"]);
    assert_eq!(named("uuid3"), "5df41881-3aed-3515-88a7-2f4a814cf09e\n");
    assert_eq!(named("uuid5"), "2ed6657d-e927-568b-95e1-2665a8aea6a2\n");
}

/// The node of version 1 is that of the process, and of no network card.
#[test]
fn d8_e2_uuid1_has_a_node_of_the_process() {
    let nodes = |made: Vec<String>| {
        let nodes = made.iter().map(|text| text[24..].to_owned());
        nodes.collect::<HashSet<_>>()
    };
    let (one, other) = (nodes(make("uuid1", 100)), nodes(make("uuid1", 100)));
    assert_eq!((one.len(), other.len()), (1, 1));
    assert!(one.is_disjoint(&other));
    for node in one.iter().chain(&other) {
        let first = u8::from_str_radix(&node[..2], 16).unwrap();
        assert_eq!(first & 1, 1, "{node} may be a network card");
    }
}

#[test]
fn d4_guid_has_the_form_of_windows() {
    let guid = make("guid", 1).remove(0);
    assert!(guid.starts_with('{') && guid.ends_with('}'), "{guid}");
    assert_eq!((guid.len(), guid.to_uppercase()), (38, guid.clone()));
}

#[test]
fn d1_d6_stamps_rise_or_fall() {
    let rising = make("stamp", 1_000);
    assert!(rising.is_sorted_by(|a, b| a < b));
    assert!(rising.iter().all(|stamp| stamp.len() == 19 + 4));
    let falling = make("stamp --falling --digits 9", 1_000);
    assert!(falling.is_sorted_by(|a, b| a > b));
    assert!(falling.iter().all(|stamp| stamp.len() == 19 + 9));
}

#[test]
fn c2_presets_make_their_ids_under_each_policy() {
    for policy in [
        "refuse",
        "wait",
        "hold",
        "ahead",
        "rollback-bits",
        "timelines",
    ] {
        let made = make(
            &format!("twitter --dc 1 --worker 2 --policy {policy}"),
            5_000,
        );
        let ids: Vec<u64> = made.iter().map(|text| text.parse().unwrap()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{policy}");
        for id in ids {
            assert_eq!(id >> 12 & 0x3ff, 1 << 5 | 2, "{policy}: {id}");
        }
    }
    // The least number of a tick is 5.
    for id in make("crate:idgenerator --worker 7", 1_000) {
        let id: u64 = id.parse().unwrap();
        assert!(id & 0xff >= 5 && id >> 8 & 0xff == 7, "{id}");
    }
    let base62 = make("snowflake --worker 3 --form base62", 100);
    assert!(base62.iter().all(|id| id.len() == 11) && base62.is_sorted_by(|a, b| a < b));
    let seconds = make("uidgenerator --epoch 2026-01-01 --worker 4", 2);
    let seconds: Vec<u64> = seconds.iter().map(|id| id.parse().unwrap()).collect();
    assert_eq!(seconds[0] >> 13 & 0x3f_ffff, 4);
}

/// In a layout of seconds, and of 10 ms: each process begins with a tick of its own.
#[test]
fn processes_of_one_worker_in_turn_repeat_nothing() {
    for kind in [
        "uidgenerator --epoch 2026-01-01 --worker 3",
        "sonyflake --worker 3",
    ] {
        let made: HashSet<_> = (0..3).flat_map(|_| make(kind, 2)).collect();
        assert_eq!(made.len(), 6, "{kind}: {made:?}");
    }
}

#[test]
fn ids_ahead_of_the_clock_end_with_a_warning() {
    let warning_of = |count| {
        let args = [
            "uidgenerator-cached",
            "--epoch=2026-01-01",
            "--worker=3",
            "--count",
            count,
        ];
        let output = clean_command(&[&["id", "new"], &args[..]].concat())
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    // A second has 8,192 ids.
    assert_eq!(warning_of("2"), "");
    let warning = warning_of("50000");
    assert!(
        warning.contains("may repeat ids if it starts before 20"),
        "{warning}"
    );
}

#[test]
fn b4_worker_comes_from_its_source_with_a_warning() {
    let mut command = clean_command(&["id", "new", "snowflake", "--worker-from", "env:MY_WORKER"]);
    let output = command.env("MY_WORKER", "7").output().unwrap();
    let id = String::from_utf8(output.stdout).unwrap();
    let id: u64 = id.trim_end().parse().unwrap();
    assert_eq!(id >> 12 & 0x3ff, 7);
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("same environment"), "{warning}");
    let mut chosen = clean_command(&["id", "new", "snowflake", "--worker", "7"]);
    assert!(chosen.output().unwrap().stderr.is_empty());
    let new = |args: &[&'static str]| [&["id", "new", "snowflake"], args].concat();
    let from = |source| new(&["--worker-from", source]);
    assert_bad_input(&from("env:MY_NO_WORKER"), &["MY_NO_WORKER is not set"]);
    assert_bad_input(&from("disk"), &["hostname, ip or mac"]);
    assert_bad_input(&new(&["--worker", "1024"]), &["0 to 1023"]);
    assert_bad_input(&new(&["--dc", "1"]), &["dc 1", "no bits"]);
}

#[test]
fn id_new_with_bad_input_names_field_bounds_and_example() {
    for (args, words) in [
        ("uuid2", ["uuid2", "use uuid4 or uuid7"]),
        ("nonsense", ["is no kind", "twitter"]),
        (
            "snowflak --worker 3",
            ["is no kind", "it may mean snowflake"],
        ),
        (
            "uidgenerator --epoch 2010-01-01",
            ["ended on", "give a later epoch"],
        ),
        ("snowflake --epoch 1767225600", ["in seconds", "2026-01-01"]),
        ("uuid5", ["namespace and a name", "uuid5 dns example.com"]),
        (
            "uuid5 here example.com",
            ["\"here\"", "dns, url, oid or x500"],
        ),
        ("uuid5 dns a --count 2", ["--count", "uuid5"]),
        ("uuid4 --worker 1", ["--worker", "uuid4"]),
        ("uuid8 --form hex", ["--form", "uuid8"]),
        ("snowflake --digits 4", ["--digits", "snowflake"]),
        ("stamp --digits 19", ["1 to 18", "example 4"]),
        ("uuid4 --count 0", ["'0'", "1..=1000000000"]),
        ("uuid4 --count 1000000001", ["1000000001", "1..=1000000000"]),
        ("snowflake --form roman", ["roman", "base62"]),
        ("snowflake --policy hope", ["hope", "refuse"]),
        ("snowflake --epoch 2200-01-01", ["--epoch", "2026-01-01"]),
        ("uidgenerator", ["needs an epoch", "2026-01-01"]),
        ("crate:ferroid:mastodon", ["63", "64 bits"]),
    ] {
        let all: Vec<_> = ["id", "new"].into_iter().chain(args.split(' ')).collect();
        assert_bad_input(&all, &words);
    }
}

#[test]
fn id_new_ends_quietly_when_the_pipe_is_closed() {
    let mut command = clean_command(&["id", "new", "uuid4", "--count", "1000000000"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut first).unwrap();
    drop(lines);
    let mut errors = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!((first.len(), &*errors), (37, ""));
}

/// Makes 10^7 ids and finds two that are equal by sorting them.
fn check_unique(args: &str, radix: u32) {
    let begin = Instant::now();
    let count = MANY.to_string();
    let all: Vec<_> = ["id", "new"].into_iter().chain(args.split(' ')).collect();
    let mut command = clean_command(&all);
    let command = command.args(["--count", &count]).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ids: Vec<u128> = lines.map(|line| parse(&line.unwrap(), radix)).collect();
    println!(
        "{args}: {MANY} ids in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    assert!(child.wait().unwrap().success());
    assert_eq!(ids.len() as u64, MANY);
    ids.sort_unstable();
    assert!(
        ids.windows(2).all(|pair| pair[0] != pair[1]),
        "{args} repeats"
    );
}

/// Returns the digits of an id as a number; other characters do not count.
fn parse(text: &str, radix: u32) -> u128 {
    let digits = text.chars().filter_map(|c| c.to_digit(radix));
    digits.fold(0, |number, digit| {
        number * u128::from(radix) + u128::from(digit)
    })
}

#[test]
#[ignore = "10^7 ids of each kind"]
fn id_new_repeats_nothing_in_1e7_ids_of_each_kind() {
    for kind in [
        "uuid1",
        "uuid4",
        "uuid6",
        "uuid7",
        "uuid8 --worker 1",
        "guid",
    ] {
        check_unique(kind, 16);
    }
    for kind in [
        "stamp",
        "stamp --falling",
        "snowflake --worker 1",
        "twitter --worker 1 --policy refuse",
        "leaf --worker 1 --policy wait",
        "snowflake --worker 1 --policy ahead",
        "timelines --worker 1",
        "rollbacks --worker 1",
        "crate:ferroid:twitter --worker 1",
    ] {
        check_unique(kind, 10);
    }
}
