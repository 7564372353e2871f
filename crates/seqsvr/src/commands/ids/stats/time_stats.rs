//! When ids were made, and how many by each worker.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::{io, mem};

use itertools::Itertools as _;
use seqsvr_core::layout::format_utc_ms;
use seqsvr_ids::presets::{IdReading, IdScheme};
use seqsvr_ids::recognition::{is_plausible_time, narrow_id};

use crate::commands::ids::now;
use crate::output::{log, stdout};

/// Periods that are counted one by one; with more the periods get longer.
const PERIODS_MAX: usize = 1 << 20;
/// Rows of the chart.
const ROWS_MAX: u64 = 40;
/// Characters of the longest bar.
const BAR_WIDTH: u64 = 50;
/// Workers that are counted one by one. The ids of further ones are among the others, so that a
/// wrong preset cannot use up the memory.
const WORKERS_MAX: usize = 1 << 22;
/// Workers that are named, those with the most ids first.
const NAMED_MAX: usize = 20;

/// Units of time in milliseconds, the longest first.
const UNITS: [(u64, &str); 4] = [
    (86_400_000, "d"),
    (3_600_000, "h"),
    (60_000, "min"),
    (1_000, "s"),
];

/// Counts of ids by time and worker.
pub(super) struct TimeStats {
    scheme: IdScheme,
    /// First and last time in Unix milliseconds.
    first_ms: u64,
    last_ms: u64,
    /// Greatest number of a tick, and the ids that have it.
    seq_max: u32,
    full_ticks: u64,
    /// Length of a period.
    width_ms: u64,
    is_width_given: bool,
    /// By the number of the period since 1970.
    by_period: HashMap<u64, u64>,
    /// By data center and worker.
    by_worker: HashMap<(u32, u32), u64>,
}

impl TimeStats {
    /// Counts ids in periods of this length, or else of one that fits the ids.
    pub(super) fn new(scheme: IdScheme, width_ms: Option<u64>) -> TimeStats {
        TimeStats {
            seq_max: scheme.codec().max_parts().seq,
            scheme,
            first_ms: u64::MAX,
            last_ms: 0,
            full_ticks: 0,
            width_ms: width_ms.unwrap_or(1),
            is_width_given: width_ms.is_some(),
            by_period: HashMap::new(),
            by_worker: HashMap::new(),
        }
    }

    /// Adds an id. Returns its time in Unix milliseconds.
    ///
    /// # Errors
    /// It is no id of the scheme.
    pub(super) fn add(&mut self, id: u128) -> anyhow::Result<u64> {
        let IdReading { time_ms, parts } = self.scheme.read(narrow_id(id)?)?;
        self.first_ms = self.first_ms.min(time_ms);
        self.last_ms = self.last_ms.max(time_ms);
        self.full_ticks += u64::from(self.seq_max > 0 && parts.seq == self.seq_max);
        *self.by_period.entry(time_ms / self.width_ms).or_default() += 1;
        if self.by_period.len() > PERIODS_MAX {
            self.widen();
        }
        let worker = (parts.dc, parts.worker);
        if self.by_worker.len() < WORKERS_MAX || self.by_worker.contains_key(&worker) {
            *self.by_worker.entry(worker).or_default() += 1;
        }
        Ok(time_ms)
    }

    /// Makes the periods longer.
    fn widen(&mut self) {
        let factor = match self.width_ms {
            10_000 | 600_000 | 3_600_000 => 6,
            21_600_000 => 4,
            _ => 10,
        };
        self.width_ms *= factor;
        for (period, ids) in mem::take(&mut self.by_period) {
            *self.by_period.entry(period / factor).or_default() += ids;
        }
    }

    /// Returns the first period, and the number of periods up to the last.
    fn span(&self) -> (u64, u64) {
        let [first, last] = [self.first_ms, self.last_ms].map(|time_ms| time_ms / self.width_ms);
        (first, last - first + 1)
    }

