//! The result of a run, as text or as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster_counters::ClusterCounters;
use crate::settings::{BenchSettings, CallMode, KeyDistribution};
use crate::stats::RunStats;

/// Percentiles that a report has.
const PERCENTILES: [(&str, f64); 4] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)];

/// Statistics of a run after its warm-up.
pub(crate) struct RunMeasurement {
    /// Measured time, without the warm-up.
    pub(crate) time: Duration,
    /// Statistics of all callers.
    pub(crate) stats: RunStats,
    /// Counters of the cluster during that time.
    pub(crate) counters: ClusterCounters,
}

/// Result of a run, with its settings.
pub struct BenchReport {
    pub(crate) settings: BenchSettings,
    /// Items of a call.
    pub(crate) batch: u32,
    /// Number of clients.
    pub(crate) connections: u32,
    pub(crate) measurement: RunMeasurement,
}

impl BenchReport {
    /// Returns the lines of the report for people.
    pub fn to_lines(&self) -> Vec<String> {
        let RunMeasurement {
            time,
            stats,
            counters,
        } = &self.measurement;
        let seconds = time.as_secs_f64();
        let mut lines = vec![
            format!("run       {}", self.describe_settings(seconds)),
            format!(
                "calls     {} a second, {} in all",
                format_grouped((stats.calls as f64 / seconds) as u64),
                format_grouped(stats.calls)
            ),
        ];
        let label = match self.settings.mode {
            CallMode::Next | CallMode::NextMany | CallMode::Pipe => "numbers ",
            CallMode::Current => "answers ",
            CallMode::Ids => "ids     ",
        };
        lines.push(format!(
            "{label}  {} a second, {} in all",
            format_grouped((stats.numbers as f64 / seconds) as u64),
            format_grouped(stats.numbers)
        ));
        // A run that finds the contrary ends without a report.
        if self.settings.mode != CallMode::Current {
            let verified = match self.settings.mode {
                CallMode::Ids => {
                    "all ids: each is new, and greater than those of its worker received before its call"
                }
                _ => {
                    "all numbers: each is new, and greater than those of its key received before its call"
                }
            };
            lines.push(format!("verified  {verified}"));
        }
        let percentiles: Vec<String> = PERCENTILES
            .iter()
            .map(|(name, p)| {
                format!(
                    "{name} {}",
                    format_nanos(stats.latency.value_at_percentile(*p))
                )
            })
            .collect();
        lines.push(format!(
            "latency   {}  max {}",
            percentiles.join("  "),
            format_nanos(stats.latency.max())
        ));
        if stats.errors.is_empty() {
            lines.push("errors    none".to_owned());
        }
        for (kind, f) in &stats.errors {
            lines.push(format!(
                "errors    {} {kind}, the first: {}",
                format_grouped(f.count),
                f.first_message
            ));
        }
        let numbers_per_raise = match counters.raises {
            0 => String::new(),
            raises => format!(
                ", {} numbers each",
                format_grouped(counters.numbers_issued / raises)
            ),
        };
        lines.push(format!(
            "cluster   {} raises{numbers_per_raise}; {} log entries with raises, {} fsyncs; {} window waits, {} forwarded",
            format_grouped(counters.raises),
            format_grouped(counters.raise_entries),
            format_grouped(counters.fsyncs),
            format_grouped(counters.window_waits),
            format_grouped(counters.forwarded)
        ));
        if !counters.silent.is_empty() {
            lines.push(format!(
                "silent    {}: no answer, so the line above is without their counters",
                counters.silent.join(", ")
            ));
        }
        lines
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        let settings = &self.settings;
        let RunMeasurement {
            time,
            stats,
            counters,
        } = &self.measurement;
        let seconds = time.as_secs_f64();
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
            "mode": format!("{:?}", settings.mode),
            "unary": settings.unary,
            "connections": self.connections,
            "in_flight": settings.in_flight,
            "keys": settings.keys,
            "key_bytes": settings.key_bytes,
            "distribution": format!("{:?}", settings.distribution),
            "namespaces": settings.namespaces,
            "family": settings.family,
            "batch": self.batch,
            "count": settings.count,
            "rate": settings.rate,
            "seconds": seconds,
            "calls": stats.calls,
            "calls_per_second": stats.calls as f64 / seconds,
            "numbers": stats.numbers,
            "numbers_per_second": stats.numbers as f64 / seconds,
            "latency_ns": latency,
            "errors": stats.errors,
            "cluster": counters,
        })
    }

    /// Describes the settings of the run in one line.
    fn describe_settings(&self, seconds: f64) -> String {
        let (settings, batch) = (&self.settings, self.batch);
        let call = match settings.mode {
            CallMode::Next => "next".to_owned(),
            CallMode::NextMany => format!("next-many of {batch}"),
            CallMode::Pipe => format!("frames of {batch}"),
            CallMode::Current => format!("current of {batch}"),
            CallMode::Ids => format!("{batch} ids of {}", settings.family_name()),
        };
        let protocol = if settings.unary { ", unary" } else { "" };
        let count = match settings.count {
            1 => String::new(),
            n => format!(", {n} numbers an item"),
        };
        let key_type = match settings.key_bytes {
            None => "uids".to_owned(),
            Some(n) => format!("keys of {n} bytes"),
        };
        let distribution = match settings.distribution {
            KeyDistribution::Uniform => ", each as often",
            KeyDistribution::Zipf => " by Zipf's law",
            KeyDistribution::Hot => ", all calls on one",
        };
        let keys = format_grouped(u64::from(settings.keys));
        let namespaces = match settings.namespaces.len() {
            0 | 1 => String::new(),
            n => format!(" in each of {n} namespaces"),
        };
        let pace = match settings.rate {
            None => "each after the last answer".to_owned(),
            Some(rate) => format!("{} started per second", format_grouped(u64::from(rate))),
        };
        let from = match settings.mode {
            CallMode::Ids => String::new(),
            _ => format!("; {keys} {key_type}{namespaces}{distribution}"),
        };
        format!(
            "{call}{protocol}{count}{from}; {} calls in flight, {} connections, {pace}; {seconds:.1} s",
            settings.in_flight, self.connections
        )
    }
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
