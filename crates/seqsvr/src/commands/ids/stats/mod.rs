//! `seqsvr id stats`: counts the ids of a file by time and worker, and finds duplicates.
//!
//! Memory is bounded for any number of ids: one run of the sort, a count for each of 2^20 periods
//! and one for each of 2^22 workers.

mod busy_curve;
mod duplicate_search;
mod id_lines;
mod order_check;
mod worker_shares;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use seqsvr_core::layout::format_utc_ms;
use seqsvr_ids::codec::IdPart;
use seqsvr_ids::presets::{IdReading, IdScheme};
use seqsvr_ids::recognition::WideId;

use self::busy_curve::BusyCurve;
use self::duplicate_search::DuplicateSearch;
use self::id_lines::IdLines;
use self::order_check::OrderCheck;
use self::worker_shares::WorkerShares;
use crate::cli::{BucketFlag, IdStatsArgs};
use crate::output::exit_code::{BadInput, unreadable_input};
use crate::output::stdout;

/// Name of a file that stands for stdin.
const STDIN_NAME: &str = "-";

pub(crate) fn run(args: &IdStatsArgs) -> anyhow::Result<()> {
    let scheme = args.scheme.scheme()?;
    if scheme.is_none() && !args.check {
        bail!(BadInput(
            "nothing says how to read the ids: without --check a preset or a layout is needed; \
             add for example --preset twitter"
                .into()
        ));
    }
    if scheme.is_none() && args.by.is_some() {
        bail!(BadInput(
            "--by needs the times of the ids; add for example --preset twitter".into()
        ));
    }
    let bar = ProgressBar::no_length();
    let style = ProgressStyle::with_template("{msg} {human_pos} {wide_bar} {percent} %")?;
    bar.set_style(style.progress_chars("#-"));
    let name = args.file.display().to_string();
    let mut lines = IdLines::new(open(&args.file, &bar)?, name.clone(), args.form);
    let mut times = scheme.map(|scheme| TimeStats::new(scheme, args.by));
    let mut check = args.check.then(|| {
        let dir = args.tmp.clone().unwrap_or_else(std::env::temp_dir);
        (DuplicateSearch::new(dir), OrderCheck::default())
    });
    let mut ids = 0u64;
    while let Some(id) = lines.next_id()? {
        ids += 1;
        let mut reading = None;
        if let Some(times) = &mut times {
            let read = times.add(id);
            reading = Some(read.map_err(|cause| lines.bad_line(&cause))?);
        }
        if let Some((duplicates, order)) = &mut check {
            duplicates.add(id)?;
            let is_falling = times.as_ref().is_some_and(TimeStats::is_falling);
            order.add(id, is_falling, reading.map(|reading| reading.time_ms));
        }
    }
    let checked = match check {
        Some((duplicates, order)) => Some((duplicates.finish(&bar)?, order)),
        None => None,
    };
    bar.finish_and_clear();
    if ids == 0 {
        bail!(BadInput(format!(
            "{name}: there is no id; write one a line, for example 225912364091068416"
        )));
    }
    if let Some(header) = lines.header() {
        stdout::print_line(format_args!("header        {header}"))?;
    }
    stdout::print_line(format_args!("ids           {ids}"))?;
    if let Some(times) = &times {
        times.print_summary()?;
    }
    let mut repeats = 0;
    if let Some((found, order)) = checked {
        let duplicates = found.describe(|id| lines.format(id));
        stdout::print_line(format_args!("duplicates    {duplicates}"))?;
        stdout::print_line(format_args!("out of order  {order}"))?;
        repeats = found.repeats;
    }
    if let Some(times) = times {
        times.curve.print()?;
        times.shares.print(&times.scheme, ids)?;
    }
    if repeats > 0 {
        bail!("{name}: {repeats} ids repeat an earlier one; the report on stdout names some");
    }
    Ok(())
}

/// Opens the file or stdin. The bar moves as it is read.
fn open(file: &Path, bar: &ProgressBar) -> anyhow::Result<Box<dyn Read>> {
    bar.set_message("bytes read");
    if file.as_os_str() == STDIN_NAME {
        return Ok(Box::new(bar.wrap_read(io::stdin().lock())));
    }
    let advice = "name a text file with one id a line, or - for stdin";
    let what = file.display().to_string();
    let open = || {
        let opened = File::open(file)?;
        let about = opened.metadata()?;
        match about.is_dir() {
            true => Err(io::Error::from(io::ErrorKind::IsADirectory)),
            false => Ok((opened, about.len())),
        }
    };
    let (opened, bytes) = open().map_err(|cause| unreadable_input(&what, &cause, advice))?;
    bar.set_length(bytes);
    Ok(Box::new(bar.wrap_read(opened)))
}

/// What the times and workers of ids add up to.
struct TimeStats {
    scheme: IdScheme,
    /// First and last time in Unix milliseconds.
    bounds_ms: Option<(u64, u64)>,
    /// Ids with the greatest number of their tick.
    full_ticks: u64,
    curve: BusyCurve,
    shares: WorkerShares,
}

impl TimeStats {
    fn new(scheme: IdScheme, by: Option<BucketFlag>) -> TimeStats {
        let curve = BusyCurve::new(by.map(BucketFlag::width_ms), scheme.scale().unit_ms());
        TimeStats {
            scheme,
            bounds_ms: None,
            full_ticks: 0,
            curve,
            shares: WorkerShares::default(),
        }
    }

    /// Returns whether later ids are smaller.
    fn is_falling(&self) -> bool {
        self.scheme.layout().is_inverted()
    }

    fn add(&mut self, id: u128) -> anyhow::Result<IdReading> {
        let reading = self.scheme.read(WideId::narrow(id)?)?;
        let time_ms = reading.time_ms;
        let (first, last) = self.bounds_ms.unwrap_or((time_ms, time_ms));
        self.bounds_ms = Some((first.min(time_ms), last.max(time_ms)));
        let seq_max = self.scheme.codec().max_of(IdPart::Sequence);
        let is_full = seq_max > 0 && u64::from(reading.parts.seq) == seq_max;
        self.full_ticks += u64::from(is_full);
        self.curve.add(time_ms)?;
        self.shares.add(reading.parts.dc, reading.parts.worker);
        Ok(reading)
    }

    fn print_summary(&self) -> io::Result<()> {
        if let Some((first, last)) = self.bounds_ms {
            stdout::print_line(format_args!("first         {}", format_utc_ms(first)))?;
            stdout::print_line(format_args!("last          {}", format_utc_ms(last)))?;
        }
        match self.scheme.codec().max_of(IdPart::Sequence) {
            0 => Ok(()),
            max => stdout::print_line(format_args!(
                "full ticks    {} (ids with seq {max}, the last of a tick)",
                self.full_ticks
            )),
        }
    }
}

#[cfg(test)]
mod tests;
