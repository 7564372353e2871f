//! A history in memory: records calls of one sequence or many for the exact check.

use std::num::NonZeroU64;
use std::time::Instant;

use seqsvr_check::{
    CallAnswer, CallKind, CallOutcome, CheckReport, RecordedCall, SequenceName, check_calls,
};
use seqsvr_client::{Current, CurrentKind, IssuedRange, Raised};

/// The clock of all timestamps of a history. Copies are cheap.
#[derive(Clone, Copy)]
pub struct HistoryClock(Instant);

impl HistoryClock {
    /// Starts a clock at zero.
    pub fn start() -> HistoryClock {
        HistoryClock(Instant::now())
    }

    /// Returns the nanoseconds since the start.
    pub fn now_ns(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    /// Returns a call that ends now.
    pub fn end_call(
        self,
        sequence: SequenceName,
        begin: u64,
        kind: CallKind,
        answer: Option<(CallAnswer, u64)>,
    ) -> RecordedCall {
        let end = self.now_ns();
        let outcome = match answer {
            Some((answer, epoch)) => CallOutcome::Ok {
                end,
                epoch: Some(epoch),
                answer,
            },
            None => CallOutcome::Error { end, kind },
        };
        RecordedCall {
            sequence,
            begin,
            outcome,
        }
    }
}

/// Returns the answer of a call for numbers as a history records it, and its epoch.
pub fn next_answer(n: &IssuedRange) -> (CallAnswer, u64) {
    let answer = CallAnswer::Next {
        first: n.first,
        last: n.last,
        stride: NonZeroU64::new(u64::from(n.stride)).unwrap(),
    };
    (answer, n.epoch)
}

/// Returns the answer of a read as a history records it, and its epoch.
pub fn current_answer(c: &Current) -> (CallAnswer, u64) {
    let answer = match c.kind {
        CurrentKind::Exact => CallAnswer::Exact(c.value),
        CurrentKind::Never => CallAnswer::Never,
        CurrentKind::AtMost => CallAnswer::AtMost(c.value),
    };
    (answer, c.epoch)
}

/// Returns the answer of a RaiseTo as a history records it, and its epoch.
pub fn raise_answer(value: u64, r: &Raised) -> (CallAnswer, u64) {
    (
        CallAnswer::RaiseTo {
            requested: value,
            to: r.value,
        },
        r.epoch,
    )
}

/// Checks the history, prints the report, and fails on any violation.
pub fn check_history(what: &str, calls: &[RecordedCall]) -> CheckReport {
    let report = check_calls(calls).unwrap();
    println!(
        "{what}: {} calls, {} errors, {} ordered pairs, {} in flight at most",
        report.calls, report.errors, report.ordered_pairs, report.concurrency_max
    );
    let sentences: Vec<_> = report.violations.iter().map(|v| &v.description).collect();
    assert!(report.is_ok(), "{what}: {sentences:#?}");
    assert!(report.ordered_pairs > 0, "{what}: no order was tried");
    report
}
