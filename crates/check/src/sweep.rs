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

use crate::Rule;
use crate::intake::{Found, Grid};
use crate::row::{Code, Row};

/// How much of the rules the history could test.
#[derive(Default)]
pub(crate) struct Reach {
    pub(crate) ordered_pairs: u64,
    pub(crate) concurrency_max: u64,
}

pub(crate) fn sweep(rows: &mut [Row], grids: &[Option<Grid>], found: &mut Found) -> Reach {
    rows.sort_unstable_by_key(|row| (row.sequence(), row.begin, row.line));
    let (mut by_first, mut by_end) = (Vec::new(), Vec::new());
    let mut reach = Reach::default();
    for calls in rows.chunk_by(|a, b| a.sequence() == b.sequence()) {
        let grid = grids[calls[0].sequence() as usize];
        let mut sequence = Sweep {
            calls,
            stride: grid.map_or(NonZeroU64::MIN, |grid| grid.stride),
            found: &mut *found,
        };
        let numbers = sequence.by_number(&mut by_first);
        sequence.by_time(&mut by_end, &numbers, &mut reach);
    }
    reach
}

/// Evidence: a call, and the raise that must have come after it, if the call under test is in
/// real-time order only with that raise.
type Witness<'a> = (&'a Row, Option<&'a Row>);

/// Call with the highest value so far.
#[derive(Default, Clone, Copy)]
struct Highest<'a>(Option<(u64, Witness<'a>)>);

impl<'a> Highest<'a> {
    fn offer(&mut self, value: u64, row: &'a Row, via: Option<&'a Row>) {
        if self.0.is_none_or(|(highest, _)| value > highest) {
            self.0 = Some((value, (row, via)));
        }
    }

    fn at_least(self, limit: u64) -> Option<Witness<'a>> {
        self.0
            .filter(|&(value, _)| value >= limit)
            .map(|(_, witness)| witness)
    }

    fn above(self, limit: u64) -> Option<Witness<'a>> {
        self.0
            .filter(|&(value, _)| value > limit)
            .map(|(_, witness)| witness)
    }
}

/// Highest of each sort among the calls that ended before the call under test.
#[derive(Default)]
struct Ended<'a> {
    next: Highest<'a>,
    exact: Highest<'a>,
    raise_to: Highest<'a>,
    /// Highest number handed out or exactly named.
    used: Highest<'a>,
    /// Highest number reached: handed out, exactly named, or raised to.
    reached: Highest<'a>,
    epoch: Highest<'a>,
}

impl<'a> Ended<'a> {
    fn add(&mut self, row: &'a Row, numbers: &Numbers<'a>) {
        match row.code() {
            Code::Next | Code::Exact => {
                let own = match row.code() {
                    Code::Next => &mut self.next,
                    _ => &mut self.exact,
                };
                own.offer(row.last, row, None);
                self.used.offer(row.last, row, None);
                self.reached.offer(row.last, row, None);
            }
            Code::RaiseTo => {
                self.raise_to.offer(row.last, row, None);
                self.reached.offer(row.last, row, None);
                // Numbers up to the raise cannot come after it, so they came before it, and with
                // them their whole range.
                if let Some(range) = numbers.highest_from(row.last) {
                    self.used.offer(range.last, range, Some(row));
                    self.reached.offer(range.last, range, Some(row));
                }
                if let Some(exact) = numbers.exact_lowest
                    && exact.last < row.last
                {
                    self.used.offer(exact.last, exact, Some(row));
                }
            }
            Code::Never | Code::AtMost => {}
        }
        if let Some(epoch) = row.epoch() {
            self.epoch.offer(epoch, row, None);
        }
    }
}

/// Calls of one sequence by number.
struct Numbers<'a> {
    calls: &'a [Row],
    /// For each range, in the order of their first numbers: that number, and which of the ranges
    /// up to this one reaches highest.
    by_first: &'a [(u64, u32)],
    exact_lowest: Option<&'a Row>,
}

impl<'a> Numbers<'a> {
    /// Returns the range that reaches highest among those that begin at or below `number`.
    fn highest_from(&self, number: u64) -> Option<&'a Row> {
        let below = self.by_first.partition_point(|&(first, _)| first <= number);
        let (_, highest) = self.by_first[..below].last()?;
        Some(&self.calls[*highest as usize])
    }
}

struct Sweep<'a, 'f> {
    calls: &'a [Row],
    stride: NonZeroU64,
    found: &'f mut Found,
}

impl<'a> Sweep<'a, '_> {
    fn convict(&mut self, rule: Rule, witness: Option<Witness<'_>>, call: &Row) {
        if witness.is_some() {
            self.found.add(rule, witness, call, self.stride);
        }
    }

    fn by_number<'n>(&mut self, by_first: &'n mut Vec<(u64, u32)>) -> Numbers<'n>
    where
        'a: 'n,
    {
        let calls = self.calls;
        by_first.clear();
        by_first.extend(
            (0..)
                .zip(calls)
                .filter(|(_, call)| call.code() == Code::Next)
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
                self.convict(Rule::Duplicate, Some((by, None)), call);
            }
            if by.last >= call.last {
                highest = Some(before);
                *index = before;
            }
        }
        let exacts = || calls.iter().filter(|call| call.code() == Code::Exact);
        let numbers = Numbers {
            calls,
            by_first,
            exact_lowest: exacts().min_by_key(|call| call.last),
        };
        for call in exacts() {
            let around = numbers.highest_from(call.last);
            let around = around.filter(|range| range.last > call.last);
            self.convict(Rule::ExactInside, around.map(|range| (range, None)), call);
        }
        numbers
    }

    fn by_time(&mut self, by_end: &mut Vec<(u64, u32)>, numbers: &Numbers<'_>, reach: &mut Reach) {
        let calls = self.calls;
        by_end.clear();
        by_end.extend((0..).zip(calls).map(|(index, call)| (call.end, index)));
        // The ends are nearly in order already, which makes the stable sort fast.
        by_end.sort();
        let mut ended = Ended::default();
        let mut past = 0;
        for (begun, call) in (1..).zip(calls) {
            while let Some(&(end, index)) = by_end.get(past)
                && end < call.begin
            {
                ended.add(&calls[index as usize], numbers);
                past += 1;
            }
            reach.ordered_pairs += past as u64;
            reach.concurrency_max = reach.concurrency_max.max(begun - past as u64);
            self.judge(&ended, call);
        }
    }

    fn judge(&mut self, ended: &Ended<'_>, call: &Row) {
        match call.code() {
            Code::Next => {
                self.convict(Rule::Order, ended.next.at_least(call.first), call);
                self.convict(Rule::ExactPassed, ended.exact.at_least(call.first), call);
                self.convict(Rule::RaiseLost, ended.raise_to.at_least(call.first), call);
            }
            Code::Exact => self.convict(Rule::ExactLow, ended.reached.above(call.last), call),
            Code::AtMost => self.convict(Rule::AtMostLow, ended.reached.above(call.last), call),
            Code::Never => self.convict(Rule::NeverAfter, ended.used.at_least(0), call),
            Code::RaiseTo => {}
        }
        if let Some(epoch) = call.epoch() {
            self.convict(Rule::Epoch, ended.epoch.above(epoch), call);
        }
    }
}
