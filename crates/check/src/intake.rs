//! Collects calls one by one and keeps what the sweep needs.
//!
//! Here the checker finds the rules that a call breaks by itself, or against the stride of its
//! sequence. It leaves a malformed range out of the sweep, which may rely on well-formed ones.
//!
//! Invariant: every call is counted, and every answered call becomes a row or a violation.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;

use crate::row::{Row, SEQUENCES_MAX};
use crate::rule::NUMBER_MAX;
use crate::sweep::sweep;
use crate::{Answer, Error, Kind, Outcome, Report, Rule};

/// Most violations of one rule that the report lists; all are counted.
const LISTED_MAX: usize = 5;

/// Collects calls for one check.
#[derive(Default)]
pub(crate) struct Intake {
    ids: HashMap<Box<str>, u32>,
    grids: Vec<Option<Grid>>,
    rows: Vec<Row>,
    found: Found,
    report: Report,
}

/// Stride and offset of the numbers of a sequence, by the first `next` read.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) stride: NonZeroU64,
    pub(crate) offset: u64,
    pub(crate) line: u32,
}

/// Violations: all counted, the first few of each rule kept.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) counts: BTreeMap<Rule, u64>,
    pub(crate) kept: Vec<Convicted>,
}

/// A call that breaks a rule, with its evidence: the call that convicts it, if the rule is about
/// two calls, and the raise through which the two are in order, if they are not by themselves.
pub(crate) struct Convicted {
    pub(crate) rule: Rule,
    pub(crate) by: Option<Row>,
    pub(crate) via: Option<Row>,
    pub(crate) call: Row,
    pub(crate) stride: NonZeroU64,
}

impl Found {
    pub(crate) fn add(
        &mut self,
        rule: Rule,
        witness: Option<(&Row, Option<&Row>)>,
        call: &Row,
        stride: NonZeroU64,
    ) {
        let count = self.counts.entry(rule).or_default();
        *count += 1;
        if *count <= LISTED_MAX as u64 {
            self.kept.push(Convicted {
                rule,
                by: witness.map(|(by, _)| *by),
                via: witness.and_then(|(_, via)| via.copied()),
                call: *call,
                stride,
            });
        }
    }
}

impl Intake {
    pub(crate) fn add(
        &mut self,
        line: u64,
        sequence: &str,
        begin: u64,
        outcome: &Outcome,
    ) -> Result<(), Error> {
        let short_line = u32::try_from(line).map_err(|_| Error::TooMany {
            line,
            what: "lines",
            max: u64::from(u32::MAX),
        })?;
        self.report.calls += 1;
        let (end, epoch, answer) = match outcome {
            Outcome::Ok { end, epoch, answer } => (*end, *epoch, answer),
            Outcome::Error { .. } => {
                self.report.errors += 1;
                return Ok(());
            }
            Outcome::Unknown { .. } => {
                self.report.unknown += 1;
                return Ok(());
            }
        };
        match answer.kind() {
            Kind::Next => self.report.next += 1,
            Kind::Current => self.report.current += 1,
            Kind::RaiseTo => self.report.raise_to += 1,
        }
        let sequence = self.number(sequence, line)?;
        let row = Row::new(short_line, sequence, (begin, end), epoch, answer);
        match *answer {
            Answer::Next {
                first,
                last,
                stride,
            } => {
                let whole = first >= 1
                    && last <= NUMBER_MAX
                    && first <= last
                    && (last - first) % stride == 0;
                if !whole {
                    self.found.add(Rule::Range, None, &row, stride);
                    return Ok(());
                }
                let grid = self.grids[sequence as usize].get_or_insert(Grid {
                    stride,
                    offset: first % stride,
                    line: short_line,
                });
                if (grid.stride, grid.offset) != (stride, first % stride) {
                    self.found.add(Rule::Stride, None, &row, stride);
                }
            }
            Answer::RaiseTo { asked, to } if to < asked => {
                self.found
                    .add(Rule::RaiseShort, None, &row, NonZeroU64::MIN);
            }
            _ => {}
        }
        self.rows.push(row);
        Ok(())
    }

    fn number(&mut self, sequence: &str, line: u64) -> Result<u32, Error> {
        if let Some(&id) = self.ids.get(sequence) {
            return Ok(id);
        }
        let id = u32::try_from(self.ids.len())
            .ok()
            .filter(|&id| id < SEQUENCES_MAX)
            .ok_or(Error::TooMany {
                line,
                what: "sequences",
                max: u64::from(SEQUENCES_MAX),
            })?;
        self.ids.insert(sequence.into(), id);
        self.grids.push(None);
        Ok(id)
    }

    /// Sweeps every sequence and returns the report.
    pub(crate) fn finish(mut self) -> Report {
        self.report.sequences = self.ids.len() as u64;
        let reach = sweep(&mut self.rows, &self.grids, &mut self.found);
        self.report.ordered_pairs = reach.ordered_pairs;
        self.report.concurrency_max = reach.concurrency_max;
        self.report.convict(self.found, &self.ids, &self.grids);
        self.report
    }
}
