//! The checker against two references that share only the meaning of the rules with it.
//!
//! `count_broken_by_pairs` compares every pair of calls (every three, where a raise lies between)
//! and counts the calls that break each rule: the counts must agree rule by rule. `has_order` uses
//! no rule at all: it tries every order that keeps real time and runs it against one counter. It
//! must reach the same verdict.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use seqsvr_check::rule::NUMBER_MAX;
use seqsvr_check::{CallAnswer, CallOutcome, HistoryRule, RecordedCall, check_calls};

/// An answered call: position, begin, end, epoch, answer.
#[derive(Clone, Copy)]
struct AnsweredCall {
    position: usize,
    begin: u64,
    end: u64,
    epoch: Option<u64>,
    answer: CallAnswer,
}

impl AnsweredCall {
    fn numbers(&self) -> Option<(u64, u64, u64)> {
        match self.answer {
            CallAnswer::Next {
                first,
                last,
                stride,
            } => Some((first, last, stride.get())),
            _ => None,
        }
    }

    fn is_range(&self) -> bool {
        self.numbers().is_none_or(|(first, last, stride)| {
            1 <= first && first <= last && last <= NUMBER_MAX && (last - first) % stride == 0
        })
    }
}

fn calls_by_sequence(calls: &[RecordedCall]) -> BTreeMap<&str, Vec<AnsweredCall>> {
    let mut all: BTreeMap<&str, Vec<AnsweredCall>> = BTreeMap::new();
    for (position, call) in calls.iter().enumerate() {
        if let CallOutcome::Ok { end, epoch, answer } = call.outcome {
            all.entry(call.sequence.as_str())
                .or_default()
                .push(AnsweredCall {
                    position,
                    begin: call.begin,
                    end,
                    epoch,
                    answer,
                });
        }
    }
    all
}

/// Returns the rules that `b` breaks against `a`, or by itself where `a` is `b`.
fn rules_broken_by(a: &AnsweredCall, b: &AnsweredCall) -> Vec<HistoryRule> {
    let mut rules = Vec::new();
    let mut rule = |broken: bool, rule| {
        if broken {
            rules.push(rule);
        }
    };
    if a.position == b.position {
        rule(!b.is_range(), HistoryRule::Range);
        let short = matches!(b.answer, CallAnswer::RaiseTo { requested, to } if to < requested);
        rule(short, HistoryRule::RaiseShort);
        return rules;
    }
    if !a.is_range() || !b.is_range() {
        return rules;
    }
    if let (Some((first_a, last_a, stride_a)), Some((first, last, stride))) =
        (a.numbers(), b.numbers())
    {
        let numbers: BTreeSet<u64> = (first..=last).step_by(stride as usize).collect();
        let mut others = (first_a..=last_a).step_by(stride_a as usize);
        let twice = others.any(|number| numbers.contains(&number));
        let a_is_lower = (first_a, a.begin, a.position) < (first, b.begin, b.position);
        rule(twice && a_is_lower, HistoryRule::Duplicate);
    }
    if let (Some((first, last, _)), CallAnswer::Exact(n)) = (a.numbers(), b.answer) {
        rule(first <= n && n < last, HistoryRule::ExactInside);
    }
    if a.end >= b.begin {
        return rules;
    }
    rule(
        matches!((a.epoch, b.epoch), (Some(a), Some(b)) if b < a),
        HistoryRule::Epoch,
    );
    let reached = match a.answer {
        CallAnswer::Next { last, .. } => Some(last),
        CallAnswer::Exact(n) | CallAnswer::RaiseTo { to: n, .. } => Some(n),
        CallAnswer::Never | CallAnswer::AtMost(_) => None,
    };
    match (reached, a.answer, b.answer) {
        (Some(n), CallAnswer::Next { .. }, CallAnswer::Next { first, .. }) => {
            rule(n >= first, HistoryRule::Order)
        }
        (Some(n), CallAnswer::Exact(_), CallAnswer::Next { first, .. }) => {
            rule(n >= first, HistoryRule::ExactPassed);
        }
        (Some(n), CallAnswer::RaiseTo { .. }, CallAnswer::Next { first, .. }) => {
            rule(n >= first, HistoryRule::RaiseLost);
        }
        (Some(n), _, CallAnswer::Exact(named)) => rule(n > named, HistoryRule::ExactLow),
        (Some(n), _, CallAnswer::AtMost(bound)) => rule(n > bound, HistoryRule::AtMostLow),
        (Some(_), CallAnswer::Next { .. } | CallAnswer::Exact(_), CallAnswer::Never) => {
            rule(true, HistoryRule::NeverAfter);
        }
        _ => {}
    }
    rules
}

