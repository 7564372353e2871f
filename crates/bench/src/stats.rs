//! Latencies, counts and errors that a run measures.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use seqsvr_client::{Code, Error, Reason};
use serde::Serialize;

/// Maximum latency in nanoseconds. A longer one counts as this.
const LATENCY_MAX_NS: u64 = 120_000_000_000;
/// Significant decimal digits of a latency.
const LATENCY_DIGITS: u8 = 3;

/// Items that failed with the same kind of error.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FailureCount {
    pub(crate) count: u64,
    /// Message of the first one.
    #[serde(rename = "first")]
    pub(crate) first_message: String,
}

/// Statistics of some callers, which are added up at the end.
pub(crate) struct RunStats {
    pub(crate) latency: Histogram<u64>,
    /// Calls of which every item was answered.
    pub(crate) calls: u64,
    /// Numbers, or answers of `current`.
    pub(crate) numbers: u64,
    /// Items that failed, by kind of error.
    pub(crate) errors: BTreeMap<String, FailureCount>,
}

impl RunStats {
    /// Creates empty statistics.
    #[expect(clippy::expect_used, reason = "the bounds are constants that fit")]
    pub(crate) fn new() -> RunStats {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_DIGITS);
        RunStats {
            latency: latency.expect("1 to 120 s in three digits"),
            calls: 0,
            numbers: 0,
            errors: BTreeMap::new(),
        }
    }

    /// Counts a call that took `latency` and returned this many numbers.
    pub(crate) fn count_call(&mut self, latency: Duration, numbers: u64) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_MAX_NS);
        self.latency.saturating_record(nanos.max(1));
        self.calls += 1;
        self.numbers += numbers;
    }

    /// Counts an item that failed.
    pub(crate) fn count_failure(&mut self, error: &Error) {
        let kind = match error.reason() {
            Reason::Unspecified => code_name(error.code()),
            reason => format!("{} {}", code_name(error.code()), reason.as_str_name()),
        };
        self.add_failures(kind, 1, || error.message().to_owned());
    }

    /// Returns the number of items that failed.
    pub(crate) fn failure_count(&self) -> u64 {
        self.errors.values().map(|f| f.count).sum()
    }

    fn add_failures(&mut self, kind: String, n: u64, first_message: impl FnOnce() -> String) {
        let failures = self.errors.entry(kind).or_insert_with(|| FailureCount {
            count: 0,
            first_message: first_message(),
        });
        failures.count += n;
    }

    /// Returns the sum of all, and resets them.
    pub(crate) fn take_sum(all: &[Mutex<RunStats>]) -> RunStats {
        let mut sum = RunStats::new();
        for stats in all {
            let stats = std::mem::replace(&mut *stats.lock(), RunStats::new());
            sum.add_stats(&stats);
        }
        sum
    }

    /// Adds other statistics to these.
    #[expect(clippy::expect_used, reason = "the bounds are the same")]
    pub(crate) fn add_stats(&mut self, other: &RunStats) {
        self.latency.add(&other.latency).expect("the same bounds");
        self.calls += other.calls;
        self.numbers += other.numbers;
        for (kind, failures) in &other.errors {
            self.add_failures(kind.clone(), failures.count, || {
                failures.first_message.clone()
            });
        }
    }
}

fn code_name(code: Code) -> String {
    format!("{code:?}")
}
