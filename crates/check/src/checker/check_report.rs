//! Result of a check: how much the history could show, and which calls broke which rule.
//!
//! Invariant: the list of violations is bounded, the counts are not; `is_ok` uses the counts.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::findings::{Findings, NumberGrid};
use super::rule::HistoryRule;
use super::violation_text::describe_violation;
use crate::history::RecordedCall;

/// Result of a check.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// Calls in the history, of every outcome.
    pub calls: u64,
    /// Answered `next` calls.
    pub next: u64,
    /// Answered `current` calls.
    pub current: u64,
    /// Answered `raise-to` calls.
    pub raise_to: u64,
    /// Calls answered with an error.
    pub errors: u64,
    /// Calls without an answer.
    pub unknown: u64,
    /// Sequences with at least one answered call.
    pub sequences: u64,
    /// Pairs of answered calls of one sequence of which one ended before the other began. The rules
    /// about order are tested on these; 0 means that they were not tested at all.
    pub ordered_pairs: u64,
    /// Most answered calls in flight on one sequence at one time.
    pub concurrency_max: u64,
    /// Number of calls that broke each rule; empty if none did.
    pub broken_rules: BTreeMap<HistoryRule, u64>,
    /// The first few violations of each rule.
    pub violations: Vec<Violation>,
}

/// A broken rule, with the calls that show it.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The rule.
    pub rule: HistoryRule,
    /// One sentence that describes the violation, with line numbers.
    pub description: String,
    /// The calls, the earlier first.
    pub calls: Vec<CitedCall>,
}

/// A call and its line.
#[derive(Debug, Clone)]
pub struct CitedCall {
    /// Line of the history (the header is line 1); for calls in memory, their position from 1.
    pub line: u64,
    /// The call.
    pub call: RecordedCall,
}

impl CheckReport {
    /// Returns whether no rule was broken. An empty history breaks none: check
    /// [`answered`](Self::answered_calls) and [`ordered_pairs`](Self::ordered_pairs) too.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.broken_rules.is_empty()
    }

    /// Returns the number of answered calls of all kinds.
    #[must_use]
    pub fn answered_calls(&self) -> u64 {
        self.next + self.current + self.raise_to
    }

    /// Returns the number of all violations, listed or not.
    #[must_use]
    pub fn violations_total(&self) -> u64 {
        self.broken_rules.values().sum()
    }

    pub(super) fn add_findings(
        &mut self,
        findings: Findings,
        sequence_ids: &HashMap<Box<str>, u32>,
        grids: &[Option<NumberGrid>],
    ) {
        self.broken_rules = findings.counts;
        // One pass over all names finds those of the violations; without violations there is none.
        let mut names = HashMap::new();
        if !findings.listed.is_empty() {
            names.extend(
                findings
                    .listed
                    .iter()
                    .map(|convicted| (convicted.call.sequence_id(), "")),
            );
            for (name, id) in sequence_ids {
                names.entry(*id).and_modify(|entry| *entry = name);
            }
        }
        self.violations
            .extend(findings.listed.iter().map(|convicted| {
                let id = convicted.call.sequence_id();
                let name = names.get(&id).copied().unwrap_or_default();
                Violation {
                    rule: convicted.rule,
                    description: describe_violation(convicted, grids[id as usize].as_ref()),
                    calls: convicted
                        .witness
                        .iter()
                        .chain(&convicted.raise)
                        .chain([&convicted.call])
                        .map(|call| CitedCall {
                            line: u64::from(call.line),
                            call: call.to_call(name, convicted.stride),
                        })
                        .collect(),
                }
            }));
        self.violations.sort_by_key(|violation| violation.rule);
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.description)?;
        for CitedCall { line, call } in &self.calls {
            write!(f, "\n  line {line}: {call}")?;
        }
        Ok(())
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "calls: {} (answered {}: next {}, current {}, raise-to {}; errors {}; no answer {})",
            self.calls,
            self.answered_calls(),
            self.next,
            self.current,
            self.raise_to,
            self.errors,
            self.unknown
        )?;
        writeln!(
            f,
            "sequences: {}; pairs in real-time order: {}; most calls at once on one sequence: {}",
            self.sequences, self.ordered_pairs, self.concurrency_max
        )?;
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        if self.is_ok() {
            return match self.ordered_pairs {
                0 => f.write_str("ok, but no two calls were in order, so order was not tried"),
                _ => f.write_str("ok: no rule is broken"),
            };
        }
        write!(f, "NOT OK: {} violations (", self.violations_total())?;
        for (index, (rule, count)) in self.broken_rules.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{rule} {count}")?;
        }
        write!(f, "); {} listed", self.violations.len())
    }
}
