//! Answered calls: verified against all earlier answers, recorded in the history, and counted.

use std::num::NonZeroU64;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use seqsvr_check::{Answer, Call, Kind, Outcome, Recorder};
use seqsvr_client::{Current, CurrentKind, Error, Numbers, Reason};
use tokio::time::Instant;

use super::figures::Figures;
use super::keys::Keys;
use super::pace::Pace;
use super::verify::{Range, Span, Verifier, Wrong};
use crate::cli::Mode;

/// State that all callers of a run share.
pub(crate) struct Run {
    pub(crate) mode: Mode,
    /// Items of a call.
    pub(crate) batch: u32,
    /// Numbers an item takes.
    pub(crate) count: u32,
    pub(crate) keys: Keys,
    pub(crate) pace: Pace,
    pub(crate) verifier: Verifier,
    /// Violations of order or uniqueness as text; the first few.
    pub(crate) wrong: Mutex<Vec<String>>,
    /// Error that says that the servers belong to another cluster now. It ends the run.
    pub(crate) mismatch: Mutex<Option<Error>>,
    /// Start of the run: all times count from here.
    pub(crate) origin: Instant,
}

/// Maximum number of violations that are kept as text. Further ones are discarded.
const WRONG_MAX: usize = 10;

impl Run {
    /// Draws the keys of one call. All are of the namespace whose first key is `first`.
    pub(crate) fn choose(&self, first: u32, rng: &mut SmallRng, asked: &mut Asked) {
        let Asked { keys, befores } = asked;
        keys.clear();
        keys.extend((0..self.batch).map(|_| first + self.keys.pick(rng)));
        befores.clear();
        if self.mode == Mode::Current {
            befores.extend(keys.iter().map(|key| self.verifier.greatest(*key)));
        }
    }

    /// Returns the nanoseconds since the start of the run.
    fn time(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.origin).as_nanos() as u64
    }
}

/// Items of a call. They are columns to save memory: thousands of calls are in flight.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) keys: Vec<u32>,
    /// For `current`: the greatest number of each key that was received before the call began.
    befores: Vec<u64>,
}

impl Asked {
    /// Copies some of the items.
    pub(crate) fn only(&self, items: impl Iterator<Item = usize>) -> Asked {
        let mut some = Asked::default();
        for i in items {
            some.keys.push(self.keys[i]);
            some.befores.extend(self.befores.get(i));
        }
        some
    }
}

/// Numbers and failures of one call.
#[derive(Default)]
pub(crate) struct Tally {
    numbers: u64,
    failures: Vec<Error>,
}

/// Answer to one item.
#[derive(Clone, Copy)]
pub(crate) enum Got {
    Numbers(Numbers),
    Current(Current),
}

/// Verifies, records and counts the answers of some callers of a run.
pub(crate) struct Checker {
    pub(crate) run: Arc<Run>,
    pub(crate) figures: Arc<Vec<Mutex<Figures>>>,
    pub(crate) recorder: Option<Recorder>,
}

impl Checker {
    /// Begins a caller's call that was scheduled at `due`. Returns when the call began.
    ///
    /// If each call follows the last answer, it begins when that answer came, so one reading of
    /// the clock a call is enough. For a history the clock is read exactly.
    pub(crate) fn begin(&self, caller: usize, due: Instant) -> Instant {
        let run = &self.run;
        if !self.rests() {
            run.verifier.follow(caller, run.time(due));
            return due;
        }
        let mut begin = due;
        run.verifier.begin(caller, || {
            begin = Instant::now();
            run.time(begin)
        });
        begin
    }

    /// Returns whether callers may rest between two calls.
    fn rests(&self) -> bool {
        self.recorder.is_some() || self.run.pace.has_rate()
    }

