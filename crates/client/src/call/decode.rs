//! From the answer of a server to the result of a call. An error says what is wrong with the
//! answer.

use seqsvr_proto::v1;

use crate::pipe::RawAnswer;
use crate::types::{Current, CurrentKind, IssuedRange};

/// Reads an answer and checks that it has `count` numbers, all above `floor`.
pub(crate) fn decode_numbers(
    raw: RawAnswer,
    stride: u32,
    count: u32,
    floor: Option<u64>,
) -> Result<IssuedRange, &'static str> {
    let numbers = IssuedRange {
        first: raw.value,
        last: raw.last,
        epoch: raw.epoch,
        stride,
    };
    let span = u64::from(count.max(1) - 1) * u64::from(numbers.stride);
    if numbers.first == 0 || numbers.last.checked_sub(numbers.first) != Some(span) {
        return Err("number count differs from the request");
    }
    if floor.is_some_and(|floor| numbers.first <= floor) {
        return Err("numbers are not above the floor");
    }
    Ok(numbers)
}

/// Reads the answer of `current`.
pub(crate) fn decode_current(raw: RawAnswer) -> Result<Current, &'static str> {
    let kind = match v1::CurrentKind::try_from(raw.kind) {
        Ok(v1::CurrentKind::Exact) => CurrentKind::Exact,
        Ok(v1::CurrentKind::Never) => CurrentKind::Never,
        Ok(v1::CurrentKind::AtMost) => CurrentKind::AtMost,
        Ok(v1::CurrentKind::Unspecified) | Err(_) => return Err("unknown kind of current"),
    };
    Ok(Current {
        kind,
        value: raw.value,
        epoch: raw.epoch,
    })
}
