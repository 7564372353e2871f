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
use seqsvr_check::{Answer, Call, Outcome, Rule, check};

/// An answered call: position, begin, end, epoch, answer.
#[derive(Clone, Copy)]
struct AnsweredCall {
    position: usize,
    begin: u64,
    end: u64,
    epoch: Option<u64>,
    answer: Answer,
}

impl AnsweredCall {
    fn numbers(&self) -> Option<(u64, u64, u64)> {
        match self.answer {
            Answer::Next {
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

fn calls_by_sequence(calls: &[Call]) -> BTreeMap<&str, Vec<AnsweredCall>> {
    let mut all: BTreeMap<&str, Vec<AnsweredCall>> = BTreeMap::new();
    for (position, call) in calls.iter().enumerate() {
        if let Outcome::Ok { end, epoch, answer } = call.outcome {
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
fn rules_broken_by(a: &AnsweredCall, b: &AnsweredCall) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut rule = |broken: bool, rule| {
        if broken {
            rules.push(rule);
        }
    };
    if a.position == b.position {
        rule(!b.is_range(), Rule::Range);
        let short = matches!(b.answer, Answer::RaiseTo { asked, to } if to < asked);
        rule(short, Rule::RaiseShort);
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
        rule(twice && a_is_lower, Rule::Duplicate);
    }
    if let (Some((first, last, _)), Answer::Exact(n)) = (a.numbers(), b.answer) {
        rule(first <= n && n < last, Rule::ExactInside);
    }
    if a.end >= b.begin {
        return rules;
    }
    rule(
        matches!((a.epoch, b.epoch), (Some(a), Some(b)) if b < a),
        Rule::Epoch,
    );
    let reached = match a.answer {
        Answer::Next { last, .. } => Some(last),
        Answer::Exact(n) | Answer::RaiseTo { to: n, .. } => Some(n),
        Answer::Never | Answer::AtMost(_) => None,
    };
    match (reached, a.answer, b.answer) {
        (Some(n), Answer::Next { .. }, Answer::Next { first, .. }) => rule(n >= first, Rule::Order),
        (Some(n), Answer::Exact(_), Answer::Next { first, .. }) => {
            rule(n >= first, Rule::ExactPassed);
        }
        (Some(n), Answer::RaiseTo { .. }, Answer::Next { first, .. }) => {
            rule(n >= first, Rule::RaiseLost);
        }
        (Some(n), _, Answer::Exact(named)) => rule(n > named, Rule::ExactLow),
        (Some(n), _, Answer::AtMost(bound)) => rule(n > bound, Rule::AtMostLow),
        (Some(_), Answer::Next { .. } | Answer::Exact(_), Answer::Never) => {
            rule(true, Rule::NeverAfter);
        }
        _ => {}
    }
    rules
}

/// Returns the rule that `b` breaks against `a` because `a` must have come before the raise `via`,
/// which ended before `b` began.
fn rule_broken_via(a: &AnsweredCall, via: &AnsweredCall, b: &AnsweredCall) -> Option<Rule> {
    let Answer::RaiseTo { to, .. } = via.answer else {
        return None;
    };
    if via.end >= b.begin || !a.is_range() || !b.is_range() {
        return None;
    }
    match (a.answer, b.answer) {
        (Answer::Next { first, last, .. }, Answer::AtMost(bound)) => {
            (first <= to && last > bound).then_some(Rule::AtMostLow)
        }
        (Answer::Next { first, last, .. }, Answer::Exact(named)) => {
            (first <= to && last > named).then_some(Rule::ExactLow)
        }
        (Answer::Next { first, .. }, Answer::Never) => (first <= to).then_some(Rule::NeverAfter),
        (Answer::Exact(n), Answer::Never) => (n < to).then_some(Rule::NeverAfter),
        _ => None,
    }
}

fn count_broken_by_pairs(calls: &[Call]) -> BTreeMap<Rule, u64> {
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
                *counts.entry(Rule::Stride).or_default() += 1;
            }
        }
        for b in sequence {
            let direct = sequence.iter().flat_map(|a| rules_broken_by(a, b));
            let through = sequence.iter().flat_map(|a| {
                sequence
                    .iter()
                    .filter_map(move |via| rule_broken_via(a, via, b))
            });
            let broken: BTreeSet<Rule> = direct.chain(through).collect();
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
    /// Returns the state after the answer, or `None` if a counter cannot give it. Burned numbers
    /// lift `current` at any time, so any answer above is possible.
    fn after_answer(self, answer: Answer) -> Option<Self> {
        let to = |current| Self {
            current,
            used: true,
        };
        match answer {
            Answer::Next { first, last, .. } => (first > self.current).then(|| to(last)),
            Answer::Exact(n) => (n >= self.current).then(|| to(n)),
            Answer::AtMost(n) => (n >= self.current).then_some(self),
            Answer::Never => (!self.used).then_some(self),
            Answer::RaiseTo { to: n, .. } => Some(Self {
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

fn is_ok_by_order(calls: &[Call]) -> bool {
    calls_by_sequence(calls)
        .values()
        .all(|sequence| has_order(sequence, CounterState::default()))
}

/// Returns whether an order of the calls cannot show the rule: it is about one call or epochs.
fn is_invisible_to_order(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::Range | Rule::RaiseShort | Rule::Stride | Rule::Epoch
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
        let report = check(&calls).unwrap();
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
        let report = check(&calls).unwrap();
        let mut broken = report.broken.clone();
        let mut expected = count_broken_by_pairs(&calls);
        if broken.contains_key(&Rule::Stride) {
            // Off the grid only the verdict must agree, not which call is named for a duplicate.
            broken.remove(&Rule::Duplicate);
            expected.remove(&Rule::Duplicate);
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
        let report = check(&calls).unwrap();
        prop_assume!(!report.broken.contains_key(&Rule::Range));
        prop_assume!(!report.broken.contains_key(&Rule::Stride));
        let no_rule = report.broken.keys().all(|&rule| is_invisible_to_order(rule));
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
        let report = check(&calls).unwrap();
        sound += usize::from(report.is_ok());
        for rule in report.broken.into_keys() {
            *seen.entry(rule).or_insert(0) += 1;
        }
    }
    println!("{sound} of 4000 sound; broken: {seen:?}");
    assert_eq!(seen.len(), 12, "{seen:?}");
    assert!(seen.values().all(|&times| times >= 20), "{seen:?}");
    assert!((400..3_600).contains(&sound), "{sound}");
}
