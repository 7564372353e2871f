//! Random histories: truthful ones, made by calls against real counters, and copies of these with a
//! few random changes. Values and times are small, so that changes hit something.

use std::num::NonZeroU64;

use proptest::prelude::*;
use seqsvr_check::{CallAnswer, CallKind, CallOutcome, RecordedCall, SequenceName};

/// One step of a random history; each number chooses one property of the call.
pub(crate) type HistoryStep = (u8, u8, u8, u8);
/// One change to a history: the call, the field, the value.
pub(crate) type HistoryChange = (prop::sample::Index, u8, u8);

pub(crate) fn random_steps(count_max: usize) -> impl Strategy<Value = Vec<HistoryStep>> {
    prop::collection::vec(any::<HistoryStep>(), 0..=count_max)
}

pub(crate) fn random_changes() -> impl Strategy<Value = Vec<HistoryChange>> {
    prop::collection::vec(any::<HistoryChange>(), 0..4)
}

/// Runs the steps against `sequences` counters, each with its own stride. Every call takes effect
/// at one instant between its begin and its end, so the history is truthful.
pub(crate) fn truthful_history(steps: &[HistoryStep], sequences: usize) -> Vec<RecordedCall> {
    let mut counters: Vec<ModelCounter> = (0..sequences as u64)
        .map(|n| ModelCounter::new(NonZeroU64::MIN.saturating_add(n)))
        .collect();
    let calls = (0..)
        .zip(steps)
        .map(|(index, &(what, which, early, late))| {
            let instant = 20 + 4 * index;
            let number = usize::from(which) % sequences;
            let counter = &mut counters[number];
            if which > 240 {
                counter.epoch += 1;
            }
            let kind = [
                CallKind::Next,
                CallKind::Next,
                CallKind::Current,
                CallKind::RaiseTo,
            ][usize::from(what % 4)];
            let (answer, names_epoch) = counter.answer(kind, what / 4);
            let begin = instant - u64::from(early % 20);
            let end = instant + u64::from(late % 20);
            let outcome = match late {
                0..20 => CallOutcome::Unknown { kind },
                20..30 => CallOutcome::Error { end, kind },
                _ => CallOutcome::Ok {
                    end,
                    epoch: names_epoch.then_some(counter.epoch),
                    answer,
                },
            };
            let sequence = SequenceName::for_key("keys", format!("key {number}"));
            RecordedCall {
                sequence,
                begin,
                outcome,
            }
        });
    calls.collect()
}

/// Counter of one sequence that keeps all rules.
struct ModelCounter {
    stride: NonZeroU64,
    current: u64,
    is_untouched: bool,
    epoch: u64,
}

impl ModelCounter {
    fn new(stride: NonZeroU64) -> Self {
        Self {
            stride,
            current: 0,
            is_untouched: true,
            epoch: 1,
        }
    }

    fn answer(&mut self, kind: CallKind, choice: u8) -> (CallAnswer, bool) {
        let stride = self.stride.get();
        let names_epoch = choice & 32 == 0;
        let offset = u64::from(choice % 4);
        let answer = match kind {
            CallKind::Next => {
                let discarded = u64::from(choice / 4 % 2) * offset;
                let first = self.current + (1 + discarded) * stride;
                self.current = first + offset * stride;
                self.is_untouched = false;
                let (last, stride) = (self.current, self.stride);
                CallAnswer::Next {
                    first,
                    last,
                    stride,
                }
            }
            CallKind::Current if choice & 16 == 0 => CallAnswer::AtMost(self.current + offset),
            CallKind::Current if self.is_untouched => CallAnswer::Never,
            CallKind::Current => {
                self.current += u64::from(choice / 4 % 2) * stride;
                CallAnswer::Exact(self.current)
            }
            CallKind::RaiseTo => {
                let requested = (self.current + offset).saturating_sub(u64::from(choice / 4 % 4));
                let to = requested.next_multiple_of(stride);
                self.current = self.current.max(to);
                CallAnswer::RaiseTo { requested, to }
            }
        };
        (answer, names_epoch)
    }
}

/// Applies the changes; the result is a well-formed history that may or may not be truthful.
pub(crate) fn apply_changes(calls: &mut Vec<RecordedCall>, changes: &[HistoryChange]) {
    for (index, field, value) in changes {
        if calls.is_empty() {
            return;
        }
        let at = index.index(calls.len());
        let other = usize::from(*value) % calls.len();
        match field % 8 {
            0 => calls.push(calls[at].clone()),
            1 => {
                let outcome = calls[at].outcome.clone();
                calls[at].outcome = std::mem::replace(&mut calls[other].outcome, outcome);
            }
            2 => calls[at].begin = calls[at].begin.saturating_sub(u64::from(*value % 32)),
            _ => change_outcome(&mut calls[at].outcome, *field, u64::from(*value)),
        }
    }
    // Exchanged outcomes may end before their new begins.
    for call in calls {
        if let CallOutcome::Ok { end, .. } | CallOutcome::Error { end, .. } = &mut call.outcome {
            *end = (*end).max(call.begin);
        }
    }
}

fn change_outcome(outcome: &mut CallOutcome, field: u8, value: u64) {
    let CallOutcome::Ok { end, epoch, answer } = outcome else {
        return;
    };
    let shift = |number: &mut u64| *number = (*number + value % 8).saturating_sub(4);
    match (field % 8, answer) {
        (3, _) => *end = end.saturating_sub(value % 32),
        (4, _) => *epoch = Some(value % 4),
        (5, CallAnswer::Next { stride, .. }) => *stride = NonZeroU64::MIN.saturating_add(value % 3),
        (_, CallAnswer::Next { first, last, .. }) => {
            if field & 128 == 0 {
                shift(first);
            }
            if field & 64 == 0 {
                shift(last);
            }
        }
        (_, CallAnswer::RaiseTo { requested, to }) => {
            shift(to);
            *requested = (*requested).min(*to + u64::from(value > 200));
        }
        (6, answer @ CallAnswer::Exact(_)) => *answer = CallAnswer::Never,
        (_, CallAnswer::Exact(number) | CallAnswer::AtMost(number)) => shift(number),
        (_, answer @ CallAnswer::Never) => *answer = CallAnswer::Exact(value % 4),
    }
}