    /// Ends a caller's call that was scheduled at `due`, and counts its result.
    pub(crate) fn end(&self, caller: usize, due: Instant, now: Instant, tally: Tally) {
        if self.rests() {
            self.run.verifier.rest(caller);
        }
        let mut figures = self.figures[caller % self.figures.len()].lock();
        match tally.failures.is_empty() {
            true => figures.answered(now.saturating_duration_since(due), tally.numbers),
            false => figures.numbers += tally.numbers,
        }
        let failures = tally.failures.into_iter();
        failures.for_each(|error| figures.failed(&error));
    }

    /// Ends a caller: it makes no more calls.
    pub(crate) fn leave(&self, caller: usize) {
        self.run.verifier.rest(caller);
    }

    /// Verifies, records and counts the answers to the items of a call.
    ///
    /// # Errors
    /// The history cannot be written.
    pub(crate) fn settle(
        &mut self,
        asked: &Asked,
        got: impl Iterator<Item = Result<Got, Error>>,
        begin: Instant,
        end: Instant,
        tally: &mut Tally,
    ) -> Result<(), seqsvr_check::Error> {
        let call = Span {
            begin: self.run.time(begin),
            end: self.run.time(end),
        };
        // Prefetch all of them together: otherwise each access waits for its own cache miss.
        self.run.verifier.fetch(&asked.keys);
        for ((i, key), got) in (0..).zip(&asked.keys).zip(got) {
            if let Some(recorder) = &mut self.recorder {
                recorder.record(&Call {
                    sequence: self.run.keys.sequence(*key),
                    begin: call.begin,
                    outcome: outcome(&got, self.run.mode, call.end),
                })?;
            }
            match got {
                Ok(got) => {
                    let before = asked.befores.get(i).copied().unwrap_or(0);
                    tally.numbers += self.verify(*key, before, call, &got);
                }
                Err(error) => {
                    if error.reason == Reason::ClusterMismatch {
                        self.run.pace.stop();
                        self.run
                            .mismatch
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
    fn verify(&self, key: u32, before: u64, call: Span, got: &Got) -> u64 {
        let range = match got {
            Got::Numbers(n) => Range {
                first: n.first,
                last: n.last,
                stride: u64::from(n.stride),
            },
            Got::Current(c) => Range {
                first: c.value,
                last: c.value,
                stride: 1,
            },
        };
        let verdict = match got {
            Got::Numbers(_) => self.run.verifier.take(key, call, range),
            // A number that was received before the call began had been issued.
            Got::Current(c) if c.value < before => Err(Wrong::Order { range, before }),
            Got::Current(_) => Ok(()),
        };
        if let Err(wrong) = verdict {
            self.wrong(key, &wrong);
        }
        match range.last - range.first {
            0 => 1,
            span => span / range.stride.max(1) + 1,
        }
    }

    /// Records a violation and ends the run.
    #[cold]
    fn wrong(&self, key: u32, wrong: &Wrong) {
        let run = &self.run;
        run.pace.stop();
        let mut words = run.wrong.lock();
        if words.len() < WRONG_MAX {
            let (namespace, key) = (run.keys.namespace(key), run.keys.key(key));
            words.push(format!("{namespace}/{key}: {wrong}"));
        }
    }
}

fn outcome(got: &Result<Got, Error>, mode: Mode, end: u64) -> Outcome {
    let (epoch, answer) = match got {
        Ok(Got::Numbers(n)) => {
            let answer = Answer::Next {
                first: n.first,
                last: n.last,
                stride: NonZeroU64::new(u64::from(n.stride)).unwrap_or(NonZeroU64::MIN),
            };
            (n.epoch, answer)
        }
        Ok(Got::Current(c)) => {
            let answer = match c.kind {
                CurrentKind::Exact => Answer::Exact(c.value),
                CurrentKind::Never => Answer::Never,
                CurrentKind::AtMost => Answer::AtMost(c.value),
            };
            (c.epoch, answer)
        }
        Err(_) => {
            let kind = match mode {
                Mode::Next | Mode::NextMany | Mode::Pipe => Kind::Next,
                Mode::Current => Kind::Current,
            };
            return Outcome::Error { end, kind };
        }
    };
    Outcome::Ok {
        end,
        epoch: Some(epoch),
        answer,
    }
}
