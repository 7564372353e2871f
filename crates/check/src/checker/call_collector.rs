//! Collects calls one by one and keeps what the sweep needs.
//!
//! Here the checker finds the rules that a call breaks by itself, or against the stride of its
//! sequence. It leaves a malformed range out of the sweep, which may rely on well-formed ones.
//!
//! Invariant: every call is counted, and every answered call is swept or becomes a violation.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;

use crate::checker::packed_call::{PackedCall, SEQUENCES_MAX};
use crate::checker::rule::NUMBER_MAX;
use crate::checker::sequence_sweep::sweep_calls;
use crate::{Answer, Error, Kind, Outcome, Report, Rule};

/// Most violations of one rule that the report lists; all are counted.
const LISTED_PER_RULE_MAX: usize = 5;

/// Collects calls for one check.
#[derive(Default)]
pub(crate) struct CallCollector {
    sequence_ids: HashMap<Box<str>, u32>,
    grids: Vec<Option<NumberGrid>>,
    calls: Vec<PackedCall>,
    findings: Findings,
    report: Report,
}

/// Stride and offset of the numbers of a sequence, by the first `next` read.
#[derive(Clone, Copy)]
pub(crate) struct NumberGrid {
    pub(crate) stride: NonZeroU64,
    pub(crate) offset: u64,
    pub(crate) line: u32,
}

/// Violations: all counted, the first few of each rule kept.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) counts: BTreeMap<Rule, u64>,
    pub(crate) listed: Vec<ConvictedCall>,
}

/// A call that breaks a rule, with its evidence: the call that convicts it, if the rule is about
/// two calls, and the raise through which the two are in order, if they are not by themselves.
pub(crate) struct ConvictedCall {
    pub(crate) rule: Rule,
    pub(crate) witness: Option<PackedCall>,
    pub(crate) raise: Option<PackedCall>,
    pub(crate) call: PackedCall,
    pub(crate) stride: NonZeroU64,
}

impl Findings {
    pub(crate) fn record(
        &mut self,
        rule: Rule,
        witness: Option<(&PackedCall, Option<&PackedCall>)>,
        call: &PackedCall,
        stride: NonZeroU64,
    ) {
        let count = self.counts.entry(rule).or_default();
        *count += 1;
        if *count <= LISTED_PER_RULE_MAX as u64 {
            self.listed.push(ConvictedCall {
                rule,
                witness: witness.map(|(call, _)| *call),
                raise: witness.and_then(|(_, raise)| raise.copied()),
                call: *call,
                stride,
            });
        }
    }
}

impl CallCollector {
    pub(crate) fn add_call(
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
        let sequence = self.sequence_id(sequence, line)?;
        let call = PackedCall::new(short_line, sequence, (begin, end), epoch, answer);
        match *answer {
            Answer::Next {
                first,
                last,
                stride,
            } => {
                let is_range = first >= 1
                    && last <= NUMBER_MAX
                    && first <= last
                    && (last - first) % stride == 0;
                if !is_range {
                    self.findings.record(Rule::Range, None, &call, stride);
                    return Ok(());
                }
                let grid = self.grids[sequence as usize].get_or_insert(NumberGrid {
                    stride,
                    offset: first % stride,
                    line: short_line,
                });
                if (grid.stride, grid.offset) != (stride, first % stride) {
                    self.findings.record(Rule::Stride, None, &call, stride);
                }
            }
            Answer::RaiseTo { asked, to } if to < asked => {
                self.findings
                    .record(Rule::RaiseShort, None, &call, NonZeroU64::MIN);
            }
            _ => {}
        }
        self.calls.push(call);
        Ok(())
    }

    fn sequence_id(&mut self, sequence: &str, line: u64) -> Result<u32, Error> {
        if let Some(&id) = self.sequence_ids.get(sequence) {
            return Ok(id);
        }
        let id = u32::try_from(self.sequence_ids.len())
            .ok()
            .filter(|&id| id < SEQUENCES_MAX)
            .ok_or(Error::TooMany {
                line,
                what: "sequences",
                max: u64::from(SEQUENCES_MAX),
            })?;
        self.sequence_ids.insert(sequence.into(), id);
        self.grids.push(None);
        Ok(id)
    }

    /// Sweeps every sequence and returns the report.
    pub(crate) fn finish(mut self) -> Report {
        self.report.sequences = self.sequence_ids.len() as u64;
        let coverage = sweep_calls(&mut self.calls, &self.grids, &mut self.findings);
        self.report.ordered_pairs = coverage.ordered_pairs;
        self.report.concurrency_max = coverage.concurrency_max;
        self.report
            .add_findings(self.findings, &self.sequence_ids, &self.grids);
        self.report
    }
}
