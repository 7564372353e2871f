//! Answered calls: verified against all earlier answers, recorded in the history, and counted.

use std::num::NonZeroU64;
use std::sync::Arc;

use parking_lot::Mutex;
use seqsvr_check::{CallAnswer, CallKind, CallOutcome, HistoryRecorder, RecordedCall};
use seqsvr_client::{CurrentKind, Error, ErrorKind};
use tokio::time::Instant;

use crate::answers::AnsweredItem;
use crate::run_state::{CallItems, RunState};
use crate::settings::CallMode;
use crate::stats::RunStats;
use crate::verifier::{CallSpan, StridedRange, VerifyError};

/// Maximum number of violations that are kept as text. Further ones are discarded.
const VIOLATIONS_MAX: usize = 10;

/// Numbers and failures of one call.
#[derive(Default)]
pub(crate) struct CallTally {
    numbers: u64,
    failures: Vec<Error>,
}

/// Verifies, records and counts the answers of some callers of a run.
pub(crate) struct CallRecorder {
    pub(crate) run: Arc<RunState>,
    pub(crate) stats: Arc<Vec<Mutex<RunStats>>>,
    pub(crate) recorder: Option<HistoryRecorder>,
}

impl CallRecorder {
    /// Begins a caller's call that was scheduled at `due`. Returns when the call began.
    ///
    /// If each call follows the last answer, it begins when that answer came, so one reading of
    /// the clock a call is enough. For a history the clock is read exactly.
    pub(crate) fn begin_call(&self, caller: usize, due: Instant) -> Instant {
        let run = &self.run;
        if !self.may_rest() {
            run.verifier.gaps.note_begin_at(caller, run.nanos_at(due));
            return due;
        }
        let mut begin = due;
        run.verifier.gaps.note_begin_now(caller, || {
            begin = Instant::now();
            run.nanos_at(begin)
        });
        begin
    }

    /// Returns whether callers may rest between two calls.
    fn may_rest(&self) -> bool {
        self.recorder.is_some() || self.run.pacer.has_rate()
    }

    /// Ends a caller's call that was scheduled at `due`, and counts its result.
    pub(crate) fn end_call(&self, caller: usize, due: Instant, now: Instant, tally: CallTally) {
        if self.may_rest() {
            self.run.verifier.gaps.note_rest(caller);
        }
        let mut stats = self.stats[caller % self.stats.len()].lock();
        match tally.failures.is_empty() {
            true => stats.count_call(now.saturating_duration_since(due), tally.numbers),
            false => stats.numbers += tally.numbers,
        }
        let failures = tally.failures.into_iter();
        failures.for_each(|error| stats.count_failure(&error));
    }

    /// Ends a caller: it makes no more calls.
    pub(crate) fn retire_caller(&self, caller: usize) {
        self.run.verifier.gaps.note_rest(caller);
    }

    /// Verifies, records and counts the answers to the items of a call.
    ///
    /// # Errors
    /// The history cannot be written.
    pub(crate) fn record_answers(
        &mut self,
        items: &CallItems,
        answers: impl Iterator<Item = Result<AnsweredItem, Error>>,
        begin: Instant,
        end: Instant,
        tally: &mut CallTally,
    ) -> Result<(), seqsvr_check::Error> {
        let call = CallSpan {
            begin: self.run.nanos_at(begin),
            end: self.run.nanos_at(end),
        };
        // Prefetch all of them together: otherwise each access waits for its own cache miss.
        self.run.verifier.prefetch(&items.keys);
        for ((i, key), answer) in (0..).zip(&items.keys).zip(answers) {
            if let Some(recorder) = &mut self.recorder {
                recorder.record(&RecordedCall {
                    sequence: self.run.keys.history_sequence(*key),
                    begin: call.begin,
                    outcome: to_outcome(&answer, self.run.mode, call.end),
                })?;
            }
            match answer {
                Ok(answer) => {
                    let greatest_before = items.greatest_before.get(i).copied().unwrap_or(0);
                    tally.numbers += self.verify_answer(*key, greatest_before, call, &answer);
                }
                Err(error) => {
                    if error.kind() == ErrorKind::ClusterMismatch {
                        self.run.pacer.stop();
                        self.run
                            .cluster_mismatch
                            .lock()
                            .get_or_insert_with(|| error.clone());
                    }
                    tally.failures.push(error);
                }
            }
        }
        Ok(())
    }

    /// Verifies an answer and returns how many numbers it has. A violation ends the run.
    #[inline]
    fn verify_answer(&self, key: u32, before: u64, call: CallSpan, answer: &AnsweredItem) -> u64 {
        let range = match answer {
            AnsweredItem::Numbers(n) => StridedRange {
                first: n.first,
                last: n.last,
                stride: u64::from(n.stride),
            },
            AnsweredItem::Current(c) => StridedRange {
                first: c.value,
                last: c.value,
                stride: 1,
            },
        };
        let verdict = match answer {
            AnsweredItem::Numbers(_) => self.run.verifier.accept_range(key, call, range),
            // A number that was received before the call began had been issued.
            AnsweredItem::Current(c) if c.value < before => {
                Err(VerifyError::OutOfOrder { range, before })
            }
            AnsweredItem::Current(_) => Ok(()),
        };
        if let Err(violation) = verdict {
            self.record_violation(key, &violation);
        }
        match range.last - range.first {
            0 => 1,
            span => span / range.stride.max(1) + 1,
        }
    }

    /// Records a violation and ends the run.
    #[cold]
    fn record_violation(&self, key: u32, violation: &VerifyError) {
        let run = &self.run;
        run.pacer.stop();
        let mut violations = run.violations.lock();
        if violations.len() < VIOLATIONS_MAX {
            let (namespace, key) = (run.keys.namespace_of(key), run.keys.key_at(key));
            violations.push(format!("{namespace}/{key}: {violation}"));
        }
    }
}

/// Converts an answer to the outcome that a history has.
fn to_outcome(answer: &Result<AnsweredItem, Error>, mode: CallMode, end: u64) -> CallOutcome {
    let (epoch, answer) = match answer {
        Ok(AnsweredItem::Numbers(n)) => {
            let answer = CallAnswer::Next {
                first: n.first,
                last: n.last,
                stride: NonZeroU64::new(u64::from(n.stride)).unwrap_or(NonZeroU64::MIN),
            };
            (n.epoch, answer)
        }
        Ok(AnsweredItem::Current(c)) => {
            let answer = match c.kind {
                CurrentKind::Exact => CallAnswer::Exact(c.value),
                CurrentKind::Never => CallAnswer::Never,
                CurrentKind::AtMost => CallAnswer::AtMost(c.value),
            };
            (c.epoch, answer)
        }
        Err(_) => {
            let kind = match mode {
                CallMode::Current => CallKind::Current,
                CallMode::Next | CallMode::NextMany | CallMode::Pipe | CallMode::Ids => {
                    CallKind::Next
                }
            };
            return CallOutcome::Error { end, kind };
        }
    };
    CallOutcome::Ok {
        end,
        epoch: Some(epoch),
        answer,
    }
}