/// Returns the rule that `b` breaks against `a` because `a` must have come before the raise `via`,
/// which ended before `b` began.
fn rule_broken_via(a: &AnsweredCall, via: &AnsweredCall, b: &AnsweredCall) -> Option<HistoryRule> {
    let CallAnswer::RaiseTo { to, .. } = via.answer else {
        return None;
    };
    if via.end >= b.begin || !a.is_range() || !b.is_range() {
        return None;
    }
    match (a.answer, b.answer) {
        (CallAnswer::Next { first, last, .. }, CallAnswer::AtMost(bound)) => {
            (first <= to && last > bound).then_some(HistoryRule::AtMostLow)
        }
        (CallAnswer::Next { first, last, .. }, CallAnswer::Exact(named)) => {
            (first <= to && last > named).then_some(HistoryRule::ExactLow)
        }
        (CallAnswer::Next { first, .. }, CallAnswer::Never) => {
            (first <= to).then_some(HistoryRule::NeverAfter)
        }
        (CallAnswer::Exact(n), CallAnswer::Never) => (n < to).then_some(HistoryRule::NeverAfter),
        _ => None,
    }
}

fn count_broken_by_pairs(calls: &[RecordedCall]) -> BTreeMap<HistoryRule, u64> {
    let mut counts = BTreeMap::new();
    for sequence in calls_by_sequence(calls).values() {
        let ranges = sequence.iter().filter(|call| call.is_range());
        let grids: Vec<_> = ranges
            .filter_map(|call| {
                call.numbers()
                    .map(|(first, _, stride)| (stride, first % stride))
            })
            .collect();
        for grid in &grids {
            if *grid != grids[0] {
                *counts.entry(HistoryRule::Stride).or_default() += 1;
            }
        }
        for b in sequence {
            let direct = sequence.iter().flat_map(|a| rules_broken_by(a, b));
            let through = sequence.iter().flat_map(|a| {
                sequence
                    .iter()
                    .filter_map(move |via| rule_broken_via(a, via, b))
            });
            let broken: BTreeSet<HistoryRule> = direct.chain(through).collect();
            for rule in broken {
                *counts.entry(rule).or_default() += 1;
            }
        }
    }
    counts
}

/// State of one counter during a run of one order.
#[derive(Clone, Copy, Default)]
struct CounterState {
    current: u64,
    used: bool,
}

impl CounterState {
    /// Returns the state after the answer, or `None` if a counter cannot give it. Discarded numbers
    /// lift `current` at any time, so any answer above is possible.
    fn after_answer(self, answer: CallAnswer) -> Option<Self> {
        let to = |current| Self {
            current,
            used: true,
        };
        match answer {
            CallAnswer::Next { first, last, .. } => (first > self.current).then(|| to(last)),
            CallAnswer::Exact(n) => (n >= self.current).then(|| to(n)),
            CallAnswer::AtMost(n) => (n >= self.current).then_some(self),
            CallAnswer::Never => (!self.used).then_some(self),
            CallAnswer::RaiseTo { to: n, .. } => Some(Self {
                current: self.current.max(n),
                ..self
            }),
        }
    }
}

/// Returns whether some order keeps real time and lets one counter give all the answers.
fn has_order(remaining: &[AnsweredCall], state: CounterState) -> bool {
    remaining.is_empty()
        || (0..remaining.len()).any(|at| {
            let call = remaining[at];
            let is_first = remaining.iter().all(|other| other.end >= call.begin);
            is_first
                && state.after_answer(call.answer).is_some_and(|state| {
                    let rest: Vec<_> = [&remaining[..at], &remaining[at + 1..]].concat();
                    has_order(&rest, state)
                })
        })
}

