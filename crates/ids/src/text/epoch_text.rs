//! Epochs as people write them.

use chrono::{DateTime, NaiveDate, Timelike};

/// Length of a date.
const DATE_BYTES: usize = 10;
/// Nanoseconds from which on a second is a leap second.
const NANOS_PER_SECOND: u32 = 1_000_000_000;
const DATE_SHAPE: &str = "a date is written as 2026-01-31";
const TIME_SHAPE: &str = "a time of day is written as 23:59:59";
const SECOND_BOUNDS: &str = "the second is 00 to 59";

/// A text that is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no epoch: {why}; write a date, a time of RFC 3339 or Unix milliseconds, for \
     example 2026-01-01, 2026-01-01T08:00:00+08:00 or 1767225600000"
)]
pub struct EpochTextError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Parses a date in UTC or a time of RFC 3339, from 1970 to 9999, or Unix milliseconds, which
/// [`TickScale::new`](seqsvr_core::layout::TickScale::new) bounds. Returns Unix milliseconds;
/// digits below a millisecond are dropped.
///
/// # Errors
/// The text is none of these, or a part of it is out of bounds.
pub fn parse_epoch(text: &str) -> Result<u64, EpochTextError> {
    let bad = |why| EpochTextError {
        text: text.to_owned(),
        why,
    };
    if !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit()) {
        // Four digits are a year to a person.
        return match text.len() {
            4 => Err(bad("a year alone could be milliseconds")),
            _ => text
                .parse()
                .map_err(|_| bad("the number has more than 64 bits")),
        };
    }
    parse_time(text).map_err(bad)
}

fn parse_time(text: &str) -> Result<u64, &'static str> {
    // A date alone is its first moment in UTC.
    let text = match text.len() {
        DATE_BYTES => &format!("{text}T00:00:00Z"),
        _ => text,
    };
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| explain(text))?;
    // A leap second has no Unix time of its own.
    match time.nanosecond() < NANOS_PER_SECOND {
        true => u64::try_from(time.timestamp_millis()).map_err(|_| "it is before 1970"),
        false => Err(SECOND_BOUNDS),
    }
}

/// Returns the first part that is wrong. In RFC 3339 each part has its place.
fn explain(text: &str) -> &'static str {
    let separates =
        |at: usize, any: &[u8]| text.as_bytes().get(at).is_some_and(|c| any.contains(c));
    let number = |from: usize, digits: usize| -> Option<u32> {
        let digits = text.get(from..from + digits)?;
        let has_digits_only = digits.bytes().all(|c| c.is_ascii_digit());
        digits.parse().ok().filter(|_| has_digits_only)
    };
    let is_below = |from: usize, end: u32| number(from, 2).is_some_and(|number| number < end);
    let (year, month, day) = (number(0, 4), number(5, 2), number(8, 2));
    let has_day = NaiveDate::from_ymd_opt(
        year.unwrap_or(0) as i32,
        month.unwrap_or(0),
        day.unwrap_or(0),
    );
    let point_without_digit = text.as_bytes().get(19) == Some(&b'.') && number(20, 1).is_none();
    let checks = [
        (year.is_some(), "the year has four digits"),
        (separates(4, b"-"), DATE_SHAPE),
        (matches!(month, Some(1..=12)), "the month is 01 to 12"),
        (separates(7, b"-"), DATE_SHAPE),
        (has_day.is_some(), "the month does not have that day"),
        (
            separates(10, b"Tt "),
            "a T separates the date from the time of day",
        ),
        (is_below(11, 24), "the hour is 00 to 23"),
        (separates(13, b":"), TIME_SHAPE),
        (is_below(14, 60), "the minute is 00 to 59"),
        (separates(16, b":"), TIME_SHAPE),
        (is_below(17, 60), SECOND_BOUNDS),
        (!point_without_digit, "no digit follows the point"),
    ];
    let wrong = checks.into_iter().find(|(is_right, _)| !is_right);
    wrong.map_or(
        "the time ends with Z, or with a distance from UTC such as +08:00",
        |(_, why)| why,
    )
}
