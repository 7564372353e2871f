//! Reasons why a history could not be written, read or held; every error of a line names the line.

use std::io;
use std::path::PathBuf;

/// Reason why a history could not be written, read or held. Broken rules are in the report instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened or created.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file does not begin with the header.
    #[error(
        "line 1: expected the header `{}`, found `{found}`; is this a history of this version?",
        crate::history::HEADER
    )]
    Header {
        /// Beginning of the line in its place.
        found: String,
    },
    /// A line is not a call.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line; the header is line 1.
        line: u64,
        /// Fault of the line.
        problem: LineProblem,
    },
    /// The input cannot be read.
    #[error("line {line}: cannot read: {source}")]
    Read {
        /// Number of the line; the header is line 1.
        line: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The history is larger than the checker can number.
    #[error("line {line}: too many {what} for one check (at most {max}); split the history")]
    TooMany {
        /// Number of the line; the header is line 1.
        line: u64,
        /// Lines or sequences.
        what: &'static str,
        /// Most lines or sequences of one check.
        max: u64,
    },
    /// The output cannot be written; the history is incomplete and must not be checked.
    #[error("cannot write the history, it is not whole: {0}")]
    Write(io::Error),
    /// `Recorder::finish` was called while clones of the recorder were alive.
    #[error("{0} other clones of the recorder still hold calls; drop them before finishing")]
    StillRecording(usize),
}

/// Fault of a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// The line has too few or too many columns.
    #[error("expected 8 or 9 columns ({columns}), found {0}", columns = crate::history::COLUMNS)]
    Columns(usize),
    /// The first column is no sequence.
    #[error("`{0}` is not a sequence (namespace/key, other bytes as %XX in capitals)")]
    Sequence(String),
    /// A column that must be a number is none.
    #[error("{column}: `{found}` is not a number from 0 to 2^64-1{}", if *.may_lack { ", nor `-`" } else { "" })]
    Number {
        /// Name of the column.
        column: &'static str,
        /// Text in its place.
        found: String,
        /// Whether the column may be `-`.
        may_lack: bool,
    },
    /// The kind is unknown.
    #[error(
        "kind: `{0}` is none of next, current, current-exact, current-never, current-at-most, raise-to"
    )]
    Kind(String),
    /// The outcome is unknown.
    #[error("outcome: `{0}` is none of ok, error, unknown")]
    Outcome(String),
    /// An answered `current` does not name its answer.
    #[error("kind: an answered current is current-exact, current-never or current-at-most")]
    BareCurrent,
    /// A call without an answer has an end.
    #[error("end: a call with the outcome unknown has no end; write `-`")]
    EndOfUnknown,
    /// `current-never` names a number.
    #[error("first, last: current-never names no number; write `-` twice")]
    NumberOfNever,
    /// `current-exact` or `current-at-most` names two numbers.
    #[error("first, last: a current names one number; write it twice (found {0} and {1})")]
    TwoNumbers(u64, u64),
    /// The stride is 0.
    #[error("stride: must be at least 1")]
    Stride,
    /// The call ends before it begins.
    #[error("end {end} is before begin {begin}; stamp both with one monotonic clock")]
    Backwards {
        /// Begin in nanoseconds.
        begin: u64,
        /// End in nanoseconds.
        end: u64,
    },
    /// The last line has no newline.
    #[error(
        "the last line has no newline, so it may be cut short; delete it if the recorder was killed"
    )]
    CutShort,
    /// The line is longer than any call.
    #[error("longer than {} bytes; this is no history", crate::history::LINE_MAX)]
    TooLong,
    /// The line is not UTF-8.
    #[error("not UTF-8 text")]
    NotText,
}
