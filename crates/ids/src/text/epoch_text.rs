//! Epochs as people write them.

/// Milliseconds of a day and of a minute.
const DAY_MS: u64 = 86_400_000;
const MINUTE_MS: u64 = 60_000;
/// Milliseconds from March 1 of the year 0 to 1970-01-01.
const MS_BEFORE_1970: u64 = 719_468 * DAY_MS;

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

/// Parses a date in UTC, a time of RFC 3339 or Unix milliseconds, from 1970 to 9999. Returns Unix
/// milliseconds; digits below a millisecond are dropped.
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
    let mut rest = text;
    let year = take_number(&mut rest, 4, 0, 9_999).ok_or("the year has four digits")?;
    skip(&mut rest, &['-']).ok_or("a date is written as 2026-01-31")?;
    let month = take_number(&mut rest, 2, 1, 12).ok_or("the month is 01 to 12")?;
    skip(&mut rest, &['-']).ok_or("a date is written as 2026-01-31")?;
    let day_max = days_of_month(year, month);
    let day = take_number(&mut rest, 2, 1, day_max).ok_or("the month does not have that day")?;
    let day_ms = count_days(year, month, day) * DAY_MS;
    let since_1970 = |ms: u64| ms.checked_sub(MS_BEFORE_1970).ok_or("it is before 1970");
    if rest.is_empty() {
        return since_1970(day_ms);
    }
    skip(&mut rest, &['T', 't', ' ']).ok_or("a T separates the date from the time of day")?;
    let hour = take_number(&mut rest, 2, 0, 23).ok_or("the hour is 00 to 23")?;
    skip(&mut rest, &[':']).ok_or("a time of day is written as 23:59:59")?;
    let minute = take_number(&mut rest, 2, 0, 59).ok_or("the minute is 00 to 59")?;
    skip(&mut rest, &[':']).ok_or("a time of day is written as 23:59:59")?;
    let second = take_number(&mut rest, 2, 0, 59).ok_or("the second is 00 to 59")?;
    let ms = take_fraction(&mut rest)?;
    let local = day_ms + (hour * 60 + minute) * MINUTE_MS + second * 1_000 + ms;
    match parse_offset(rest)? {
        (true, offset_ms) => since_1970(local.saturating_sub(offset_ms)),
        (false, offset_ms) => since_1970(local + offset_ms),
    }
}

/// Takes exactly `digits` digits, of a number in bounds.
fn take_number(rest: &mut &str, digits: usize, min: u64, max: u64) -> Option<u64> {
    let (number, behind) = rest.split_at_checked(digits)?;
    let has_digits_only = number.bytes().all(|c| c.is_ascii_digit());
    let number = number.parse().ok().filter(|_| has_digits_only)?;
    *rest = behind;
    (min..=max).contains(&number).then_some(number)
}

fn skip(rest: &mut &str, characters: &[char]) -> Option<()> {
    *rest = rest.strip_prefix(characters)?;
    Some(())
}

/// Takes a fraction of a second, if there is one. Returns milliseconds.
fn take_fraction(rest: &mut &str) -> Result<u64, &'static str> {
    let Some(behind) = rest.strip_prefix('.') else {
        return Ok(0);
    };
    let is_digit = |c: &u8| c.is_ascii_digit();
    let digits: Vec<u8> = behind.bytes().take_while(is_digit).collect();
    if digits.is_empty() {
        return Err("no digit follows the point");
    }
    *rest = &behind[digits.len()..];
    let with_zeros = digits.iter().chain([&b'0'; 3]).take(3);
    Ok(with_zeros.fold(0, |ms, digit| ms * 10 + u64::from(digit - b'0')))
}

/// Parses `Z` or the distance from UTC. Returns whether it is east, and milliseconds.
fn parse_offset(text: &str) -> Result<(bool, u64), &'static str> {
    if text == "Z" || text == "z" {
        return Ok((true, 0));
    }
    let shape = "the time ends with Z, or with a distance from UTC such as +08:00";
    let mut rest = text;
    let is_east = text.starts_with('+');
    skip(&mut rest, &['+', '-']).ok_or(shape)?;
    let hour = take_number(&mut rest, 2, 0, 23).ok_or(shape)?;
    skip(&mut rest, &[':']).ok_or(shape)?;
    let minute = take_number(&mut rest, 2, 0, 59).ok_or(shape)?;
    match rest.is_empty() {
        true => Ok((is_east, (hour * 60 + minute) * MINUTE_MS)),
        false => Err(shape),
    }
}

fn days_of_month(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days since March 1 of the year 0; those of earlier days are 0.
fn count_days(year: u64, month: u64, day: u64) -> u64 {
    // The year begins in March, so that a leap day is its last.
    let Some(year) = year.checked_sub(u64::from(month <= 2)) else {
        return 0;
    };
    let months_since_march = (month + 9) % 12;
    let day_of_year = (153 * months_since_march + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year
}
