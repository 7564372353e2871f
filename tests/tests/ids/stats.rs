//! `seqsvr id stats`.

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{clean_command, run_with_input};

/// Epoch of preset `twitter`.
const TWITTER_MS: u64 = 1_288_834_974_657;
/// 2026-01-01T00:00:00Z.
const NEW_YEAR_MS: u64 = 1_767_225_600_000;

/// Returns an id of preset `twitter`.
fn twitter_id(unix_ms: u64, dc: u64, worker: u64, seq: u64) -> u64 {
    (unix_ms - TWITTER_MS) << 22 | dc << 17 | worker << 12 | seq
}

/// Ids of two workers: one a second for a minute, and a burst in the tenth second.
fn busy_minute() -> String {
    let mut text = String::from("order,buyer\r\n");
    for second in 0..60 {
        let id = twitter_id(NEW_YEAR_MS + second * 1_000, 0, second % 2, 0);
        writeln!(text, "{id},alice\r").unwrap();
    }
    for seq in 0..100 {
        let id = twitter_id(NEW_YEAR_MS + 10_500, 3, 7, 4_095 - seq);
        writeln!(text, "\"{id}\",bob\r").unwrap();
    }
    text
}

#[test]
fn row_b8_busy_curve_and_shares_are_printed() {
    let text = busy_minute();
    let args = ["id", "stats", "-", "--preset", "twitter", "--check"];
    let (code, out, errors) = run_with_input(&args, text.as_bytes());
    assert_eq!((code, &errors[..]), (0, ""));
    let expected = "\
header        \"order\" (line 1)
ids           160
first         2026-01-01T00:00:00.000Z
last          2026-01-01T00:00:59.000Z
full ticks    1 (ids with seq 4095)
duplicates    0
out of order  100, at most 48.500 s behind one before

ids in each 10 s; most in 10 s: 110, from 2026-01-01T00:00:10.000Z on:
2026-01-01T00:00:00.000Z           10 #####
2026-01-01T00:00:10.000Z          110 ##################################################
2026-01-01T00:00:20.000Z           10 #####
2026-01-01T00:00:30.000Z           10 #####
2026-01-01T00:00:40.000Z           10 #####
2026-01-01T00:00:50.000Z           10 #####

ids of 3 workers:
dc 3 worker 7             62.5 %          100
dc 0 worker 0             18.8 %           30
dc 0 worker 1             18.8 %           30
";
    assert_eq!(out, expected);
    let (code, out, _) = run_with_input(
        &["id", "stats", "-", "--preset", "twitter", "--by", "second"],
        text.as_bytes(),
    );
    assert_eq!(code, 0);
    let chart = "\
ids in each 2 s; most in 1 s: 101, from 2026-01-01T00:00:10.000Z on:
2026-01-01T00:00:00.000Z            2 #
";
    assert!(out.contains(chart), "{out}");
}

#[test]
fn layout_in_place_of_a_preset_reads_the_same() {
    let text = busy_minute();
    let by_preset = run_with_input(
        &["id", "stats", "-", "--preset", "twitter"],
        text.as_bytes(),
    );
    let epoch = TWITTER_MS.to_string();
    let layout = "0:1,time:41,dc:5,worker:5,seq:12";
    let flags = ["id", "stats", "-", "--layout", layout, "--epoch", &epoch];
    let flags = [&flags[..], &["--unit", "1ms"]].concat();
    assert_eq!(run_with_input(&flags, text.as_bytes()), by_preset);
}

#[test]
fn times_that_no_clock_gave_are_a_warning() {
    let args = ["id", "stats", "-", "--preset", "twitter", "--epoch"];
    for (epoch, is_warned) in [
        ("2000-01-01", true),
        ("2200-01-01", true),
        ("2011-01-01", false),
    ] {
        let args = [&args[..], &[epoch]].concat();
        let (code, _, errors) = run_with_input(&args, b"4194304\n");
        assert_eq!(code, 0, "{errors}");
        assert_eq!(
            errors.contains("before 2006 or in the future"),
            is_warned,
            "{errors}"
        );
    }
}

#[test]
fn many_workers_end_in_a_sum() {
    let ids = (0..1_000).map(|n| twitter_id(NEW_YEAR_MS, n % 32, n / 32, 0));
    let text: String = ids.map(|id| format!("{id}\n")).collect();
    let args = ["id", "stats", "-", "--preset", "twitter"];
    let (_, out, _) = run_with_input(&args, text.as_bytes());
    let shares: Vec<&str> = out
        .lines()
        .skip_while(|line| !line.starts_with("ids of"))
        .collect();
    assert_eq!(shares.len(), 22, "{out}");
    assert_eq!(shares[0], "ids of 1000 workers:");
    assert_eq!(shares[21], "980 others                98.0 %          980");
}

