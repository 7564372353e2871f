//! Helpers that record calls of one sequence or many for the exact check.
//!
//! Used by the other files of this target.

use std::num::NonZeroU64;
use std::time::Instant;

use seqsvr_check::{Answer, Call, Kind, Outcome, Report, Sequence, check};
use seqsvr_client::{Current, CurrentKind, Numbers, Raised};

/// The clock of all timestamps of a history. Copies are cheap.
#[derive(Clone, Copy)]
pub(crate) struct HistoryClock(Instant);

impl HistoryClock {
    pub(crate) fn new() -> HistoryClock {
        HistoryClock(Instant::now())
    }

    pub(crate) fn now(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    /// Returns a call that ends now.
    pub(crate) fn end_call(
        self,
        sequence: Sequence,
        begin: u64,
        kind: Kind,
        answer: Option<(Answer, u64)>,
    ) -> Call {
        let end = self.now();
        let outcome = match answer {
            Some((answer, epoch)) => Outcome::Ok {
                end,
                epoch: Some(epoch),
                answer,
            },
            None => Outcome::Error { end, kind },
        };
        Call {
            sequence,
            begin,
            outcome,
        }
    }
}

pub(crate) fn next_answer(n: &Numbers) -> (Answer, u64) {
    let answer = Answer::Next {
        first: n.first,
        last: n.last,
        stride: NonZeroU64::new(u64::from(n.stride)).unwrap(),
    };
    (answer, n.epoch)
}

pub(crate) fn current_answer(c: &Current) -> (Answer, u64) {
    let answer = match c.kind {
        CurrentKind::Exact => Answer::Exact(c.value),
        CurrentKind::Never => Answer::Never,
        CurrentKind::AtMost => Answer::AtMost(c.value),
    };
    (answer, c.epoch)
}

pub(crate) fn raise_answer(value: u64, r: &Raised) -> (Answer, u64) {
    (
        Answer::RaiseTo {
            asked: value,
            to: r.value,
        },
        r.epoch,
    )
}

/// Checks the history, prints the report, and fails on any violation.
pub(crate) fn check_history(what: &str, calls: &[Call]) -> Report {
    let report = check(calls).unwrap();
    println!(
        "{what}: {} calls, {} errors, {} ordered pairs, {} in flight at most",
        report.calls, report.errors, report.ordered_pairs, report.concurrency_max
    );
    let sentences: Vec<_> = report.violations.iter().map(|v| &v.sentence).collect();
    assert!(report.is_ok(), "{what}: {sentences:#?}");
    assert!(report.ordered_pairs > 0, "{what}: no order was tried");
    report
}
