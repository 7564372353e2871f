//! How many ids were made when, as rows of text.

use std::collections::HashMap;
use std::io;

use seqsvr_core::layout::format_utc_ms;

use crate::output::stdout;

/// Periods that are counted one by one; with more the periods get longer.
const PERIODS_MAX: usize = 1 << 20;
/// Rows of the chart.
const ROWS_MAX: u64 = 40;
/// Characters of the longest bar.
const BAR_WIDTH: u64 = 50;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 86_400_000;

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

    /// Prints a row for each period, or for several if there are more than rows.
    pub(super) fn print(mut self) -> io::Result<()> {
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
        let busiest = self
            .ids
            .iter()
            .map(|(period, ids)| (*ids, u64::MAX - period));
        let (busiest_ids, busiest) = busiest.max().unwrap_or_default();
        stdout::print_text(format_args!(
            "\nids in each {}; most in {}: {busiest_ids}, from {} on:",
            describe_ms(self.width_ms.saturating_mul(periods_a_row)),
            describe_ms(self.width_ms),
            start_of(u64::MAX - busiest)
        ))?;
        let most = rows.iter().copied().max().unwrap_or(1);
        for (row, ids) in (0..).zip(rows) {
            let length = (u128::from(ids) * u128::from(BAR_WIDTH)).div_ceil(most.into());
            let (start, bar) = (
                start_of(first + row * periods_a_row),
                "#".repeat(length as usize),
            );
            stdout::print_line(format!("{start} {ids:>12} {bar}").trim_end())?;
        }
        Ok(())
    }
}

/// Returns the next longer period, a multiple of this one.
fn next_width(width_ms: u64) -> u64 {
    match width_ms {
        10_000 | HOUR_MS => width_ms * 6,
        600_000 => HOUR_MS,
        21_600_000 => DAY_MS,
        _ => width_ms.saturating_mul(10),
    }
}

/// Formats a length of time in the longest unit that leaves no rest.
fn describe_ms(ms: u64) -> String {
    let units = [
        (DAY_MS, "d"),
        (HOUR_MS, "h"),
        (MINUTE_MS, "min"),
        (SECOND_MS, "s"),
    ];
    let fitting = units.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    let (unit, name) = fitting.unwrap_or((1, "ms"));
    format!("{} {name}", ms / unit)
}
