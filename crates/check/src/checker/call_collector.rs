//! Collects calls one by one and keeps what the sweep needs.
//!
//! Here the checker finds the rules that a call breaks by itself, or against the stride of its
//! sequence. It leaves a malformed range out of the sweep, which may rely on well-formed ones.
//!
//! Invariant: every call is counted, and every answered call is swept or becomes a violation.

use std::collections::HashMap;
use std::num::NonZeroU64;

use super::check_report::CheckReport;
use super::findings::{Findings, NumberGrid};
use super::packed_call::{PackedCall, SEQUENCES_MAX};
use super::rule::{HistoryRule, NUMBER_MAX};
use crate::history::{CallAnswer, CallKind, CallOutcome, Error};

/// Collects calls for one check.
#[derive(Default)]
pub(super) struct CallCollector {
    pub(super) sequence_ids: HashMap<Box<str>, u32>,
    pub(super) grids: Vec<Option<NumberGrid>>,
    pub(super) calls: Vec<PackedCall>,
    pub(super) findings: Findings,
    pub(super) report: CheckReport,
}

impl CallCollector {
    pub(super) fn add_call(
        &mut self,
        line: u64,
        sequence: &str,
        begin: u64,
        outcome: &CallOutcome,
    ) -> Result<(), Error> {
        let short_line = u32::try_from(line).map_err(|_| Error::TooMany {
            line,
            what: "lines",
            max: u64::from(u32::MAX),
        })?;
        self.report.calls += 1;
        let (end, epoch, answer) = match outcome {
            CallOutcome::Ok { end, epoch, answer } => (*end, *epoch, answer),
            CallOutcome::Error { .. } => {
                self.report.errors += 1;
                return Ok(());
            }
            CallOutcome::Unknown { .. } => {
                self.report.unknown += 1;
                return Ok(());
            }
        };
        match answer.kind() {
            CallKind::Next => self.report.next += 1,
            CallKind::Current => self.report.current += 1,
            CallKind::RaiseTo => self.report.raise_to += 1,
        }
        let sequence = self.sequence_id(sequence, line)?;
        let call = PackedCall::new(short_line, sequence, (begin, end), epoch, answer);
        match *answer {
            CallAnswer::Next {
                first,
                last,
                stride,
            } => {
                let is_range = first >= 1
                    && last <= NUMBER_MAX
                    && first <= last
                    && (last - first) % stride == 0;
                if !is_range {
                    self.findings
                        .record(HistoryRule::Range, None, &call, stride);
                    return Ok(());
                }
                let grid = self.grids[sequence as usize].get_or_insert(NumberGrid {
                    stride,
                    offset: first % stride,
                    line: short_line,
                });
                if (grid.stride, grid.offset) != (stride, first % stride) {
                    self.findings
                        .record(HistoryRule::Stride, None, &call, stride);
                }
            }
            CallAnswer::RaiseTo { requested, to } if to < requested => {
                self.findings
                    .record(HistoryRule::RaiseShort, None, &call, NonZeroU64::MIN);
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
}
