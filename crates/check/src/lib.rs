//! History format and exact checker.
//!
//! A load test records every call on every sequence: its begin, its end, and the answer. This crate
//! writes such a history, reads it back and reports whether the promise was kept: no number is
//! handed out twice, real-time order holds, epochs never fall, `current` is true.
//!
//! How data passes through:
//!
//! 1. A test creates [`Call`]s and gives them to a [`Recorder`], which writes one line for each
//!    (format: [`history`]).
//! 2. [`check_file`] reads the lines ([`HistoryReader`]) and packs each answered call into 48
//!    bytes, with a number for its sequence.
//! 3. It sorts the packed calls by sequence and sweeps them once by time and once by number.
//! 4. The [`Report`] names the calls that convict and the [`Rule`] that they break. The rules are
//!    in [`rule`].
//!
//! What it may not know: servers, clients, protocols. It shares no code with them: a checker that
//! reused the rules of the system under test would share its mistakes. It reads no clock either:
//! both stamps of a call come from the caller.

mod call;
mod error;
mod explain;
pub mod history;
mod intake;
mod reader;
mod recorder;
mod report;
mod row;
pub mod rule;
mod sequence;
mod sweep;

pub use call::{Answer, Call, Kind, Outcome};
pub use error::{Error, LineProblem};
pub use reader::HistoryReader;
pub use recorder::Recorder;
pub use report::{CitedCall, Report, Violation};
pub use rule::Rule;
pub use sequence::Sequence;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Checks a history file.
///
/// It needs 48 bytes of memory for each answered call, 16 more for each call of the longest
/// sequence, and the name of each sequence once.
///
/// # Errors
/// The file cannot be read, or a line is not part of a history; the error names the line. Broken
/// rules are no error: they are in the report.
pub fn check_file(path: impl AsRef<Path>) -> Result<Report, Error> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|source| Error::Open {
        path: path.to_owned(),
        source,
    })?;
    let mut reader = HistoryReader::new(BufReader::with_capacity(1 << 20, file))?;
    let mut collector = intake::CallCollector::default();
    while let Some((line, parsed)) = reader.next_parsed()? {
        collector.add_call(line, parsed.sequence, parsed.begin, &parsed.outcome)?;
    }
    Ok(collector.finish())
}

/// Checks calls in memory; "line" n of the report is the n-th call, counted from 1.
///
/// # Errors
/// A call ends before it begins, or there are more calls or sequences than the checker can number.
pub fn check(calls: &[Call]) -> Result<Report, Error> {
    let mut collector = intake::CallCollector::default();
    for (line, call) in (1..).zip(calls) {
        if let Some(problem) = call.find_problem() {
            return Err(Error::Line { line, problem });
        }
        collector.add_call(line, call.sequence.as_str(), call.begin, &call.outcome)?;
    }
    Ok(collector.finish())
}
