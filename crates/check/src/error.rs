//! Why a history could not be written, read or held; every error of a line names the line.

use std::io;
use std::path::PathBuf;

/// The history could not be written, read or held. Broken promises are in the report instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened or made.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file does not begin with the header.
    #[error(
        "line 1: expected the header `{}`, found `{found}`; is this a history of this version?",
        crate::history::HEADER
    )]
    Header {
        /// Beginning of what stands there.
        found: String,
    },
    /// A line is not a call.
    #[error("line {line}: {problem}")]
    Line {
        /// Counted from 1; the header is line 1.
        line: u64,
        /// What is wrong with it.
        problem: Problem,
    },
    /// Reading failed.
    #[error("line {line}: cannot read: {source}")]
    Read {
        /// Counted from 1.
        line: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The history is larger than the checker can number.
    #[error("line {line}: too many {what} for one check (at most {max}); split the history")]
    TooMany {
        /// Counted from 1.
        line: u64,
        /// Lines or sequences.
        what: &'static str,
        /// How many there may be.
        max: u64,
    },
    /// Writing failed; the history is not whole and must not be checked.
    #[error("cannot write the history, it is not whole: {0}")]
    Write(io::Error),
    /// `Recorder::finish` came while clones of the recorder were alive.
    #[error("{0} other clones of the recorder still hold calls; drop them before finishing")]
    StillRecording(usize),
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Wrong number of columns.
    #[error("expected 8 or 9 columns ({columns}), found {0}", columns = crate::history::COLUMNS)]
    Columns(usize),
    /// The first column is no sequence.
    #[error("`{0}` is not a sequence (namespace/key, other bytes as %XX in capitals)")]
    Sequence(String),
    /// A column is not a number where one is needed.
    #[error("{column}: `{found}` is not a number from 0 to 2^64-1{}", if *.may_lack { ", nor `-`" } else { "" })]
    Number {
        /// Name of the column.
        column: &'static str,
        /// What stands there.
        found: String,
        /// Whether `-` would do.
        may_lack: bool,
    },
    /// The kind is not known.
    #[error(
        "kind: `{0}` is none of next, current, current-exact, current-never, current-at-most, raise-to"
    )]
    Kind(String),
    /// The outcome is not known.
    #[error("outcome: `{0}` is none of ok, error, unknown")]
    Outcome(String),
    /// An answered current must say what it answered.
    #[error("kind: an answered current is current-exact, current-never or current-at-most")]
    BareCurrent,
    /// A call without an answer has an end.
    #[error("end: a call with the outcome unknown has no end; write `-`")]
    EndOfUnknown,
    /// Never names no number.
    #[error("first, last: current-never names no number; write `-` twice")]
    NumberOfNever,
    /// Exact and at-most name one number.
    #[error("first, last: a current names one number; write it twice (found {0} and {1})")]
    TwoNumbers(u64, u64),
    /// Stride 0.
    #[error("stride: must be at least 1")]
    Stride,
    /// A call ends before it begins.
    #[error("end {end} is before begin {begin}; stamp both with one monotonic clock")]
    Backwards {
        /// Nanoseconds.
        begin: u64,
        /// Nanoseconds.
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
