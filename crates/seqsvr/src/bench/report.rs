//! The result of a run, as text or as JSON.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use super::effort::Effort;
use super::figures::Figures;
use crate::cli;
use crate::out;

/// Percentiles that a report has.
const SHOWN: [(&str, f64); 4] = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)];

/// Result of a run.
pub(crate) struct Report {
    /// Measured time, without the warm-up.
    pub(crate) time: Duration,
    pub(crate) figures: Figures,
    pub(crate) effort: Effort,
}

impl Report {
    pub(crate) fn print(&self, args: &cli::Bench, batch: u32) -> io::Result<()> {
        let figures = &self.figures;
        let seconds = self.time.as_secs_f64();
        out::line(format_args!("run       {}", settings(args, batch, seconds)))?;
        out::line(format_args!(
            "calls     {} a second, {} in all",
            grouped((figures.calls as f64 / seconds) as u64),
            grouped(figures.calls)
        ))?;
        let what = match args.mode {
            cli::Mode::Next | cli::Mode::NextMany | cli::Mode::Pipe => "numbers ",
            cli::Mode::Current => "answers ",
        };
        out::line(format_args!(
            "{what}  {} a second, {} in all",
            grouped((figures.numbers as f64 / seconds) as u64),
            grouped(figures.numbers)
        ))?;
        let shown: Vec<String> = SHOWN
            .iter()
            .map(|(name, p)| format!("{name} {}", time(figures.latency.value_at_percentile(*p))))
            .collect();
        out::line(format_args!(
            "latency   {}  max {}",
            shown.join("  "),
            time(figures.latency.max())
        ))?;
        if figures.errors.is_empty() {
            out::line("errors    none")?;
        }
        for (kind, f) in &figures.errors {
            out::line(format_args!(
                "errors    {} {kind}, the first: {}",
                grouped(f.count),
                f.first
            ))?;
        }
        let effort = self.effort;
        let each = match effort.raises {
            0 => String::new(),
            raises => format!(", {} numbers each", grouped(effort.numbers / raises)),
        };
        out::line(format_args!(
            "cluster   {} raises{each}; {} log entries with raises, {} fsyncs; {} waited for refill, {} forwarded",
            grouped(effort.raises),
            grouped(effort.raise_entries),
            grouped(effort.fsyncs),
            grouped(effort.waited_for_refill),
            grouped(effort.forwarded)
        ))
    }

    pub(crate) fn json(&self, args: &cli::Bench, batch: u32) -> Value {
        let figures = &self.figures;
        let seconds = self.time.as_secs_f64();
        let mut latency: serde_json::Map<String, Value> = SHOWN
            .iter()
            .map(|(name, p)| {
                (
                    (*name).to_owned(),
                    json!(figures.latency.value_at_percentile(*p)),
                )
            })
            .collect();
        latency.insert("max".to_owned(), json!(figures.latency.max()));
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
            "calls": figures.calls,
            "calls_per_second": figures.calls as f64 / seconds,
            "numbers": figures.numbers,
            "numbers_per_second": figures.numbers as f64 / seconds,
            "latency_ns": latency,
            "errors": figures.errors,
            "cluster": self.effort,
        })
    }
}

fn settings(args: &cli::Bench, batch: u32, seconds: f64) -> String {
    let call = match args.mode {
        cli::Mode::Next => "next".to_owned(),
        cli::Mode::NextMany => format!("next-many of {batch}"),
        cli::Mode::Pipe => format!("frames of {batch}"),
        cli::Mode::Current => format!("current of {batch}"),
    };
    let by = if args.unary { ", unary" } else { "" };
    let count = match args.count {
        1 => String::new(),
        n => format!(", {n} numbers an item"),
    };
    let kind = match args.key_bytes {
        None => "uids".to_owned(),
        Some(n) => format!("keys of {n} bytes"),
    };
    let distribution = match args.distribution {
        cli::Distribution::Uniform => "alike",
        cli::Distribution::Zipf => "by Zipf's law",
        cli::Distribution::Hot => "of which one",
    };
    let keys = grouped(u64::from(args.keys));
    let each = match args.namespaces.len() {
        0 | 1 => String::new(),
        n => format!(" in each of {n} namespaces"),
    };
    let pace = match args.rate {
        None => "each after the last answer".to_owned(),
        Some(rate) => format!("{} due a second", grouped(u64::from(rate))),
    };
    format!(
        "{call}{by}{count}; {keys} {kind} {distribution}{each}; {} calls in flight, {} connections, {pace}; {seconds:.1} s",
        args.in_flight, args.connections
    )
}

/// Formats nanoseconds in a unit that leaves three digits.
pub(crate) fn time(nanos: u64) -> String {
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
pub(crate) fn grouped(n: u64) -> String {
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
    fn figures_as_people_read_them() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(time(850), "0.85 us");
        assert_eq!(time(12_340), "12.3 us");
        assert_eq!(time(999_400_000), "999 ms");
        assert_eq!(time(2_500_000_000), "2.50 s");
    }
}
