//! The history format: many threads record and the reader reads back the same calls. The reader
//! rejects other input with the line and the reason.

mod common;

use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;

use proptest::prelude::*;
use seqsvr_check::{
    CallAnswer, CallOutcome, Error, HistoryReader, HistoryRecorder, RecordedCall, SequenceName,
    check_file,
};

fn scratch_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn read_calls(text: &str) -> Result<Vec<RecordedCall>, Error> {
    HistoryReader::new(text.as_bytes())?
        .map(|item| item.map(|(_, call)| call))
        .collect()
}

proptest! {
    #[test]
    fn reader_returns_recorded_calls(
        steps in common::random_steps(30),
        changes in common::random_changes(),
        key in prop::collection::vec(any::<u8>(), 0..128),
        stride in any::<u64>(),
    ) {
        let mut calls = common::truthful_history(&steps, 3);
        common::apply_changes(&mut calls, &changes);
        calls.push(RecordedCall {
            sequence: SequenceName::for_key("a namespace/with # all%", key),
            begin: 0,
            outcome: CallOutcome::Ok {
                end: u64::MAX,
                epoch: Some(u64::MAX),
                answer: CallAnswer::Next {
                    first: 0,
                    last: u64::MAX,
                    stride: NonZeroU64::new(stride).unwrap_or(NonZeroU64::MIN),
                },
            },
        });
        let lines: Vec<_> = calls.iter().map(|call| format!("{call}\n")).collect();
        prop_assert!(lines.iter().all(|line| line.len() <= seqsvr_check::history::LINE_MAX));
        let text = format!("seqsvr-history 1\n{}", lines.concat());
        prop_assert_eq!(read_calls(&text).unwrap(), calls);
    }
}

#[test]
fn recorder_clones_of_many_threads_write_one_history() {
    let path = scratch_path("threads.history");
    let recorder = HistoryRecorder::create(&path).unwrap();
    let threads: Vec<_> = (0..8_u64)
        .map(|thread| {
            let mut recorder = recorder.clone();
            std::thread::spawn(move || {
                for number in 1..=5_000 {
                    let outcome = CallOutcome::Ok {
                        end: 10 * number + 5,
                        epoch: Some(1),
                        answer: CallAnswer::next_range(number, number),
                    };
                    let sequence = SequenceName::for_uid("default", thread);
                    let call = RecordedCall {
                        sequence,
                        begin: 10 * number,
                        outcome,
                    };
                    recorder.record(&call).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(recorder.finish().unwrap(), 40_000);
    let report = check_file(&path).unwrap();
    assert!(report.is_ok(), "{report}");
    assert_eq!((report.calls, report.sequences), (40_000, 8));
    assert_eq!(report.ordered_pairs, 8 * 5_000 * 4_999 / 2);
    assert_eq!(report.concurrency_max, 1);
}

#[test]
fn finish_with_live_clones_is_rejected() {
    let recorder = HistoryRecorder::new(io::sink()).unwrap();
    let _other = recorder.clone();
    assert!(matches!(recorder.finish(), Err(Error::StillRecording(1))));
}

/// Output that accepts the header, is full for one write, then has space again.
struct DiskFullOnce {
    writes: u32,
}

impl Write for DiskFullOnce {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes += 1;
        // The header may take two writes: the text and its newline.
        match bytes.len() > 1_000 && self.writes < 5 {
            true => Err(io::Error::from(io::ErrorKind::StorageFull)),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn finish_after_a_failed_write_is_rejected() {
    let mut recorder = HistoryRecorder::new(DiskFullOnce { writes: 0 }).unwrap();
    let call = &read_calls("seqsvr-history 1\nd/1 1 2 1 1 1 next ok\n").unwrap()[0];
    let failed = (0..100_000).find_map(|_| recorder.record(call).err());
    assert!(matches!(failed, Some(Error::Write(_))));
    assert!(matches!(recorder.finish(), Err(Error::Write(_))));
}

#[test]
fn reader_rejects_malformed_input_with_its_line() {
    let long = format!("d/{} 1 2 1 1 1 next ok", "k".repeat(5_000));
    let cases = [
        ("d/1 1 2 1 1 1 next", "expected 8 or 9 columns"),
        ("d/1 1 2 1 1 1 next ok 1 1", "found 10"),
        ("42 1 2 1 1 1 next ok", "`42` is not a sequence"),
        ("d/%41 1 2 1 1 1 next ok", "`d/%41` is not a sequence"),
        ("d/1 -1 2 1 1 1 next ok", "begin: `-1` is not a number"),
        ("d/1 1 - 1 1 1 next ok", "end: `-` is not a number"),
        ("d/1 3 2 1 1 1 next ok", "end 2 is before begin 3"),
        ("d/1 1 2 - 1 1 next ok", "first: `-` is not a number"),
        (
            "d/1 1 2 1 18446744073709551616 1 next ok",
            "last: `18446744073709551616`",
        ),
        (
            "d/1 1 2 1 1 x next ok",
            "epoch: `x` is not a number from 0 to 2^64-1, nor `-`",
        ),
        ("d/1 1 2 1 1 1 nxt ok", "kind: `nxt`"),
        ("d/1 1 2 1 1 1 current ok", "kind: an answered current is"),
        ("d/1 1 2 1 1 1 next good", "outcome: `good`"),
        (
            "d/1 1 2 - - - next unknown",
            "a call with the outcome unknown has no end",
        ),
        ("d/1 1 - - - - next error", "end: `-` is not a number"),
        (
            "d/1 1 2 0 0 1 current-never ok",
            "current-never names no number",
        ),
        ("d/1 1 2 3 4 1 current-exact ok", "found 3 and 4"),
        ("d/1 1 2 1 1 1 next ok 0", "stride: must be at least 1"),
        (long.as_str(), "longer than 4096 bytes"),
    ];
    for (line, reason) in cases {
        let text = format!("seqsvr-history 1\nd/1 1 2 1 1 1 next ok\n{line}\n");
        let error = read_calls(&text).unwrap_err().to_string();
        assert!(
            error.starts_with("line 3: ") && error.contains(reason),
            "{line}: {error}"
        );
    }
    // A truncated number would still be a number.
    let cut = read_calls("seqsvr-history 1\nd/1 1 2 1 1 1 next ok")
        .unwrap_err()
        .to_string();
    assert!(
        cut.contains("line 2: the last line has no newline"),
        "{cut}"
    );
    for text in ["", "\n", "seqsvr-history 2\n", "d/1 1 2 1 1 1 next ok\n"] {
        let error = read_calls(text).unwrap_err().to_string();
        assert!(error.contains("header `seqsvr-history 1`"), "{error}");
    }
    assert!(
        HistoryReader::new(&b"seqsvr-history 1\nd/\xff 1 2 1 1 1 next ok\n"[..])
            .unwrap()
            .next()
            .unwrap()
            .is_err()
    );
}

#[test]
fn example_in_the_documentation_is_a_history() {
    let source = include_str!("../src/history/history_format.rs");
    let example = source.split("//! ```").nth(1).unwrap();
    let example = example.trim_start_matches("text\n").replace("//! ", "");
    assert_eq!(read_calls(&example).unwrap().len(), 4);
}
