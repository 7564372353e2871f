//! A call and its result, as every caller makes it and a history records it.

use seqsvr_check::CallAnswer;

use crate::test_keys::TestKey;

/// Operation of a call, applied to every item. `RaiseTo` takes one item.
#[derive(Clone, Copy, Debug)]
pub enum TestCall {
    /// Take this many numbers.
    Next(u32),
    /// Read the last number given out.
    Current,
    /// Make every later number greater than this value.
    RaiseTo(u64),
}

/// Epoch (if the protocol reports it) and answer of an item, or the error text.
pub type ItemOutcome = std::result::Result<(Option<u64>, CallAnswer), String>;

/// Converts numbers to the form that a history records.
pub fn next_answer(first: u64, last: u64, test_key: &TestKey) -> CallAnswer {
    CallAnswer::Next {
        first,
        last,
        stride: test_key.stride,
    }
}
