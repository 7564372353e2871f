//! How many ids were made when, as rows of text.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::{self, Write as _};

use seqsvr_core::layout::format_utc_ms;

/// Periods that are counted one by one; with more the periods get longer.
const PERIODS_MAX: usize = 1 << 20;
/// Rows of the chart.
const ROWS_MAX: u64 = 40;
/// Characters of the longest bar.
const BAR_WIDTH: u64 = 50;

/// Units of time in milliseconds, the longest first.
const UNITS: [(u64, &str); 5] = [
    (86_400_000, "d"),
    (3_600_000, "h"),
    (60_000, "min"),
    (1_000, "s"),
    (1, "ms"),
];

/// Counts of ids by period.
pub(super) struct BusyCurve {
    width_ms: u64,
    is_width_given: bool,
    /// By the number of the period since 1970.
    ids: HashMap<u64, u64>,
}

impl BusyCurve {
    /// Makes a curve whose periods have this length, or else one that fits the ids.
    pub(super) fn new(width_ms: Option<u64>) -> BusyCurve {
        BusyCurve {
            width_ms: width_ms.unwrap_or(1),
            is_width_given: width_ms.is_some(),
            ids: HashMap::new(),
        }
    }

    /// Adds the time of an id.
    pub(super) fn add(&mut self, time_ms: u64) {
        *self.ids.entry(time_ms / self.width_ms).or_default() += 1;
        if self.ids.len() > PERIODS_MAX {
            self.widen();
        }
    }

    /// Makes the periods longer.
    fn widen(&mut self) {
        let width_ms = next_width(self.width_ms);
        let mut ids = HashMap::new();
        for (period, count) in self.ids.drain() {
            *ids.entry(period * self.width_ms / width_ms).or_default() += count;
        }
        (self.ids, self.width_ms) = (ids, width_ms);
    }

    /// Returns the first period and the number of periods up to the last.
    fn span(&self) -> (u64, u64) {
        let first = self.ids.keys().min().copied().unwrap_or(0);
        let last = self.ids.keys().max().copied().unwrap_or(0);
        (first, last - first + 1)
    }

    /// Appends a row for each period, or for several if there are more than rows.
    pub(super) fn describe(mut self, report: &mut String) -> fmt::Result {
        while !self.is_width_given && self.span().1 > ROWS_MAX {
            self.widen();
        }
        let (first, periods) = self.span();
        let start_of = |period: u64| format_utc_ms(period.saturating_mul(self.width_ms));
        let periods_a_row = periods.div_ceil(ROWS_MAX);
        let mut rows = vec![0; periods.div_ceil(periods_a_row) as usize];
        for (period, ids) in &self.ids {
            rows[((period - first) / periods_a_row) as usize] += ids;
        }
        let periods = self.ids.into_iter();
        let busiest = periods.max_by_key(|&(period, ids)| (ids, Reverse(period)));
        let (busiest, busiest_ids) = busiest.unwrap_or_default();
        let row_width = describe_ms(self.width_ms.saturating_mul(periods_a_row));
        let (width, start) = (describe_ms(self.width_ms), start_of(busiest));
        writeln!(
            report,
            "\nids in each {row_width}; most in {width}: {busiest_ids}, from {start} on:"
        )?;
        let most = rows.iter().copied().max().unwrap_or(1);
        for (row, ids) in (0..).zip(rows) {
            let length = (u128::from(ids) * u128::from(BAR_WIDTH)).div_ceil(most.into());
            let (start, bar) = (
                start_of(first + row * periods_a_row),
                "#".repeat(length as usize),
            );
            writeln!(report, "{start} {ids:>12} {bar}")?;
        }
        Ok(())
    }
}

/// Returns the next longer period, a multiple of this one.
fn next_width(width_ms: u64) -> u64 {
    match width_ms {
        10_000 | 600_000 | 3_600_000 => width_ms * 6,
        21_600_000 => width_ms * 4,
        _ => width_ms.saturating_mul(10),
    }
}

/// Formats a length of time in the longest unit that leaves no rest.
fn describe_ms(ms: u64) -> String {
    let fitting = UNITS.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    let (unit, name) = fitting.unwrap_or((1, "ms"));
    format!("{} {name}", ms / unit)
}
