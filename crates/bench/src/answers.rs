//! Answers to the items of a call.

use seqsvr_client::{Current, Error, Numbers};

/// Answer to one item.
#[derive(Clone, Copy)]
pub(crate) enum ItemAnswer {
    Numbers(Numbers),
    Current(Current),
}

/// Answers to the items of a call, in their order.
pub(crate) enum CallAnswers {
    Numbers(Vec<Result<Numbers, Error>>),
    Current(Vec<Result<Current, Error>>),
}
