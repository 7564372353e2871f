//! Measures a check of a large history: writes one, checks it, adds a fault and checks again.
//!
//! `cargo run --release -p seqsvr-check --example large_history -- [CALLS] [SEQUENCES] [DIRECTORY]`
//! (default: 20,000,000 calls on 100,000 sequences). It removes the file at the end. It prints
//! seconds, and the peak memory of the process where `/proc` has it.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use seqsvr_check::{
    CallAnswer, CallKind, CallOutcome, HistoryRecorder, HistoryRule, RecordedCall, SequenceName,
    check_file,
};

/// Threads that record, each on its own sequences.
const RECORDER_THREADS: u64 = 2;
/// Calls in flight at once on a sequence.
const CALLS_IN_FLIGHT: u64 = 8;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (calls, sequences) = (number(20_000_000)?, number(100_000)?.max(1));
    let directory = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let path = directory.join(format!("seqsvr-large-{}.history", std::process::id()));
    let result = record_and_check(&path, calls, sequences);
    std::fs::remove_file(&path)?;
    result
}

fn record_and_check(
    path: &Path,
    calls: u64,
    sequences: u64,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let start = Instant::now();
    let recorder = HistoryRecorder::create(path)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..RECORDER_THREADS)
            .map(|thread| {
                let recorder = recorder.clone();
                scope.spawn(move || record_share(recorder, thread, calls, sequences))
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a recorder panicked")?)
    })?;
    let recorded = recorder.finish()?;
    let bytes = std::fs::metadata(path)?.len();
    println!(
        "recorded {recorded} calls, {} MiB, in {:.1} s",
        bytes >> 20,
        start.elapsed().as_secs_f64()
    );
    println!("peak memory after recording: {}", peak_memory());

    let start = Instant::now();
    let report = check_file(path)?;
    println!("{report}");
    println!("checked in {:.1} s", start.elapsed().as_secs_f64());
    println!("peak memory after checking: {}", peak_memory());
    if !report.is_ok() {
        return Err("a truthful history was convicted".into());
    }

    // A low number long after all the others.
    let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
    let end = u64::MAX;
    writeln!(file, "default/0 {} {end} 1 1 9 next ok", end - 1)?;
    let report = check_file(path)?;
    println!("with a planted fault:\n{report}");
    if report.broken_rules.contains_key(&HistoryRule::Order) {
        Ok(())
    } else {
        Err("the planted fault was not seen".into())
    }
}

/// Records the share of one thread: the calls of each round over its sequences, with
/// `CALLS_IN_FLIGHT` rounds that overlap in time.
fn record_share(
    mut recorder: HistoryRecorder,
    thread: u64,
    calls: u64,
    sequences: u64,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let uids = (thread..sequences).step_by(RECORDER_THREADS as usize);
    let names: Vec<_> = uids
        .map(|uid| (uid, SequenceName::for_uid("default", uid)))
        .collect();
    let span = 1_000;
    for round in 0..calls.div_ceil(sequences) {
        let remaining = calls - round * sequences;
        for (uid, sequence) in names.iter().filter(|(uid, _)| *uid < remaining) {
            // A cheap spread of begins and ends around the instant at which the call takes effect.
            let spread = (round * 31 + uid * 17).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            let instant = (round + CALLS_IN_FLIGHT) * span + uid % span;
            let begin = instant - spread % (span * CALLS_IN_FLIGHT / 2);
            let end = instant + (spread >> 8) % (span * CALLS_IN_FLIGHT / 2);
            let last = 3 * (round + 1);
            let answer = match spread % 16 {
                0 => CallAnswer::Exact(last),
                1 => CallAnswer::AtMost(last + 10_000),
                2 => CallAnswer::next_range(last - 2, last),
                _ => CallAnswer::next_range(last, last),
            };
            let outcome = match spread % 1_000 {
                999 => CallOutcome::Unknown {
                    kind: CallKind::Next,
                },
                _ => CallOutcome::Ok {
                    end,
                    epoch: Some(1 + round / 64),
                    answer,
                },
            };
            recorder.record(&RecordedCall {
                sequence: sequence.clone(),
                begin,
                outcome,
            })?;
        }
    }
    Ok(())
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}
