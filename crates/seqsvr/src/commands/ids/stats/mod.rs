//! `seqsvr id stats`: counts the ids of a file by time and worker, and finds duplicates.
//!
//! Memory is bounded for any number of ids: one run of the sort, a count for each of 2^20 periods
//! and one for each of 2^22 workers.

mod busy_curve;
mod duplicate_search;
mod id_lines;
mod order_check;
mod worker_shares;

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use seqsvr_core::layout::format_utc_ms;
use seqsvr_ids::presets::IdScheme;
use seqsvr_ids::recognition::{is_plausible_time, narrow_id};

use self::busy_curve::BusyCurve;
use self::duplicate_search::DuplicateSearch;
use self::id_lines::{FILE_ADVICE, IdLines};
use self::order_check::OrderCheck;
use self::worker_shares::WorkerShares;
use super::now;
use crate::cli::IdStatsArgs;
use crate::output::exit_code::{BadInput, unreadable_input};
use crate::output::{log, stdout};

pub(crate) fn run(args: &IdStatsArgs) -> anyhow::Result<()> {
    let scheme = args.scheme.scheme()?;
    if scheme.is_none() && (!args.check || args.by.is_some()) {
        bail!(BadInput(
            "nothing says how to read the times of ids: only --check alone needs no preset and \
             no layout; add for example --preset twitter"
                .into()
        ));
    }
    let bar = ProgressBar::no_length().with_message("bytes read");
    let style = ProgressStyle::with_template("{msg} {human_pos} {wide_bar} {percent} %")?;
    bar.set_style(style.progress_chars("#-"));
    let name = args.file.display().to_string();
    let mut lines = IdLines::new(open(&args.file, &bar)?, name.clone(), args.form);
    let is_falling = scheme.as_ref().is_some_and(|s| s.layout().is_inverted());
    let mut times = scheme.map(|scheme| TimeStats::new(scheme, args.by.map(|by| by as u64)));
    let tmp = args.tmp.clone().unwrap_or_else(std::env::temp_dir);
    let (mut duplicates, mut order) = (DuplicateSearch::new(tmp), OrderCheck::default());
    let mut ids = 0u64;
    while let Some(id) = lines.next_id()? {
        ids += 1;
        let time_ms = times.as_mut().map(|times| times.add(id)).transpose();
        let time_ms = time_ms.map_err(|cause| lines.bad_line(&cause))?;
        if args.check {
            duplicates.add(id)?;
            order.add(id, is_falling, time_ms);
        }
    }
    let found = duplicates.finish(&bar)?;
    bar.finish_and_clear();
    if ids == 0 {
        bail!(BadInput(format!(
            "{name}: there is no id; write one a line, for example 225912364091068416"
        )));
    }
    let mut report = String::new();
    if let Some(header) = &lines.header {
        writeln!(report, "header        {header}")?;
    }
    writeln!(report, "ids           {ids}")?;
    if let Some(times) = &times {
        times.describe(&mut report)?;
    }
    if args.check {
        let duplicates = found.describe(|id| lines.format(id));
        writeln!(report, "duplicates    {duplicates}")?;
        writeln!(report, "out of order  {order}")?;
    }
    if let Some(times) = times {
        let now_ms = now().as_millis() as u64;
        if ![times.first_ms, times.last_ms]
            .into_iter()
            .all(|ms| is_plausible_time(ms, now_ms))
        {
            log::print_warning(
                "ids have times before 2006 or in the future; check the preset and its epoch",
            );
        }
        times.curve.describe(&mut report)?;
        times.shares.describe(&mut report, &times.scheme, ids)?;
    }
    let mut rows = report.lines().map(str::trim_end);
    rows.try_for_each(stdout::print_line)?;
    match found.repeats {
        0 => Ok(()),
        n => bail!("{name}: {n} ids repeat an earlier one; the report on stdout names some"),
    }
}

/// Opens the file, or stdin for `-`. The bar moves as it is read.
fn open(file: &Path, bar: &ProgressBar) -> anyhow::Result<Box<dyn Read>> {
    if file.as_os_str() == "-" {
        return Ok(Box::new(bar.wrap_read(io::stdin().lock())));
    }
    let opened = File::open(file).and_then(|file| Ok((file.metadata()?, file)));
    let what = file.display().to_string();
    let (about, file) = opened.map_err(|cause| unreadable_input(&what, &cause, FILE_ADVICE))?;
    bar.set_length(about.len());
    Ok(Box::new(bar.wrap_read(file)))
}

/// What the times and workers of ids add up to.
struct TimeStats {
    scheme: IdScheme,
    /// First and last time in Unix milliseconds.
    first_ms: u64,
    last_ms: u64,
    /// Ids with the greatest number of their tick.
    full_ticks: u64,
    curve: BusyCurve,
    shares: WorkerShares,
}

impl TimeStats {
    fn new(scheme: IdScheme, period_ms: Option<u64>) -> TimeStats {
        TimeStats {
            scheme,
            first_ms: u64::MAX,
            last_ms: 0,
            full_ticks: 0,
            curve: BusyCurve::new(period_ms),
            shares: WorkerShares::default(),
        }
    }

    /// Adds an id. Returns its time in Unix milliseconds.
    fn add(&mut self, id: u128) -> anyhow::Result<u64> {
        let reading = self.scheme.read(narrow_id(id)?)?;
        let (time_ms, parts) = (reading.time_ms, reading.parts);
        self.first_ms = self.first_ms.min(time_ms);
        self.last_ms = self.last_ms.max(time_ms);
        let seq_max = self.scheme.codec().max_parts().seq;
        self.full_ticks += u64::from(seq_max > 0 && parts.seq == seq_max);
        self.curve.add(time_ms);
        self.shares.add(parts.dc, parts.worker);
        Ok(time_ms)
    }

    fn describe(&self, report: &mut String) -> fmt::Result {
        let (first, last) = (format_utc_ms(self.first_ms), format_utc_ms(self.last_ms));
        let seq_max = self.scheme.codec().max_parts().seq;
        writeln!(report, "first         {first}")?;
        writeln!(report, "last          {last}")?;
        writeln!(
            report,
            "full ticks    {} (ids with seq {seq_max})",
            self.full_ticks
        )
    }
}

#[cfg(test)]
mod tests;
