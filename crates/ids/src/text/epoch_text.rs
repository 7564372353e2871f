//! Epochs as people write them.

use chrono::{DateTime, NaiveDate, NaiveTime, Timelike};

use crate::InputError;

/// Nanoseconds from which on a second is a leap second, which has no Unix time of its own.
const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// Parses a date in UTC or a time of RFC 3339, from 1970 to 9999, or Unix milliseconds, which
/// [`TickScale::new`](seqsvr_core::layout::TickScale::new) bounds. Returns Unix milliseconds;
/// digits below a millisecond are dropped.
///
/// # Errors
/// The text is none of these, or a part of it is out of bounds.
pub fn parse_epoch(text: &str) -> Result<u64, InputError> {
    let bad = |why: &str| {
        InputError(format!(
            "{text:?} is no time: {why}; write a date of 1970-01-01 to 9999-12-31, alone or with \
             a time of RFC 3339 (00:00:00 to 23:59:59, then Z or a distance from UTC), or Unix \
             milliseconds, for example 2026-01-01, 2026-01-01T08:00:00+08:00 or 1767225600000"
        ))
    };
    if !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit()) {
        // What people write in so many digits, in place of milliseconds.
        return match text.len() {
            4 => Err(bad("a year alone could be milliseconds")),
            8 => Err(bad("8 digits could be a date or milliseconds")),
            9 | 10 => Err(bad("it could be in seconds, not milliseconds")),
            _ => text.parse().map_err(|_| bad("it has more than 64 bits")),
        };
    }
    // A date alone is its first moment in UTC.
    let time = match text.parse::<NaiveDate>() {
        Ok(date) if text.len() == "2026-01-01".len() => date.and_time(NaiveTime::MIN).and_utc(),
        _ => match DateTime::parse_from_rfc3339(text) {
            Ok(time) => time.to_utc(),
            Err(error) => return Err(bad(&error.to_string())),
        },
    };
    match u64::try_from(time.timestamp_millis()) {
        Ok(unix_ms) if time.nanosecond() < NANOS_PER_SECOND => Ok(unix_ms),
        Ok(_) => Err(bad("it is a leap second")),
        Err(_) => Err(bad("it is before 1970")),
    }
}
