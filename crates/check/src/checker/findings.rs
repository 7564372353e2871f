//! What the checker found: the grid of each sequence and the calls that break a rule.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use super::packed_call::PackedCall;
use super::rule::HistoryRule;

/// Most violations of one rule that the report lists; all are counted.
const LISTED_PER_RULE_MAX: usize = 5;

/// Stride and offset of the numbers of a sequence, by the first `next` read.
#[derive(Clone, Copy)]
pub(super) struct NumberGrid {
    pub(super) stride: NonZeroU64,
    pub(super) offset: u64,
    pub(super) line: u32,
}

/// Violations: all counted, the first few of each rule kept.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) counts: BTreeMap<HistoryRule, u64>,
    pub(super) listed: Vec<ConvictedCall>,
}

/// A call that breaks a rule, with its evidence: the call that convicts it, if the rule is about
/// two calls, and the raise through which the two are in order, if they are not by themselves.
pub(super) struct ConvictedCall {
    pub(super) rule: HistoryRule,
    pub(super) witness: Option<PackedCall>,
    pub(super) raise: Option<PackedCall>,
    pub(super) call: PackedCall,
    pub(super) stride: NonZeroU64,
}

impl Findings {
    pub(super) fn record(
        &mut self,
        rule: HistoryRule,
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