fn is_ok_by_order(calls: &[RecordedCall]) -> bool {
    calls_by_sequence(calls)
        .values()
        .all(|sequence| has_order(sequence, CounterState::default()))
}

/// Returns whether an order of the calls cannot show the rule: it is about one call or epochs.
fn is_invisible_to_order(rule: HistoryRule) -> bool {
    matches!(
        rule,
        HistoryRule::Range | HistoryRule::RaiseShort | HistoryRule::Stride | HistoryRule::Epoch
    )
}

proptest! {
    // PROPTEST_CASES sets more cases.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(4_000),
        max_global_rejects: u32::MAX,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn checker_accepts_truthful_histories(
        steps in common::random_steps(60),
        sequences in 1_usize..4,
    ) {
        let calls = common::truthful_history(&steps, sequences);
        let report = check_calls(&calls).unwrap();
        prop_assert!(report.is_ok(), "{report}");
        prop_assert_eq!(report.calls, calls.len() as u64);
    }

    #[test]
    fn checker_agrees_with_every_pair(
        steps in common::random_steps(24),
        sequences in 1_usize..4,
        changes in common::random_changes(),
    ) {
        let mut calls = common::truthful_history(&steps, sequences);
        common::apply_changes(&mut calls, &changes);
        let report = check_calls(&calls).unwrap();
        let mut broken = report.broken_rules.clone();
        let mut expected = count_broken_by_pairs(&calls);
        if broken.contains_key(&HistoryRule::Stride) {
            // Off the grid only the verdict must agree, not which call is named for a duplicate.
            broken.remove(&HistoryRule::Duplicate);
            expected.remove(&HistoryRule::Duplicate);
        }
        prop_assert_eq!(&broken, &expected, "{}", report);

        let mut ordered = 0;
        for sequence in calls_by_sequence(&calls).values() {
            let sound: Vec<_> = sequence.iter().filter(|call| call.is_range()).collect();
            for b in &sound {
                ordered += sound.iter().filter(|a| a.end < b.begin).count() as u64;
            }
        }
        prop_assert_eq!(report.ordered_pairs, ordered);
    }

    #[test]
    fn checker_agrees_with_the_search_for_an_order(
        steps in common::random_steps(7),
        changes in common::random_changes(),
    ) {
        let mut calls = common::truthful_history(&steps, 1);
        common::apply_changes(&mut calls, &changes);
        let report = check_calls(&calls).unwrap();
        prop_assume!(!report.broken_rules.contains_key(&HistoryRule::Range));
        prop_assume!(!report.broken_rules.contains_key(&HistoryRule::Stride));
        let no_rule = report.broken_rules.keys().all(|&rule| is_invisible_to_order(rule));
        prop_assert_eq!(no_rule, is_ok_by_order(&calls), "{}", report);
    }
}

/// The properties above would prove little if changes rarely broke a rule, or always did.
#[test]
fn random_changes_break_every_rule_and_none() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut seen, mut sound) = (BTreeMap::new(), 0);
    for _ in 0..4_000 {
        let tree = (common::random_steps(24), common::random_changes()).new_tree(&mut runner);
        let (steps, changes) = tree.unwrap().current();
        let mut calls = common::truthful_history(&steps, 2);
        common::apply_changes(&mut calls, &changes);
        let report = check_calls(&calls).unwrap();
        sound += usize::from(report.is_ok());
        for rule in report.broken_rules.into_keys() {
            *seen.entry(rule).or_insert(0) += 1;
        }
    }
    println!("{sound} of 4000 sound; broken: {seen:?}");
    assert_eq!(seen.len(), 12, "{seen:?}");
    assert!(seen.values().all(|&times| times >= 20), "{seen:?}");
    assert!((400..3_600).contains(&sound), "{sound}");
}
