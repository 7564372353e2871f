//! Answers to the items of a call.

use seqsvr_client::{Current, Error, IssuedRange};

/// Answer to one item.
#[derive(Clone, Copy)]
pub(crate) enum AnsweredItem {
    Numbers(IssuedRange),
    Current(Current),
}

/// Answers to the items of a call, in their order.
pub(crate) enum CallAnswers {
    Numbers(Vec<Result<IssuedRange, Error>>),
    Current(Vec<Result<Current, Error>>),
}