    /// Returns names and values for the head of the report.
    pub(super) fn to_rows(&self) -> [(&'static str, String); 3] {
        let (full_ticks, seq_max) = (self.full_ticks, self.seq_max);
        let full_ticks = format!("{full_ticks} (ids with seq {seq_max})");
        [
            ("first", format_utc_ms(self.first_ms)),
            ("last", format_utc_ms(self.last_ms)),
            ("full ticks", full_ticks),
        ]
    }

    /// Warns of times that no clock gave.
    pub(super) fn check_times(&self) {
        let now_ms = now().as_millis() as u64;
        let mut times = [self.first_ms, self.last_ms].into_iter();
        if !times.all(|time_ms| is_plausible_time(time_ms, now_ms)) {
            log::print_warning(
                "ids have times before 2006 or in the future; check the preset and its epoch",
            );
        }
    }

    /// Prints a row for each period, or for several if there are more than rows.
    pub(super) fn print_curve(&mut self) -> io::Result<()> {
        while !self.is_width_given && self.span().1 > ROWS_MAX {
            self.widen();
        }
        let (width_ms, (first, periods)) = (self.width_ms, self.span());
        let periods_a_row = periods.div_ceil(ROWS_MAX);
        let mut rows = vec![0; periods.div_ceil(periods_a_row) as usize];
        for (period, ids) in &self.by_period {
            rows[((period - first) / periods_a_row) as usize] += ids;
        }
        let periods = self.by_period.iter();
        let busiest = periods.max_by_key(|&(period, ids)| (ids, Reverse(period)));
        let (busiest, busiest_ids) = busiest.unwrap_or((&0, &0));
        stdout::print_line("")?;
        stdout::print_line(format_args!(
            "ids in each {}; most in {}: {busiest_ids}, from {} on:",
            describe_ms(width_ms * periods_a_row),
            describe_ms(width_ms),
            format_utc_ms(busiest * width_ms)
        ))?;
        let most = rows.iter().copied().max().unwrap_or(1);
        for (row, ids) in (0..).zip(rows) {
            let start = format_utc_ms((first + row * periods_a_row) * width_ms);
            let bar = "#".repeat((ids * BAR_WIDTH).div_ceil(most) as usize);
            let row = format!("{start} {ids:>12} {bar}");
            stdout::print_line(row.trim_end())?;
        }
        Ok(())
    }

    /// Prints a line for each of the first workers, and one for the others of `total` ids.
    pub(super) fn print_shares(self, total: u64) -> io::Result<()> {
        let [dc_bits, worker_bits] =
            ["dc", "worker"].map(|name| self.scheme.layout().bits_of(name));
        if dc_bits + worker_bits == 0 {
            return Ok(());
        }
        let workers = self.by_worker.len();
        let at_least = if workers < WORKERS_MAX {
            ""
        } else {
            "at least "
        };
        stdout::print_line("")?;
        stdout::print_line(format_args!("ids of {at_least}{workers} workers:"))?;
        let print_share = |name: String, ids: u64| {
            let share = ids as f64 * 100.0 / total as f64;
            stdout::print_line(format_args!("{name:<24} {share:5.1} % {ids:>12}"))
        };
        let rank = |&(worker, ids): &_| (ids, Reverse(worker));
        let mut others = total;
        for ((dc, worker), ids) in self.by_worker.into_iter().k_largest_by_key(NAMED_MAX, rank) {
            let name = match dc_bits {
                0 => format!("worker {worker}"),
                _ => format!("dc {dc} worker {worker}"),
            };
            print_share(name, ids)?;
            others -= ids;
        }
        match others {
            0 => Ok(()),
            _ => print_share(format!("{} others", workers - NAMED_MAX), others),
        }
    }
}

/// Formats a length of time in the longest unit that leaves no rest.
fn describe_ms(ms: u64) -> String {
    let fitting = UNITS.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    let (unit, name) = fitting.unwrap_or((1, "ms"));
    format!("{} {name}", ms / unit)
}
