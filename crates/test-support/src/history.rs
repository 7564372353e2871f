//! History of a scenario: records calls and checks them at the end.

use std::path::{Path, PathBuf};
use std::time::Instant;

use seqsvr_check::{CallKind, CallOutcome, CheckReport, HistoryRecorder, RecordedCall, check_file};
use seqsvr_client::IssuedRange;

use crate::callers::{ItemOutcome, TestCall, next_answer};
use crate::test_keys::TestKey;

/// Prefix of the panic message of a check that finds a violation.
pub const VIOLATION_TEXT: &str = "the promise is broken";

/// Recorder of calls. Clone it for each task.
#[derive(Clone)]
pub struct History {
    recorder: HistoryRecorder,
    /// All timestamps are nanoseconds since this moment.
    origin: Instant,
    path: PathBuf,
}

impl History {
    /// Creates a history in `dir`.
    pub fn create(dir: &Path) -> History {
        let path = dir.join("history");
        History {
            recorder: HistoryRecorder::create(&path).expect("the history can be created"),
            origin: Instant::now(),
            path,
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the nanoseconds since the history began. Read it before a call is sent and after it
    /// is answered.
    pub fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Records one item of a call that began at `begin` and ended at `end`.
    pub fn record(
        &mut self,
        test_key: &TestKey,
        call: TestCall,
        begin: u64,
        end: u64,
        result: &ItemOutcome,
    ) {
        let outcome = match result {
            Ok((epoch, answer)) => CallOutcome::Ok {
                end,
                epoch: *epoch,
                answer: *answer,
            },
            Err(_) => CallOutcome::Error {
                end,
                kind: match call {
                    TestCall::Next(_) => CallKind::Next,
                    TestCall::Current => CallKind::Current,
                    TestCall::RaiseTo(_) => CallKind::RaiseTo,
                },
            },
        };
        let call = RecordedCall {
            sequence: test_key.sequence.clone(),
            begin,
            outcome,
        };
        self.recorder
            .record(&call)
            .expect("the history can be written");
    }

    /// Records one answered call that took one number.
    pub fn record_number(
        &mut self,
        test_key: &TestKey,
        begin: u64,
        end: u64,
        numbers: &IssuedRange,
    ) {
        let answer = next_answer(numbers.first, numbers.last, test_key);
        let result = Ok((Some(numbers.epoch), answer));
        self.record(test_key, TestCall::Next(1), begin, end, &result);
    }

    /// Closes the history, checks it, and prints the report to stderr. Panics if the history breaks
    /// a rule.
    pub fn check(self) -> CheckReport {
        self.recorder.finish().expect("the history is whole");
        let report = check_file(&self.path).expect("the history can be read");
        eprintln!("{report}");
        assert!(report.is_ok(), "{VIOLATION_TEXT}, see above");
        report
    }
}
