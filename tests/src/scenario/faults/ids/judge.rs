//! Judges the ids of all makers from the runs that they wrote down.
//!
//! The exact check of sequences applies, in two views of the same runs:
//!
//! - `lanes/FAMILY.WORKER.LANE` with the positions as its numbers, and as its time: no position is
//!   used twice, and a later epoch has greater positions.
//! - `makers/NAME` with the ids as its numbers, in real time: the ids of a maker rise.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use seqsvr_check::{CallAnswer, CallOutcome, CheckReport, HistoryRecorder, RecordedCall};
use seqsvr_check::{SequenceName, check_file};

use crate::id_run::IdRun;

/// Family whose ids are judged: ticks of 1 ms, and `0:1,time,worker,seq` from the most significant
/// bit down.
#[derive(Clone, Copy, Debug)]
pub(super) struct JudgedFamily {
    pub(super) name: &'static str,
    /// Unix time of tick 0, in milliseconds.
    pub(super) epoch_ms: u64,
    pub(super) worker_bits: u32,
    pub(super) seq_bits: u32,
    /// How far grants reach, and how far ids may be ahead of the time.
    pub(super) window: Duration,
    pub(super) ahead: Duration,
}

impl JudgedFamily {
    /// Returns the tick of a position.
    pub(super) fn tick_of(&self, position: u64) -> u64 {
        position >> self.seq_bits
    }

    fn id_of(&self, worker: u32, position: u64) -> u64 {
        let tick = self.tick_of(position);
        let seq = position & ((1 << self.seq_bits) - 1);
        (tick << self.worker_bits | u64::from(worker)) << self.seq_bits | seq
    }

    /// Returns the last id of a run.
    pub(super) fn last_id(&self, run: &IdRun) -> u64 {
        self.id_of(run.worker, run.first + run.count - 1)
    }

    /// Returns one id as a run.
    pub(super) fn run_of(&self, id: u64, begin: u64, end: u64) -> IdRun {
        let (worker_mask, seq_mask) = ((1 << self.worker_bits) - 1, (1 << self.seq_bits) - 1);
        let above = id >> self.seq_bits;
        IdRun {
            worker: (above & worker_mask) as u32,
            lane: 0,
            epoch: None,
            first: (above >> self.worker_bits) << self.seq_bits | id & seq_mask,
            count: 1,
            begin,
            end,
        }
    }

    /// Splits a run into runs of one tick each, whose ids follow each other as well.
    fn split_by_tick(&self, run: IdRun) -> impl Iterator<Item = IdRun> {
        let (end, bits) = (run.first + run.count, self.seq_bits);
        let mut first = run.first;
        std::iter::from_fn(move || {
            let until = end.min(((first >> bits) + 1) << bits);
            let part = IdRun {
                first,
                count: until - first,
                ..run
            };
            first = until;
            (part.count > 0).then_some(part)
        })
    }
}

/// Everything that one maker made.
#[derive(Clone, Debug)]
pub(super) struct MakerRuns {
    pub(super) family: JudgedFamily,
    pub(super) maker: String,
    pub(super) runs: Vec<IdRun>,
}

impl MakerRuns {
    /// Returns the number of ids.
    pub(super) fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }
}

/// Writes the history of all makers to the file, and checks it.
pub(super) fn check_runs(path: &Path, made: &[MakerRuns]) -> CheckReport {
    let mut recorder = HistoryRecorder::create(path).expect("the history can be created");
    let mut record = |sequence: &SequenceName, begin, end, epoch, first, last| {
        let answer = CallAnswer::next_range(first, last);
        let outcome = CallOutcome::Ok { end, epoch, answer };
        let sequence = sequence.clone();
        let call = RecordedCall {
            sequence,
            begin,
            outcome,
        };
        recorder.record(&call).expect("the history can be written");
    };
    for ids in made {
        let maker = SequenceName::for_key("makers", &ids.maker);
        for run in &ids.runs {
            let IdRun { worker, lane, .. } = run;
            let lane =
                SequenceName::for_key("lanes", format!("{}.{worker}.{lane}", ids.family.name));
            let last = run.first + run.count - 1;
            record(&lane, run.first, last, run.epoch, run.first, last);
            for part in ids.family.split_by_tick(*run) {
                let [first, last] = [part.first, part.first + part.count - 1]
                    .map(|position| ids.family.id_of(run.worker, position));
                record(&maker, run.begin, run.end, None, first, last);
            }
        }
    }
    recorder.finish().expect("the history is whole");
    check_file(path).expect("the history can be read")
}

