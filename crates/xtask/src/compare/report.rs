//! What was measured, in Markdown, so that it can be put into a page as it is.

use std::fs;

use super::Failure;
use super::cases::{Bar, Row};
use super::disk_stats;
use super::measure::{Figures, median};
use super::systems::version;
use super::testbed::Rig;
use super::workload::{Sample, figure};

/// Programs whose versions matter.
const PROGRAMS: [&str; 6] = [
    "seqsvr",
    "valkey-server",
    "redis-server",
    "postgres",
    "etcd",
    "tsoracle",
];

/// The machine, what runs on it, and the head of the table.
pub(super) fn machine(rig: &Rig) -> String {
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
        "{cores} x {model}, memory {}, Linux {}, data on {}; each run {:?}\n",
        memory.unwrap_or("unknown").trim(),
        kernel.trim(),
        disk_stats::file_system(&std::env::temp_dir()),
        rig.time,
    );
    for name in PROGRAMS {
        let version = match name {
            "seqsvr" => Some(env!("CARGO_PKG_VERSION").to_owned()),
            _ => version(name),
        };
        text += &format!(
            "{name}: {}\n",
            version.as_deref().unwrap_or("not installed")
        );
    }
    text + "\n| row | ours | theirs | ratio | bars | durable writes, memory |\n|---|---|---|---|---|---|"
}

/// A row of the table.
pub(super) fn row(row: &Row, result: &Result<Figures, Failure>) -> String {
    let figures = match result {
        Ok(figures) => figures,
        Err(Failure::Absent(why)) => return format!("| {} | | | | skipped: {why} | |", row.name),
        Err(Failure::Wrong(why)) => return format!("| {} | | | | FAILED: {why} | |", row.name),
    };
    let rate = |samples: &[Sample]| short(median(samples.iter().map(|s| s.rate)));
    let bars: Vec<String> = row.bars.iter().map(|bar| verdict(*bar, figures)).collect();
    let (theirs, ratio) = match row.theirs {
        Some(_) => (rate(&figures.theirs), short(figures.ratio())),
        None => Default::default(),
    };
    format!(
        "| {} | {} | {theirs} | {ratio} | {} | {} |",
        row.name,
        rate(&figures.ours),
        bars.join("; "),
        durable(figures),
    )
}

fn verdict(bar: Bar, figures: &Figures) -> String {
    let what = match bar {
        Bar::Ratio(least) => format!("ratio >= {least}"),
        Bar::Rate(least) => format!(">= {} a second", short(least)),
        Bar::Tail(most) => format!("p99.9 <= {most} x"),
        Bar::Bytes(most) => format!("<= {most} bytes a key"),
        Bar::Raises(least) => format!(">= {least} raises a second"),
        Bar::EachRaise(least) => format!(">= {least} numbers a raise"),
        Bar::EachSync(least) => format!(">= {least} raises a sync"),
        Bar::NoneWaited => "none waited for a refill".to_owned(),
    };
    match figures.of(bar) {
        Ok(figure) if bar.is_met(figure) => format!("{what}: met ({})", short(figure)),
        Ok(figure) => format!("{what}: **not met** ({})", short(figure)),
        Err(Failure::Absent(why) | Failure::Wrong(why)) => format!("{what}: {why}"),
    }
}

/// Flushes of the disk on both sides, and what those and the raises of ours were good for.
fn durable(figures: &Figures) -> String {
    let flushes = |samples: &[Sample]| {
        let known: Option<Vec<f64>> = samples.iter().map(|s| s.flushes).collect();
        let known = known.filter(|all| !all.is_empty())?;
        Some(format!(
            "{} flushes a second",
            short(median(known.into_iter()))
        ))
    };
    let ours = flushes(&figures.ours).unwrap_or("flushes unknown".to_owned());
    let mut parts = vec![ours];
    parts.extend(flushes(&figures.theirs).map(|theirs| format!("theirs {theirs}")));
    let raises = figures.counted("raises");
    if raises > 0.0 {
        let seconds = figures
            .ours
            .iter()
            .filter_map(|s| figure(s, "/seconds").ok());
        let by = |name| short(raises / figures.counted(name));
        parts.push(format!(
            "{} raises a second, {} a log entry, {} a sync, {} numbers each",
            short(raises / seconds.sum::<f64>()),
            by("raise_entries"),
            by("fsyncs"),
            short(figures.counted("numbers") / raises),
        ));
    }
    let memory = figures.ours.iter().filter_map(|s| s.memory).max();
    parts.extend(memory.map(|m| format!("AllocSvr {} MiB", m >> 20)));
    parts.join("; ")
}

/// Three digits and a unit.
pub(super) fn short(n: f64) -> String {
    let (value, unit) = match n {
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
    fn three_digits() {
        assert_eq!(short(0.458), "0.46");
        assert_eq!(short(81.24), "81.2");
        assert_eq!(short(999.96), "1000");
        assert_eq!(short(15_432_100.0), "15.4 M");
        assert_eq!(short(51_210.0), "51.2 k");
    }
}
