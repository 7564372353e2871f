//! History format and exact checker.
//!
//! A load test records every call it made on every sequence: when it began, when it ended, what
//! was answered. This crate writes such a history, reads it back and says whether the promise was
//! kept: no number handed out twice, real-time order, epochs that never fall, `current` true.
//!
//! The way through: a test fills [`Call`]s and gives them to a [`Recorder`], which writes one line
//! each (format: [`history`]); [`check_file`] reads the lines ([`Reader`]), packs the answered
//! calls into compact rows with interned sequences, sorts them per sequence and sweeps them
//! once by time and once by number; the [`Report`] names the calls that convict and the [`Rule`]
//! they break. The rules are in [`rule`].
//!
//! It knows nothing of servers, clients or protocols and shares no code with them: a checker that
//! reused the rules of the accused would share their mistakes. It reads no clock either: both
//! stamps of a call come from whoever made it.

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
pub use error::{Error, Problem};
pub use reader::Reader;
pub use recorder::Recorder;
pub use report::{Cited, Report, Violation};
pub use rule::Rule;
pub use sequence::Sequence;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Checks a history file.
///
/// Takes 48 bytes of memory for each answered call, 16 more for each call of the longest
/// sequence, and the names of the sequences once.
///
/// # Errors
/// The file cannot be read, or a line is not part of a history; the error names the line. Broken
/// promises are no error: they are in the report.
pub fn check_file(path: impl AsRef<Path>) -> Result<Report, Error> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|source| Error::Open {
        path: path.to_owned(),
        source,
    })?;
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, file))?;
    let mut intake = intake::Intake::default();
    while let Some((line, parsed)) = reader.next_line()? {
        intake.add(line, parsed.sequence, parsed.begin, &parsed.outcome)?;
    }
    Ok(intake.finish())
}

/// Checks calls held in memory; "line" n of the report is the n-th call, counted from 1.
///
/// # Errors
/// A call ends before it begins, or there are more calls or sequences than the checker can number.
pub fn check(calls: &[Call]) -> Result<Report, Error> {
    let mut intake = intake::Intake::default();
    for (line, call) in (1..).zip(calls) {
        if let Some(problem) = call.problem() {
            return Err(Error::Line { line, problem });
        }
        intake.add(line, call.sequence.as_str(), call.begin, &call.outcome)?;
    }
    Ok(intake.finish())
}