/// The true time, beside which the time in ids is judged.
pub(super) struct TrueTime {
    /// Unix time in nanoseconds at which the monotonic clock showed 0.
    pub(super) origin_ns: u64,
    /// Monotonic times between which no majority of the stores had a right clock.
    pub(super) not_judged: Vec<Range<u64>>,
}

impl TrueTime {
    /// Returns the first id of each maker whose time differs by more than window and `ahead`.
    pub(super) fn find_wrong(&self, made: &[MakerRuns]) -> Vec<String> {
        let wrong = made.iter().filter_map(|ids| {
            let mut runs = ids.runs.iter();
            let run = runs.find(|run| self.is_wrong(&ids.family, run))?;
            let time_ms = ids.family.epoch_ms + ids.family.tick_of(run.first);
            let begin_ms = (self.origin_ns + run.begin) / 1_000_000;
            Some(format!(
                "{}: an id of {time_ms}, made at {begin_ms} ({run})",
                ids.maker
            ))
        });
        wrong.collect()
    }

    fn is_wrong(&self, family: &JudgedFamily, run: &IdRun) -> bool {
        let is_apart = |range: &Range<u64>| run.end < range.start || range.end < run.begin;
        let bound_ms = (family.window + family.ahead).as_millis() as u64;
        let [begin_ms, end_ms] = [run.begin, run.end].map(|ns| (self.origin_ns + ns) / 1_000_000);
        let [first_ms, last_ms] = [run.first, run.first + run.count - 1]
            .map(|position| family.epoch_ms + family.tick_of(position));
        self.not_judged.iter().all(is_apart)
            && (first_ms + bound_ms < begin_ms || last_ms > end_ms + bound_ms)
    }
}

#[cfg(test)]
mod tests {
    use seqsvr_check::HistoryRule;

    use super::*;

    const FAMILY: JudgedFamily = JudgedFamily {
        name: "f",
        epoch_ms: 1_000,
        worker_bits: 3,
        seq_bits: 4,
        window: Duration::from_millis(3),
        ahead: Duration::from_millis(2),
    };

    fn run(worker: u32, epoch: u64, first: u64, count: u64, begin: u64) -> IdRun {
        IdRun {
            worker,
            lane: 0,
            epoch: Some(epoch),
            first,
            count,
            begin,
            end: begin + 10,
        }
    }

    fn made(maker: &str, runs: &[IdRun]) -> MakerRuns {
        let (family, runs) = (FAMILY, runs.to_vec());
        let maker = maker.to_owned();
        MakerRuns {
            family,
            maker,
            runs,
        }
    }

    #[test]
    fn each_broken_rule_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let check = |a: &[IdRun], b: &[IdRun]| {
            let report = check_runs(&dir.path().join("history"), &[made("a", a), made("b", b)]);
            report.broken_rules.into_keys().collect::<Vec<_>>()
        };
        let first = run(1, 1, 16, 40, 100);
        assert_eq!(
            check(&[first, run(1, 1, 60, 4, 200)], &[run(1, 2, 64, 9, 150)]),
            []
        );
        // The same position from two makers, and from one in two runs.
        assert_eq!(
            check(&[first], &[run(1, 2, 55, 1, 300)]),
            [HistoryRule::Duplicate]
        );
        assert!(check(&[first, run(1, 1, 20, 1, 300)], &[]).contains(&HistoryRule::Duplicate));
        // A successor below its predecessor.
        assert_eq!(
            check(&[first], &[run(1, 2, 8, 2, 300)]),
            [HistoryRule::Epoch]
        );
        // A maker whose ids fall, with another worker.
        assert_eq!(
            check(&[first, run(0, 1, 32, 1, 300)], &[]),
            [HistoryRule::Order]
        );
    }

    #[test]
    fn time_beyond_the_bound_is_wrong() {
        let ms = |ms: u64| ms * 1_000_000;
        let time = TrueTime {
            origin_ns: ms(1_000),
            not_judged: std::iter::once(ms(100)..ms(200)).collect(),
        };
        let is_wrong = |first: u64, count: u64, begin_ms: u64| {
            let ids = made("a", &[run(0, 1, first, count, ms(begin_ms))]);
            !time.find_wrong(&[ids]).is_empty()
        };
        assert!(!is_wrong(16 * 50, 16, 50));
        assert!(
            !is_wrong(16 * 55 + 15, 1, 50) && is_wrong(16 * 56, 1, 50),
            "ahead"
        );
        assert!(is_wrong(16 * 55 + 15, 2, 50), "the end of a run");
        assert!(
            !is_wrong(16 * 45, 1, 50) && is_wrong(16 * 44 + 15, 1, 50),
            "behind"
        );
        assert!(
            !is_wrong(16 * 300, 1, 150) && is_wrong(16 * 300, 1, 201),
            "not judged"
        );
    }
}
