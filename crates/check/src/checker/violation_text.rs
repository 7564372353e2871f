//! Describes a violation in one sentence that a person can check against the two lines.

use super::findings::{ConvictedCall, NumberGrid};
use super::packed_call::{AnswerKind, PackedCall};
use super::rule::HistoryRule;

/// Returns the sentence for one violation; `grid` is that of its sequence.
pub(super) fn describe_violation(convicted: &ConvictedCall, grid: Option<&NumberGrid>) -> String {
    let call = &convicted.call;
    let line = call.line;
    match (convicted.rule, &convicted.witness) {
        (HistoryRule::Duplicate, Some(witness)) => format!(
            "number {} was handed out twice, by lines {} and {line}",
            call.first, witness.line
        ),
        (HistoryRule::ExactInside, Some(witness)) => format!(
            "line {line} says exactly {}, but line {} handed out {} to {} at once, so the sequence never stood there",
            call.last, witness.line, witness.first, witness.last
        ),
        (rule, Some(witness)) => {
            let before = match &convicted.raise {
                None => format!(
                    "line {} ended at {} before line {line} began at {}",
                    witness.line, witness.end, call.begin
                ),
                Some(raise) => format!(
                    "line {} came before the raise to {} of line {}, or it would be above it, and that ended at {} before line {line} began at {}",
                    witness.line, raise.last, raise.line, raise.end, call.begin
                ),
            };
            let finding = match rule {
                HistoryRule::Epoch => format!(
                    "the epoch fell from {} to {}",
                    witness.epoch().unwrap_or_default(),
                    call.epoch().unwrap_or_default()
                ),
                HistoryRule::ExactLow => format!(
                    "{} is said to be exact, yet {}",
                    call.last,
                    describe_reached(witness)
                ),
                HistoryRule::AtMostLow => {
                    format!(
                        "{} is said to be the most, yet {}",
                        call.last,
                        describe_reached(witness)
                    )
                }
                HistoryRule::NeverAfter => {
                    format!("never is said, yet {}", describe_reached(witness))
                }
                _ => format!(
                    "number {} is not above: {}",
                    call.first,
                    describe_reached(witness)
                ),
            };
            format!("{before}, but {finding}")
        }
        (HistoryRule::Range, None) => format!(
            "line {line}: {} to {} is no range from 1 to 2^63-1 in steps of {}",
            call.first, call.last, convicted.stride
        ),
        (HistoryRule::RaiseShort, None) => format!(
            "line {line}: a raise to {} was answered with less, {}",
            call.first, call.last
        ),
        (_, None) => {
            let other_grid = grid.map_or_else(String::new, |grid| {
                format!(
                    ", but line {} of the same sequence has numbers = {} mod {}",
                    grid.line, grid.offset, grid.stride
                )
            });
            let stride = convicted.stride;
            format!(
                "line {line} has numbers = {} mod {stride}{other_grid}",
                call.first % stride
            )
        }
    }
}

fn describe_reached(witness: &PackedCall) -> String {
    match witness.answer_kind() {
        AnswerKind::Exact => format!("exactly {} had been said", witness.last),
        AnswerKind::RaiseTo => format!("it had been raised to {}", witness.last),
        _ => format!("{} had been handed out", witness.last),
    }
}
