//! The history of a scenario: where calls are recorded, and the check at the end.

use std::path::{Path, PathBuf};
use std::time::Instant;

use seqsvr_check::{Call, Kind, Outcome, Recorder, Report, check_file};

use crate::caller::{Ask, Result};
use crate::subject::Subject;

/// How the panic of a check begins that convicts.
pub const BROKEN: &str = "the promise is broken";

/// Records calls; clone it for each task.
#[derive(Clone)]
pub struct History {
    recorder: Recorder,
    /// All stamps are nanoseconds since this one moment.
    origin: Instant,
    path: PathBuf,
}

impl History {
    /// A new history in `dir`.
    pub fn create(dir: &Path) -> History {
        let path = dir.join("history");
        History {
            recorder: Recorder::create(&path).expect("the history can be made"),
            origin: Instant::now(),
            path,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Nanoseconds since the history began: taken before a call is sent, and after it is answered.
    pub fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Records one item of a call that began at `begin` and ended at `end`.
    pub fn record(&mut self, subject: &Subject, ask: Ask, begin: u64, end: u64, result: &Result) {
        let outcome = match result {
            Ok((epoch, answer)) => Outcome::Ok {
                end,
                epoch: *epoch,
                answer: *answer,
            },
            Err(_) => Outcome::Error {
                end,
                kind: match ask {
                    Ask::Next(_) => Kind::Next,
                    Ask::Current => Kind::Current,
                    Ask::RaiseTo(_) => Kind::RaiseTo,
                },
            },
        };
        let call = Call {
            sequence: subject.sequence.clone(),
            begin,
            outcome,
        };
        self.recorder
            .record(&call)
            .expect("the history can be written");
    }

    /// Closes the history and has it checked; prints to stderr what it could show. Panics if it
    /// breaks a rule.
    pub fn check(self) -> Report {
        self.recorder.finish().expect("the history is whole");
        let report = check_file(&self.path).expect("the history can be read");
        eprintln!("{report}");
        assert!(report.is_ok(), "{BROKEN}, see above");
        report
    }
}
