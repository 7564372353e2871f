//! The history format, version 1: text, one call a line.
//!
//! The first line is `seqsvr-history 1`. Every other line is one call. It has 8 or 9 columns,
//! separated by tabs or spaces. The reader skips empty lines and lines that begin with `#`. The
//! order of the lines does not matter.
//!
//! The columns:
//!
//! - `sequence`: `namespace/uid` or `namespace/key`. Bytes other than printable ASCII, and `/ % #`
//!   in a name, are written `%XX`.
//! - `begin`: monotonic nanoseconds before the request was sent.
//! - `end`: monotonic nanoseconds after the answer was received; `-` if no answer came.
//! - `first`, `last`: for `next` the lowest and the highest number handed out. For `current-exact`
//!   and `current-at-most` the number, twice. For `raise-to` the requested number and the number
//!   answered. Otherwise `-`.
//! - `epoch`: epoch of the slot that the answer names, or `-`.
//! - `kind`: `next` (also one item of a batch), `current-exact`, `current-never`,
//!   `current-at-most`, `raise-to`; a `current` that was not answered is `current`.
//! - `outcome`: `ok`, `error`, or `unknown` if no answer came.
//! - `stride`: distance of neighboring numbers in this namespace; may be left out where it is 1.
//!
//! ```text
//! seqsvr-history 1
//! default/42   100  180  1    1    7  next             ok
//! keys/alice   120  190  8    8    3  current-at-most  ok
//! keys/alice   200  -    -    -    -  next             unknown
//! odd/7        205  260  11   19   4  next             ok       2
//! ```
//!
//! Invariant: `parse_line` reads the line that `Display` of a [`RecordedCall`] writes, and returns
//! the same call.

use std::fmt;
use std::num::NonZeroU64;

use super::recorded_call::{CallAnswer, CallKind, CallOutcome, RecordedCall};
use super::sequence_name::{SequenceName, is_token};

/// First line of a history.
pub const HEADER: &str = "seqsvr-history 1";
/// Names of the columns, in order.
pub const COLUMNS: &str = "sequence begin end first last epoch kind outcome [stride]";
/// Longest line in bytes, newline included; a 128-byte key takes 384.
pub const LINE_MAX: usize = 4096;

/// Fault of a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// The line has too few or too many columns.
    #[error("expected 8 or 9 columns ({columns}), found {0}", columns = COLUMNS)]
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
    #[error("longer than {} bytes; this is no history", LINE_MAX)]
    TooLong,
    /// The line is not UTF-8.
    #[error("not UTF-8 text")]
    NotText,
}

/// A call whose sequence is borrowed from the line it was read from.
pub(crate) struct ParsedCall<'a> {
    pub(crate) sequence: &'a str,
    pub(crate) begin: u64,
    pub(crate) outcome: CallOutcome,
}

impl ParsedCall<'_> {
    pub(super) fn to_call(&self) -> RecordedCall {
        RecordedCall {
            sequence: SequenceName::from_token(self.sequence),
            begin: self.begin,
            outcome: self.outcome.clone(),
        }
    }
}

impl fmt::Display for RecordedCall {
    /// Writes the line of this call, without the newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}\t", self.sequence, self.begin)?;
        match &self.outcome {
            CallOutcome::Ok { end, epoch, answer } => {
                write!(f, "{end}\t")?;
                match answer {
                    CallAnswer::Next { first, last, .. } => write!(f, "{first}\t{last}")?,
                    CallAnswer::Exact(n) | CallAnswer::AtMost(n) => write!(f, "{n}\t{n}")?,
                    CallAnswer::Never => f.write_str("-\t-")?,
                    CallAnswer::RaiseTo { requested, to } => write!(f, "{requested}\t{to}")?,
                }
                match epoch {
                    Some(epoch) => write!(f, "\t{epoch}")?,
                    None => f.write_str("\t-")?,
                }
                f.write_str(match answer {
                    CallAnswer::Next { .. } => "\tnext\tok",
                    CallAnswer::Exact(_) => "\tcurrent-exact\tok",
                    CallAnswer::Never => "\tcurrent-never\tok",
                    CallAnswer::AtMost(_) => "\tcurrent-at-most\tok",
                    CallAnswer::RaiseTo { .. } => "\traise-to\tok",
                })?;
                match answer {
                    CallAnswer::Next { stride, .. } if stride.get() != 1 => write!(f, "\t{stride}"),
                    _ => Ok(()),
                }
            }
            CallOutcome::Error { end, kind } => {
                write!(f, "{end}\t-\t-\t-\t{}\terror", kind_name(*kind))
            }
            CallOutcome::Unknown { kind } => write!(f, "-\t-\t-\t-\t{}\tunknown", kind_name(*kind)),
        }
    }
}

