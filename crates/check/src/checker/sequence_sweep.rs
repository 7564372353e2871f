//! Sweeps the calls of each sequence once by time and once by number.
//!
//! By time: calls come in the order of their begins. The calls that ended before are merged in from
//! a second order, by ends. Of these only the highest of each sort matters: a call that breaks a
//! rule against any of them breaks it against the highest.
//!
//! By number: ranges come in the order of their first number. A range that overlaps any earlier
//! range overlaps the one that reaches highest.
//!
//! Each pass costs at most one binary search for a call: O(n log n), like the sorting.

use std::num::NonZeroU64;

use super::findings::{Findings, NumberGrid};
use super::packed_call::{AnswerKind, PackedCall};
use super::rule::HistoryRule;

/// Number of ordered pairs and of calls at one time: what the rules about order were tested on.
#[derive(Default)]
pub(super) struct SweepCoverage {
    pub(super) ordered_pairs: u64,
    pub(super) concurrency_max: u64,
}

pub(super) fn sweep_calls(
    all_calls: &mut [PackedCall],
    grids: &[Option<NumberGrid>],
    findings: &mut Findings,
) -> SweepCoverage {
    all_calls.sort_unstable_by_key(|call| (call.sequence_id(), call.begin, call.line));
    let (mut by_first, mut by_end) = (Vec::new(), Vec::new());
    let mut coverage = SweepCoverage::default();
    for calls in all_calls.chunk_by(|a, b| a.sequence_id() == b.sequence_id()) {
        let grid = grids[calls[0].sequence_id() as usize];
        let mut sweep = SequenceSweep {
            calls,
            stride: grid.map_or(NonZeroU64::MIN, |grid| grid.stride),
            findings: &mut *findings,
        };
        let numbers = sweep.sweep_by_number(&mut by_first);
        sweep.sweep_by_time(&mut by_end, &numbers, &mut coverage);
    }
    coverage
}

/// Evidence: a call, and the raise that must have come after it, if the call under test is in
/// real-time order only with that raise.
type Witness<'a> = (&'a PackedCall, Option<&'a PackedCall>);

/// Call with the highest value so far.
#[derive(Default, Clone, Copy)]
struct HighestCall<'a>(Option<(u64, Witness<'a>)>);

impl<'a> HighestCall<'a> {
    fn offer(&mut self, value: u64, call: &'a PackedCall, raise: Option<&'a PackedCall>) {
        if self.0.is_none_or(|(highest, _)| value > highest) {
            self.0 = Some((value, (call, raise)));
        }
    }

    fn witness_at_least(self, limit: u64) -> Option<Witness<'a>> {
        self.0
            .filter(|&(value, _)| value >= limit)
            .map(|(_, witness)| witness)
    }

    fn witness_above(self, limit: u64) -> Option<Witness<'a>> {
        self.0
            .filter(|&(value, _)| value > limit)
            .map(|(_, witness)| witness)
    }
}

/// Highest of each sort among the calls that ended before the call under test.
#[derive(Default)]
struct EndedCalls<'a> {
    next: HighestCall<'a>,
    exact: HighestCall<'a>,
    raise_to: HighestCall<'a>,
    /// Highest number handed out or exactly named.
    used: HighestCall<'a>,
    /// Highest number reached: handed out, exactly named, or raised to.
    reached: HighestCall<'a>,
    epoch: HighestCall<'a>,
}

impl<'a> EndedCalls<'a> {
    fn add_call(&mut self, call: &'a PackedCall, numbers: &NumberIndex<'a>) {
        match call.answer_kind() {
            AnswerKind::Next | AnswerKind::Exact => {
                let own = match call.answer_kind() {
                    AnswerKind::Next => &mut self.next,
                    _ => &mut self.exact,
                };
                own.offer(call.last, call, None);
                self.used.offer(call.last, call, None);
                self.reached.offer(call.last, call, None);
            }
            AnswerKind::RaiseTo => {
                self.raise_to.offer(call.last, call, None);
                self.reached.offer(call.last, call, None);
                // Numbers up to the raise cannot come after it, so they came before it, and with
                // them their whole range.
                if let Some(range) = numbers.highest_from(call.last) {
                    self.used.offer(range.last, range, Some(call));
                    self.reached.offer(range.last, range, Some(call));
                }
                if let Some(exact) = numbers.exact_lowest
                    && exact.last < call.last
                {
                    self.used.offer(exact.last, exact, Some(call));
                }
            }
            AnswerKind::Never | AnswerKind::AtMost => {}
        }
        if let Some(epoch) = call.epoch() {
            self.epoch.offer(epoch, call, None);
        }
    }
}