#[test]
fn duplicates_of_bare_numbers_end_with_code_1() {
    let args = ["id", "stats", "-", "--check"];
    let (code, out, errors) = run_with_input(&args, b"7\n\n3\n9\n3\n3\n7\n");
    let expected = "\
ids           6
duplicates    3: 3 (3 times), 7 (2 times)
out of order  4
";
    assert_eq!((code, &out[..]), (1, expected), "{errors}");
    assert!(errors.contains("3 ids repeat an earlier one"), "{errors}");
    for id in [
        "0192f3a0-4b5c-7d8e-9fa0-b1c2d3e4f506",
        "0192f3a04b5c7d8e9fa0b1c2d3e4f506",
        "00000000000000ff",
        "-17",
    ] {
        let (code, out, _) = run_with_input(&args, format!("{id}\n{id}\n").as_bytes());
        let named = if id == "-17" {
            "18446744073709551599"
        } else {
            id
        };
        let line = format!("\nduplicates    1: {named} (2 times)\n");
        assert!(code == 1 && out.contains(&line), "{out}");
    }
}

#[test]
fn unusable_input_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let check = ["id", "stats", "-", "--check"];
    let twitter = ["id", "stats", "-", "--preset", "twitter"];
    for (args, input, words) in [
        (&check[..], &b""[..], "-: there is no id; write one a line"),
        (&check, b"id\n\n", "-: there is no id"),
        (
            &check,
            b"id\n1\n2\nthree\n4\n",
            "-, line 4: 't' is no character of dec",
        ),
        (&check, b"1.7e18\n1.8e18\n", "-, line 1: "),
        (&check, b"+5\n5\n", "-, line 1: "),
        (&check, b"5\n+5\n", "-, line 2: "),
        (&check, b"oops123\n124\n", "-, line 1: "),
        (&check, b"5,x\r4,x\r3,y\r", "carriage return inside"),
        (
            &check,
            b"\"22591236409106841x\"\n225912364091068418\n",
            "-, line 1: ",
        ),
        (
            &twitter,
            b"1\n18446744073709551615\n",
            "-, line 2: 18446744073709551615 is no id",
        ),
        (
            &twitter,
            b"1\n18446744073709551616\n",
            "-, line 2: 18446744073709551616 has 65 bits",
        ),
        (
            &["id", "stats", "-"],
            b"1\n",
            "add for example --preset twitter",
        ),
        (
            &["id", "stats", "-", "--check", "--by", "day"],
            b"1\n",
            "only --check alone",
        ),
        (
            &["id", "stats", path, "--check"],
            b"",
            "cannot be read: Is a directory",
        ),
        (
            &["id", "stats", "/no/such", "--check"],
            b"",
            "/no/such: cannot be read: No such file",
        ),
        (
            &["id", "stats", "-", "--check", "--form", "x"],
            b"",
            "forms are dec, hex",
        ),
        (
            &["id", "stats", "-", "--preset", "uidgenerator"],
            b"1\n",
            "needs an epoch",
        ),
        (
            &[
                "id",
                "stats",
                "-",
                "--layout",
                "seq:12",
                "--epoch",
                "2026-01-01",
            ],
            b"",
            "time",
        ),
        (
            &["id", "stats", "-", "--check", "--epoch", "soon"],
            b"",
            "soon",
        ),
        (
            &["id", "stats", "-", "--check", "--epoch", "2026-01-01"],
            b"",
            "--epoch needs --preset or --layout",
        ),
    ] {
        let (code, out, errors) = run_with_input(args, input);
        assert_eq!((code, &out[..]), (2, ""), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
}

/// Schedule: the input is a pipe that stays open, or a large file that has no lines.
#[test]
fn line_above_the_bound_is_rejected_before_its_end() {
    let mut child = clean_command(&["id", "stats", "-", "--check"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&[b'1'; (1 << 20) + 2]).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("-, line 1: it is above 1048576 bytes"),
        "{errors}"
    );
    drop(input);
}

/// Prints time and memory, for the pages that state them.
#[test]
#[ignore = "takes three minutes and a gigabyte of disk"]
fn hundred_million_ids_are_checked_in_bounded_memory() {
    const IDS: u64 = 100_000_000;
    const MEMORY_KIB_MAX: u64 = 150_000;
    let mut command = clean_command(&["id", "stats", "-", "--preset", "twitter", "--check"]);
    let started = Instant::now();
    let mut child = command
        .args(["--tmp", "/var/tmp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = BufWriter::with_capacity(1 << 20, child.stdin.take().unwrap());
    let writer = std::thread::spawn(move || {
        // An odd factor visits every number below 2^27 once: the ids are far from sorted.
        let numbers = (0..IDS).map(|n| n.wrapping_mul(0x2545_F491) % (1 << 27));
        for n in numbers.chain([0]) {
            let ms = NEW_YEAR_MS + (n >> 12);
            writeln!(input, "{}", twitter_id(ms, 0, n & 15, n & 4_095)).unwrap();
        }
        input.flush().unwrap();
    });
    let status = format!("/proc/{}/status", child.id());
    let mut memory_kib = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        memory_kib = kib.unwrap_or(memory_kib);
        std::thread::sleep(Duration::from_millis(20));
    }
    writer.join().unwrap();
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    println!("{out}\n{:?}, VmHWM {memory_kib} KiB", started.elapsed());
    assert!(
        out.contains(&format!("ids           {}\n", IDS + 1)),
        "{out}"
    );
    assert!(out.contains("\nduplicates    1: "), "{out}");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        (1..MEMORY_KIB_MAX).contains(&memory_kib),
        "{memory_kib} KiB"
    );
}
