//! The result of a run, as text or as JSON.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use super::effort::ClusterCounters;
use super::figures::RunStats;
use crate::cli;
use crate::output::stdout;

/// Percentiles that a report has.
const PERCENTILES: [(&str, f64); 4] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)];

/// Result of a run.
pub(crate) struct BenchReport {
    /// Measured time, without the warm-up.
    pub(crate) measured: Duration,
    pub(crate) stats: RunStats,
    pub(crate) counters: ClusterCounters,
}

impl BenchReport {
    pub(crate) fn print(&self, args: &cli::BenchArgs, batch: u32) -> io::Result<()> {
        let stats = &self.stats;
        let seconds = self.measured.as_secs_f64();
        stdout::print_line(format_args!(
            "run       {}",
            describe_settings(args, batch, seconds)
        ))?;
        stdout::print_line(format_args!(
            "calls     {} a second, {} in all",
            format_grouped((stats.calls as f64 / seconds) as u64),
            format_grouped(stats.calls)
        ))?;
        let label = match args.mode {
            cli::CallMode::Next | cli::CallMode::NextMany | cli::CallMode::Pipe => "numbers ",
            cli::CallMode::Current => "answers ",
        };
        stdout::print_line(format_args!(
            "{label}  {} a second, {} in all",
            format_grouped((stats.numbers as f64 / seconds) as u64),
            format_grouped(stats.numbers)
        ))?;
        let percentiles: Vec<String> = PERCENTILES
            .iter()
            .map(|(name, p)| {
                format!(
                    "{name} {}",
                    format_nanos(stats.latency.value_at_percentile(*p))
                )
            })
            .collect();
        stdout::print_line(format_args!(
            "latency   {}  max {}",
            percentiles.join("  "),
            format_nanos(stats.latency.max())
        ))?;
        if stats.errors.is_empty() {
            stdout::print_line("errors    none")?;
        }
        for (kind, f) in &stats.errors {
            stdout::print_line(format_args!(
                "errors    {} {kind}, the first: {}",
                format_grouped(f.count),
                f.first_message
            ))?;
        }
        let counters = self.counters;
        let numbers_per_raise = match counters.raises {
            0 => String::new(),
            raises => format!(
                ", {} numbers each",
                format_grouped(counters.numbers / raises)
            ),
        };
        stdout::print_line(format_args!(
            "cluster   {} raises{numbers_per_raise}; {} log entries with raises, {} fsyncs; {} waited for refill, {} forwarded",
            format_grouped(counters.raises),
            format_grouped(counters.raise_entries),
            format_grouped(counters.fsyncs),
            format_grouped(counters.waited_for_refill),
            format_grouped(counters.forwarded)
        ))
    }

    pub(crate) fn to_json(&self, args: &cli::BenchArgs, batch: u32) -> Value {
        let stats = &self.stats;
        let seconds = self.measured.as_secs_f64();
        let mut latency: serde_json::Map<String, Value> = PERCENTILES
            .iter()
            .map(|(name, p)| {
                (
                    (*name).to_owned(),
                    json!(stats.latency.value_at_percentile(*p)),
                )
            })
            .collect();
        latency.insert("max".to_owned(), json!(stats.latency.max()));
        json!({
            "mode": format!("{:?}", args.mode),
            "unary": args.unary,
            "connections": args.connections,
            "in_flight": args.in_flight,
            "keys": args.keys,
            "key_bytes": args.key_bytes,
            "distribution": format!("{:?}", args.distribution),
            "namespaces": args.namespaces,
            "batch": batch,
            "count": args.count,
            "rate": args.rate,
            "seconds": seconds,
            "calls": stats.calls,
            "calls_per_second": stats.calls as f64 / seconds,
            "numbers": stats.numbers,
            "numbers_per_second": stats.numbers as f64 / seconds,
            "latency_ns": latency,
            "errors": stats.errors,
            "cluster": self.counters,
        })
    }
}

fn describe_settings(args: &cli::BenchArgs, batch: u32, seconds: f64) -> String {
    let call = match args.mode {
        cli::CallMode::Next => "next".to_owned(),
        cli::CallMode::NextMany => format!("next-many of {batch}"),
        cli::CallMode::Pipe => format!("frames of {batch}"),
        cli::CallMode::Current => format!("current of {batch}"),
    };
    let protocol = if args.unary { ", unary" } else { "" };
    let count = match args.count {
        1 => String::new(),
        n => format!(", {n} numbers an item"),
    };
    let key_type = match args.key_bytes {
        None => "uids".to_owned(),
        Some(n) => format!("keys of {n} bytes"),
    };
    let distribution = match args.distribution {
        cli::KeyDistribution::Uniform => "alike",
        cli::KeyDistribution::Zipf => "by Zipf's law",
        cli::KeyDistribution::Hot => "of which one",
    };
    let keys = format_grouped(u64::from(args.keys));
    let namespaces = match args.namespaces.len() {
        0 | 1 => String::new(),
        n => format!(" in each of {n} namespaces"),
    };
    let pace = match args.rate {
        None => "each after the last answer".to_owned(),
        Some(rate) => format!("{} due a second", format_grouped(u64::from(rate))),
    };
    format!(
        "{call}{protocol}{count}; {keys} {key_type} {distribution}{namespaces}; {} calls in flight, {} connections, {pace}; {seconds:.1} s",
        args.in_flight, args.connections
    )
}

/// Formats nanoseconds in a unit that leaves three digits.
pub(crate) fn format_nanos(nanos: u64) -> String {
    let (value, unit) = match nanos {
        0..1_000_000 => (nanos as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (nanos as f64 / 1e6, "ms"),
        _ => (nanos as f64 / 1e9, "s"),
    };
    let digits = match value {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// Formats a number with a comma after every three digits.
pub(crate) fn format_grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_counts_are_formatted_for_people() {
        assert_eq!(format_grouped(0), "0");
        assert_eq!(format_grouped(999), "999");
        assert_eq!(format_grouped(1_234_567), "1,234,567");
        assert_eq!(format_nanos(850), "0.85 us");
        assert_eq!(format_nanos(12_340), "12.3 us");
        assert_eq!(format_nanos(999_400_000), "999 ms");
        assert_eq!(format_nanos(2_500_000_000), "2.50 s");
    }
}
