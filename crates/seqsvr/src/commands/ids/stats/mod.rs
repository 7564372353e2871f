//! `seqsvr id stats`: counts the ids of a file by time and worker, and finds duplicates.
//!
//! Memory is bounded for any number of ids: one run of the sort, a count for each of 2^20 periods
//! and one for each of 2^22 workers.

mod duplicate_search;
mod id_parser;
mod order_check;
mod time_stats;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use itertools::Itertools as _;

use self::duplicate_search::{DuplicateSearch, RUN_IDS};
use self::id_parser::{IdParser, LINE_BYTES_MAX};
use self::order_check::OrderCheck;
use self::time_stats::TimeStats;
use super::read_line;
use crate::cli::IdStatsArgs;
use crate::output::exit_code::{BadInput, unreadable_input};
use crate::output::stdout;

pub(crate) fn run(args: &IdStatsArgs) -> anyhow::Result<()> {
    let scheme = args.scheme.scheme()?;
    if scheme.is_none() && (!args.check || args.by.is_some()) {
        bail!(BadInput(
            "nothing says how to read the times of ids: only --check alone needs no preset and \
             no layout; add for example --preset twitter"
                .into()
        ));
    }
    let is_falling = scheme.as_ref().is_some_and(|s| s.layout().is_inverted());
    let mut times = scheme.map(|scheme| TimeStats::new(scheme, args.by.map(|by| by as u64)));
    let tmp = args.tmp.clone().unwrap_or_else(std::env::temp_dir);
    let mut duplicates = DuplicateSearch::new(tmp, RUN_IDS);
    let mut order = OrderCheck::default();
    let mut parser = IdParser {
        form: args.form,
        ..IdParser::default()
    };

    let bar = ProgressBar::no_length().with_message("bytes read");
    let style = ProgressStyle::with_template("{msg} {human_pos} {wide_bar} {percent} %")?;
    bar.set_style(style.progress_chars("#-"));
    let name = args.file.display().to_string();
    let unreadable = |cause| {
        let advice = "name a text file with one id a line, or - for stdin";
        unreadable_input(&name, &cause, advice)
    };
    let mut input = BufReader::with_capacity(1 << 20, open(&args.file, &bar).map_err(unreadable)?);
    let (mut line, mut number) = (Vec::new(), 0u64);
    while read_line(&mut input, LINE_BYTES_MAX, &mut line).map_err(unreadable)? {
        number += 1;
        let bad_line = |cause| BadInput(format!("{name}, line {number}: {cause}"));
        let Some(id) = parser.parse(&line, number).map_err(bad_line)? else {
            continue;
        };
        let time_ms = times.as_mut().map(|times| times.add(id)).transpose();
        let time_ms = time_ms.map_err(bad_line)?;
        if args.check {
            duplicates.add(id)?;
            order.add(id, is_falling, time_ms);
        }
    }
    let (repeats, named) = duplicates.finish(&bar)?;
    bar.finish_and_clear();
    if parser.ids == 0 {
        bail!(BadInput(format!(
            "{name}: there is no id; write one a line, for example 225912364091068416"
        )));
    }

    let header = parser
        .header
        .iter()
        .map(|header| ("header", header.clone()));
    let mut rows: Vec<_> = header.chain([("ids", parser.ids.to_string())]).collect();
    if let Some(times) = &times {
        times.check_times();
        rows.extend(times.to_rows());
    }
    if args.check {
        let named = named.into_iter();
        let mut named = named.map(|(id, times)| format!("{} ({times} times)", parser.format(id)));
        let duplicates = match repeats {
            0 => String::from("0"),
            _ => format!("{repeats}: {}", named.join(", ")),
        };
        rows.push(("duplicates", duplicates));
        rows.push(("out of order", order.to_string()));
    }
    for (name, value) in rows {
        stdout::print_line(format_args!("{name:<13} {value}"))?;
    }
    if let Some(mut times) = times {
        times.print_curve()?;
        times.print_shares(parser.ids)?;
    }
    match repeats {
        0 => Ok(()),
        n => bail!("{name}: {n} ids repeat an earlier one; the report on stdout names some"),
    }
}

/// Opens the file, or stdin for `-`. The bar moves as it is read.
fn open(file: &Path, bar: &ProgressBar) -> io::Result<Box<dyn Read>> {
    if file.as_os_str() == "-" {
        return Ok(Box::new(bar.wrap_read(io::stdin().lock())));
    }
    let file = File::open(file)?;
    bar.set_length(file.metadata()?.len());
    Ok(Box::new(bar.wrap_read(file)))
}

#[cfg(test)]
mod tests;
