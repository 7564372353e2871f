//! Times as text.

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;
/// Days from March 1 of the year 0 to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;
/// Days of 400 years.
const ERA_DAYS: u64 = 146_097;

/// Formats a Unix time in milliseconds in RFC 3339, such as `2026-01-01T00:00:00.000Z`. Years above
/// 9999 have more digits.
pub fn format_utc_ms(unix_ms: u64) -> String {
    // Days since March 1 of the year 0: a leap day is then the last day of its year.
    let days = unix_ms / DAY_MS + DAYS_BEFORE_1970;
    let day_of_era = days % ERA_DAYS;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
    let month = (months_since_march + 2) % 12 + 1;
    let year = days / ERA_DAYS * 400 + year_of_era + u64::from(month <= 2);
    let of_day = unix_ms % DAY_MS;
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, ms) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}
