//! Reasons why a history could not be written, read or kept in memory. Every error of a line names
//! the line.

use std::io;
use std::path::PathBuf;

use super::history_format::{HEADER, LineProblem};

/// Reason why a history could not be written, read or kept in memory. Broken rules are in the
/// report instead.
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
        HEADER
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
    #[error("cannot write the history: {0}; it is incomplete and must not be checked")]
    Write(io::Error),
    /// `HistoryRecorder::finish` was called while clones of the recorder were alive.
    #[error("{0} other clones of the recorder still hold calls; drop them before finishing")]
    StillRecording(usize),
}