/// Calls of one sequence by number.
struct NumberIndex<'a> {
    calls: &'a [PackedCall],
    /// For each range, in the order of their first numbers: that number, and which of the ranges
    /// up to this one reaches highest.
    by_first: &'a [(u64, u32)],
    exact_lowest: Option<&'a PackedCall>,
}

impl<'a> NumberIndex<'a> {
    /// Returns the range that reaches highest among those that begin at or below `number`.
    fn highest_from(&self, number: u64) -> Option<&'a PackedCall> {
        let below = self.by_first.partition_point(|&(first, _)| first <= number);
        let (_, highest) = self.by_first[..below].last()?;
        Some(&self.calls[*highest as usize])
    }
}

struct SequenceSweep<'a, 'f> {
    calls: &'a [PackedCall],
    stride: NonZeroU64,
    findings: &'f mut Findings,
}

impl<'a> SequenceSweep<'a, '_> {
    fn record_broken(
        &mut self,
        rule: HistoryRule,
        witness: Option<Witness<'_>>,
        call: &PackedCall,
    ) {
        if witness.is_some() {
            self.findings.record(rule, witness, call, self.stride);
        }
    }

    fn sweep_by_number<'n>(&mut self, by_first: &'n mut Vec<(u64, u32)>) -> NumberIndex<'n>
    where
        'a: 'n,
    {
        let calls = self.calls;
        by_first.clear();
        by_first.extend(
            (0..)
                .zip(calls)
                .filter(|(_, call)| call.answer_kind() == AnswerKind::Next)
                .map(|(index, call)| (call.first, index)),
        );
        by_first.sort();
        let mut highest = None;
        for (first, index) in &mut *by_first {
            let call = &calls[*index as usize];
            let Some(before) = highest.replace(*index) else {
                continue;
            };
            let by = &calls[before as usize];
            // Ranges off the grid of the others share no number; rule `Stride` reports them.
            if by.last >= *first && (*first - by.first) % self.stride == 0 {
                self.record_broken(HistoryRule::Duplicate, Some((by, None)), call);
            }
            if by.last >= call.last {
                highest = Some(before);
                *index = before;
            }
        }
        let exacts = || {
            calls
                .iter()
                .filter(|call| call.answer_kind() == AnswerKind::Exact)
        };
        let numbers = NumberIndex {
            calls,
            by_first,
            exact_lowest: exacts().min_by_key(|call| call.last),
        };
        for call in exacts() {
            let range = numbers.highest_from(call.last);
            let range = range.filter(|range| range.last > call.last);
            self.record_broken(
                HistoryRule::ExactInside,
                range.map(|range| (range, None)),
                call,
            );
        }
        numbers
    }

    fn sweep_by_time(
        &mut self,
        by_end: &mut Vec<(u64, u32)>,
        numbers: &NumberIndex<'_>,
        coverage: &mut SweepCoverage,
    ) {
        let calls = self.calls;
        by_end.clear();
        by_end.extend((0..).zip(calls).map(|(index, call)| (call.end, index)));
        // The ends are nearly in order already, which makes the stable sort fast.
        by_end.sort();
        let mut ended = EndedCalls::default();
        let mut ended_count = 0;
        for (begun_count, call) in (1..).zip(calls) {
            while let Some(&(end, index)) = by_end.get(ended_count)
                && end < call.begin
            {
                ended.add_call(&calls[index as usize], numbers);
                ended_count += 1;
            }
            coverage.ordered_pairs += ended_count as u64;
            coverage.concurrency_max = coverage
                .concurrency_max
                .max(begun_count - ended_count as u64);
            self.check_order(&ended, call);
        }
    }

    fn check_order(&mut self, ended: &EndedCalls<'_>, call: &PackedCall) {
        match call.answer_kind() {
            AnswerKind::Next => {
                self.record_broken(
                    HistoryRule::Order,
                    ended.next.witness_at_least(call.first),
                    call,
                );
                self.record_broken(
                    HistoryRule::ExactPassed,
                    ended.exact.witness_at_least(call.first),
                    call,
                );
                self.record_broken(
                    HistoryRule::RaiseLost,
                    ended.raise_to.witness_at_least(call.first),
                    call,
                );
            }
            AnswerKind::Exact => self.record_broken(
                HistoryRule::ExactLow,
                ended.reached.witness_above(call.last),
                call,
            ),
            AnswerKind::AtMost => self.record_broken(
                HistoryRule::AtMostLow,
                ended.reached.witness_above(call.last),
                call,
            ),
            AnswerKind::Never => self.record_broken(
                HistoryRule::NeverAfter,
                ended.used.witness_at_least(0),
                call,
            ),
            AnswerKind::RaiseTo => {}
        }
        if let Some(epoch) = call.epoch() {
            self.record_broken(HistoryRule::Epoch, ended.epoch.witness_above(epoch), call);
        }
    }
}
