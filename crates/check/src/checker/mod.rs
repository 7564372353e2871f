//! The checker: collects the calls, sweeps them and reports the violations.

mod call_collector;
mod check_report;
mod findings;
mod packed_call;
pub mod rule;
mod sequence_sweep;
mod violation_text;

pub use check_report::{CheckReport, CitedCall, Violation};
pub use rule::HistoryRule;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use call_collector::CallCollector;
use sequence_sweep::sweep_calls;

use crate::history::{CallOutcome, Error, HistoryReader, LineProblem, RecordedCall};

/// Checks a history file.
///
/// It needs 48 bytes of memory for each answered call, 16 more for each call of the longest
/// sequence, and the name of each sequence once.
///
/// # Errors
/// The file cannot be read, or a line is not part of a history; the error names the line. Broken
/// rules are no error: they are in the report.
pub fn check_file(path: impl AsRef<Path>) -> Result<CheckReport, Error> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|source| Error::Open {
        path: path.to_owned(),
        source,
    })?;
    let mut reader = HistoryReader::new(BufReader::with_capacity(1 << 20, file))?;
    let mut collector = CallCollector::default();
    while let Some((line, parsed)) = reader.next_parsed()? {
        collector.add_call(line, parsed.sequence, parsed.begin, &parsed.outcome)?;
    }
    Ok(sweep_and_report(collector))
}

/// Checks calls in memory; "line" n of the report is the n-th call, counted from 1.
///
/// # Errors
/// A call ends before it begins, or there are more calls or sequences than the checker can number.
pub fn check_calls(calls: &[RecordedCall]) -> Result<CheckReport, Error> {
    let mut collector = CallCollector::default();
    for (line, call) in (1..).zip(calls) {
        check_stamps(call).map_err(|problem| Error::Line { line, problem })?;
        collector.add_call(line, call.sequence.as_str(), call.begin, &call.outcome)?;
    }
    Ok(sweep_and_report(collector))
}

/// Rejects a call whose stamps cannot come from one monotonic clock.
fn check_stamps(call: &RecordedCall) -> Result<(), LineProblem> {
    match call.outcome {
        CallOutcome::Ok { end, .. } | CallOutcome::Error { end, .. } if end < call.begin => {
            Err(LineProblem::Backwards {
                begin: call.begin,
                end,
            })
        }
        _ => Ok(()),
    }
}

/// Sweeps every sequence and returns the report.
fn sweep_and_report(mut collector: CallCollector) -> CheckReport {
    let mut report = collector.report;
    report.sequences = collector.sequence_ids.len() as u64;
    let coverage = sweep_calls(
        &mut collector.calls,
        &collector.grids,
        &mut collector.findings,
    );
    report.ordered_pairs = coverage.ordered_pairs;
    report.concurrency_max = coverage.concurrency_max;
    report.add_findings(
        collector.findings,
        &collector.sequence_ids,
        &collector.grids,
    );
    report
}
