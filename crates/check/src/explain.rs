//! Describes a violation in one sentence that a person can check against the two lines.

use crate::Rule;
use crate::intake::{Convicted, Grid};
use crate::row::{Code, Row};

/// Returns the sentence for one violation; `grid` is that of its sequence.
pub(crate) fn explain(convicted: &Convicted, grid: Option<&Grid>) -> String {
    let call = &convicted.call;
    let line = call.line;
    match (convicted.rule, &convicted.by) {
        (Rule::Duplicate, Some(by)) => format!(
            "number {} was handed out twice, by lines {} and {line}",
            call.first, by.line
        ),
        (Rule::ExactInside, Some(by)) => format!(
            "line {line} says exactly {}, but line {} handed out {} to {} at once, so the sequence never stood there",
            call.last, by.line, by.first, by.last
        ),
        (rule, Some(by)) => {
            let before = match &convicted.via {
                None => format!(
                    "line {} ended at {} before line {line} began at {}",
                    by.line, by.end, call.begin
                ),
                Some(raise) => format!(
                    "line {} came before the raise to {} of line {}, or it would be above it, and that ended at {} before line {line} began at {}",
                    by.line, raise.last, raise.line, raise.end, call.begin
                ),
            };
            let fault = match rule {
                Rule::Epoch => format!(
                    "the epoch fell from {} to {}",
                    by.epoch().unwrap_or_default(),
                    call.epoch().unwrap_or_default()
                ),
                Rule::ExactLow => format!("{} is said to be exact, yet {}", call.last, reached(by)),
                Rule::AtMostLow => {
                    format!("{} is said to be the most, yet {}", call.last, reached(by))
                }
                Rule::NeverAfter => format!("never is said, yet {}", reached(by)),
                _ => format!("number {} is not above: {}", call.first, reached(by)),
            };
            format!("{before}, but {fault}")
        }
        (Rule::Range, None) => format!(
            "line {line}: {} to {} is no range from 1 to 2^63-1 in steps of {}",
            call.first, call.last, convicted.stride
        ),
        (Rule::RaiseShort, None) => format!(
            "line {line}: a raise to {} was answered with less, {}",
            call.first, call.last
        ),
        (_, None) => {
            let others = grid.map_or_else(String::new, |grid| {
                format!(
                    ", but line {} of the same sequence has numbers = {} mod {}",
                    grid.line, grid.offset, grid.stride
                )
            });
            let stride = convicted.stride;
            format!(
                "line {line} has numbers = {} mod {stride}{others}",
                call.first % stride
            )
        }
    }
}

fn reached(by: &Row) -> String {
    match by.code() {
        Code::Exact => format!("exactly {} had been said", by.last),
        Code::RaiseTo => format!("it had been raised to {}", by.last),
        _ => format!("{} had been handed out", by.last),
    }
}
