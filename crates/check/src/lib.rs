//! History format and exact checker.
//!
//! A load test records every call on every sequence: its begin, its end, and the answer. This crate
//! writes such a history, reads it back and reports whether the promise was kept: no number is
//! handed out twice, real-time order holds, epochs never fall, `current` is true.
//!
//! How data passes through:
//!
//! 1. A test creates [`RecordedCall`]s and gives them to a [`HistoryRecorder`], which writes one
//!    line for each (format: [`history::history_format`]).
//! 2. [`check_file`] reads the lines ([`HistoryReader`]) and packs each answered call into 48
//!    bytes, with a number for its sequence.
//! 3. It sorts the packed calls by sequence and sweeps them once by time and once by number.
//! 4. The [`CheckReport`] names the calls that convict and the [`HistoryRule`] that they break. The
//!    rules are in [`rule`].
//!
//! What it may not know: servers, clients, protocols. It shares no code with them: a checker that
//! reused the rules of the system under test would share its mistakes. It reads no clock either:
//! both stamps of a call come from the caller.

mod checker;
pub mod history;

pub use checker::{CheckReport, CitedCall, HistoryRule, Violation, check_calls, check_file, rule};
pub use history::{
    CallAnswer, CallKind, CallOutcome, Error, HistoryReader, HistoryRecorder, LineProblem,
    RecordedCall, SequenceName,
};