fn kind_name(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Next => "next",
        CallKind::Current => "current",
        CallKind::RaiseTo => "raise-to",
    }
}

/// Parses one line that is neither empty nor a comment.
pub(super) fn parse_line(line: &str) -> Result<ParsedCall<'_>, LineProblem> {
    let mut columns = [""; 9];
    let mut count = 0;
    for column in line.split_ascii_whitespace() {
        if let Some(slot) = columns.get_mut(count) {
            *slot = column;
        }
        count += 1;
    }
    if !(8..=9).contains(&count) {
        return Err(LineProblem::Columns(count));
    }
    let [
        sequence,
        begin,
        end,
        first,
        last,
        epoch,
        kind,
        outcome,
        stride,
    ] = columns;
    if !is_token(sequence) {
        return Err(LineProblem::Sequence(sequence.to_owned()));
    }
    let begin = parse_number("begin", begin)?;
    let stride = match count {
        9 => NonZeroU64::new(parse_number("stride", stride)?).ok_or(LineProblem::Stride)?,
        _ => NonZeroU64::MIN,
    };
    let outcome = match outcome {
        "ok" => {
            let epoch = parse_optional("epoch", epoch)?;
            CallOutcome::Ok {
                end: parse_end(begin, end)?,
                epoch,
                answer: parse_answer(kind, first, last, stride)?,
            }
        }
        // Numbers of a call that was not answered have no meaning, but they must be readable.
        "error" | "unknown" => {
            parse_optional("first", first)?;
            parse_optional("last", last)?;
            parse_optional("epoch", epoch)?;
            let kind = parse_kind(kind)?;
            match (outcome, end) {
                ("error", end) => CallOutcome::Error {
                    end: parse_end(begin, end)?,
                    kind,
                },
                (_, "-") => CallOutcome::Unknown { kind },
                _ => return Err(LineProblem::EndOfUnknown),
            }
        }
        other => return Err(LineProblem::Outcome(other.to_owned())),
    };
    Ok(ParsedCall {
        sequence,
        begin,
        outcome,
    })
}

fn parse_answer(
    kind: &str,
    first: &str,
    last: &str,
    stride: NonZeroU64,
) -> Result<CallAnswer, LineProblem> {
    let parse_both = || Ok((parse_number("first", first)?, parse_number("last", last)?));
    let parse_same = || match parse_both()? {
        (first, last) if first == last => Ok(first),
        (first, last) => Err(LineProblem::TwoNumbers(first, last)),
    };
    match kind {
        "next" => parse_both().map(|(first, last)| CallAnswer::Next {
            first,
            last,
            stride,
        }),
        "current-exact" => parse_same().map(CallAnswer::Exact),
        "current-at-most" => parse_same().map(CallAnswer::AtMost),
        "current-never" if (first, last) == ("-", "-") => Ok(CallAnswer::Never),
        "current-never" => Err(LineProblem::NumberOfNever),
        "raise-to" => parse_both().map(|(requested, to)| CallAnswer::RaiseTo { requested, to }),
        "current" => Err(LineProblem::BareCurrent),
        other => Err(LineProblem::Kind(other.to_owned())),
    }
}

fn parse_kind(kind: &str) -> Result<CallKind, LineProblem> {
    match kind {
        "next" => Ok(CallKind::Next),
        "current" | "current-exact" | "current-never" | "current-at-most" => Ok(CallKind::Current),
        "raise-to" => Ok(CallKind::RaiseTo),
        other => Err(LineProblem::Kind(other.to_owned())),
    }
}

fn parse_end(begin: u64, end: &str) -> Result<u64, LineProblem> {
    let end = parse_number("end", end)?;
    if end < begin {
        return Err(LineProblem::Backwards { begin, end });
    }
    Ok(end)
}

fn parse_number(column: &'static str, text: &str) -> Result<u64, LineProblem> {
    text.parse().map_err(|_| LineProblem::Number {
        column,
        found: text.to_owned(),
        may_lack: false,
    })
}

fn parse_optional(column: &'static str, text: &str) -> Result<Option<u64>, LineProblem> {
    if text == "-" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| LineProblem::Number {
        column,
        found: text.to_owned(),
        may_lack: true,
    })
}
