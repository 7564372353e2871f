//! The report in Markdown, ready to be put into a page.

use std::fs;
use std::time::Duration;

use super::cases::{Case, Target};
use super::disk_stats;
use super::error::CompareError;
use super::measure::{CaseResult, median};
use super::run_sample::RunSample;
use super::systems::read_version;

/// Programs whose versions the report has.
const PROGRAMS: [&str; 6] = [
    "seqsvr",
    "valkey-server",
    "redis-server",
    "postgres",
    "etcd",
    "tsoracle",
];

/// Returns the description of the machine and its programs, and the head of the table.
pub(super) fn format_head(run_time: Duration) -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown", |m| m.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut text = format!(
        "{cores} x {model}, memory {}, Linux {}, data on {}; each run {run_time:?}\n",
        memory.unwrap_or("unknown").trim(),
        kernel.trim(),
        disk_stats::describe_file_system(&std::env::temp_dir()),
    );
    for name in PROGRAMS {
        let version = match name {
            "seqsvr" => Some(env!("CARGO_PKG_VERSION").to_owned()),
            _ => read_version(name),
        };
        let version = version.as_deref().unwrap_or("not installed");
        text += &format!("{name}: {version}\n");
    }
    text + "\n| case | seqsvr | reference | ratio | targets | durable writes, memory |\n\
        |---|---|---|---|---|---|"
}

/// Returns the row of a case that gave no result.
pub(super) fn format_error_row(case: &Case, error: &CompareError) -> String {
    match error {
        CompareError::Unavailable(why) => format!("| {} | | | | skipped: {why} | |", case.name),
        CompareError::Failed(why) => format!("| {} | | | | FAILED: {why} | |", case.name),
    }
}

/// Returns the row of a case.
///
/// # Errors
/// A value that a target or the row needs was not measured.
pub(super) fn format_row(case: &Case, result: &CaseResult) -> Result<String, CompareError> {
    let rate = |samples: &[RunSample]| format_short(median(samples.iter().map(|s| s.rate)));
    let targets = case.targets.iter();
    let targets: Vec<String> = targets
        .map(|target| format_target(*target, result))
        .collect::<Result<_, _>>()?;
    let (reference, ratio) = match case.reference {
        Some(_) => (rate(&result.reference), format_short(result.median_ratio())),
        None => Default::default(),
    };
    Ok(format!(
        "| {} | {} | {reference} | {ratio} | {} | {} |",
        case.name,
        rate(&result.measured),
        targets.join("; "),
        format_writes(result)?,
    ))
}

fn format_target(target: Target, result: &CaseResult) -> Result<String, CompareError> {
    let text = match target {
        Target::RatioMin(min) => format!("ratio >= {min}"),
        Target::RateMin(min) => format!(">= {} per second", format_short(min)),
        Target::TailRatioMax(max) => format!("p99.9 <= {max} x"),
        Target::BytesPerKeyMax(max) => format!("<= {max} bytes per key"),
        Target::RaiseRateMin(min) => format!(">= {min} raises per second"),
        Target::NumbersPerRaiseMin(min) => format!(">= {min} numbers per raise"),
        Target::RaisesPerSyncMin(min) => format!(">= {min} raises per sync"),
        Target::NoRefillWait => "no wait for a refill".to_owned(),
    };
    let value = result.target_value(target)?;
    let verdict = match target.is_reached_by(value) {
        true => "met",
        false => "**not met**",
    };
    Ok(format!("{text}: {verdict} ({})", format_short(value)))
}

/// Returns the disk flushes of both sides, the raises of seqsvr with their cost, and the memory of
/// the AllocSvr.
fn format_writes(result: &CaseResult) -> Result<String, CompareError> {
    let flushes = |samples: &[RunSample]| {
        let rates: Option<Vec<f64>> = samples.iter().map(|s| s.flush_rate).collect();
        let rates = rates.filter(|rates| !rates.is_empty())?;
        let rate = format_short(median(rates.into_iter()));
        Some(format!("{rate} flushes per second"))
    };
    let measured = flushes(&result.measured).unwrap_or("flushes unknown".to_owned());
    let mut parts = vec![measured];
    parts.extend(flushes(&result.reference).map(|text| format!("reference {text}")));
    let counters = result.sum_counters()?;
    if let Some(counters) = counters.filter(|counters| counters.raises > 0) {
        let seconds = result.measured.iter();
        let seconds: Vec<f64> = seconds
            .map(|sample| sample.bench_value("/seconds"))
            .collect::<Result<_, _>>()?;
        let raises = counters.raises as f64;
        let per = |count: u64| format_short(raises / count as f64);
        parts.push(format!(
            "{} raises per second, {} per log entry, {} per sync, {} numbers each",
            format_short(raises / seconds.iter().sum::<f64>()),
            per(counters.raise_entries),
            per(counters.fsyncs),
            format_short(counters.numbers_issued as f64 / raises),
        ));
    }
    let bytes = result.measured.iter().filter_map(|s| s.resident_bytes);
    parts.extend(
        bytes
            .max()
            .map(|bytes| format!("AllocSvr {} MiB", bytes >> 20)),
    );
    Ok(parts.join("; "))
}

/// Returns a number with three digits and a unit.
pub(super) fn format_short(number: f64) -> String {
    let (value, unit) = match number {
        n if n >= 1e6 => (n / 1e6, " M"),
        n if n >= 1e3 => (n / 1e3, " k"),
        n => (n, ""),
    };
    let digits = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_number_has_three_digits() {
        assert_eq!(format_short(0.458), "0.46");
        assert_eq!(format_short(81.24), "81.2");
        assert_eq!(format_short(999.96), "1000");
        assert_eq!(format_short(15_432_100.0), "15.4 M");
        assert_eq!(format_short(51_210.0), "51.2 k");
    }
}
