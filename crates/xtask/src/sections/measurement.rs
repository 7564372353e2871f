//! The measured values, their targets and their table.

use std::time::Duration;

use super::store_watch::StoreObservation;
use super::write_load::WriteLoadResult;

/// Target: time within which a replacement catches up.
const CAUGHT_UP_MAX: Duration = Duration::from_secs(90);
/// Target: peak memory of a store, divided by its memory at rest.
const MEMORY_RATIO_MAX: f64 = 2.0;

/// Values of one measurement.
#[derive(Debug, Default)]
pub(super) struct SectionsMeasurement {
    /// Time to build the state in memory.
    pub(super) build: Duration,
    /// Time to copy the state, as a snapshot or a backup does under the lock that entries need.
    pub(super) copy: Duration,
    /// Time to write the data directory of the first store.
    pub(super) prepare: Duration,
    /// Time from the start of a store on that directory until it answers.
    pub(super) start: Duration,
    /// Bytes of its snapshot.
    pub(super) snapshot_bytes: u64,
    /// Resident memory of that store at rest.
    pub(super) bytes_at_rest: u64,
    /// Time that each of two stores needs to join, without load.
    pub(super) joins: Vec<Duration>,
    /// Longest status request of the idle cluster.
    pub(super) status: Duration,
    /// Longest dashboard request of the idle cluster.
    pub(super) page: Duration,
    /// Entries written per second under load, with all stores up to date.
    pub(super) entries_before: f64,
    /// Time from the join of the empty store until it votes and lags by less than a second of load.
    pub(super) caught_up: Duration,
    /// What was observed while the replacement caught up.
    pub(super) observed: StoreObservation,
    /// Calls of the load.
    pub(super) load: WriteLoadResult,
}

impl SectionsMeasurement {
    /// Returns whether the targets are met.
    pub(super) fn meets_targets(&self) -> bool {
        self.is_caught_up_in_time()
            && self.observed.elections == 0
            && self.memory_ratio() <= MEMORY_RATIO_MAX
    }

    /// Returns whether the replacement caught up within the target time.
    pub(super) fn is_caught_up_in_time(&self) -> bool {
        self.caught_up <= CAUGHT_UP_MAX
    }

    fn memory_ratio(&self) -> f64 {
        self.observed.memory_bytes as f64 / self.bytes_at_rest.max(1) as f64
    }

    /// Returns a table in Markdown, of a state with `count` sections and `rate` calls per second.
    pub(super) fn format_table(&self, count: u64, rate: u32) -> String {
        let s = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        let joins = self.joins.iter().map(|join| s(*join)).collect::<Vec<_>>();
        let observed = &self.observed;
        let rows = [
            ("building the state", s(self.build)),
            ("copying it, and dropping the copy", ms(self.copy)),
            ("writing the first data directory", s(self.prepare)),
            ("snapshot file", mib(self.snapshot_bytes)),
            ("start of a store until it answers", s(self.start)),
            ("memory of that store at rest", mib(self.bytes_at_rest)),
            ("joins of two stores, without load", joins.join(", ")),
            ("longest status request, without load", ms(self.status)),
            ("longest dashboard request, without load", ms(self.page)),
            (
                "entries per second, under load with all stores up to date",
                format!("{:.0}", self.entries_before),
            ),
            (
                "replacement caught up, under load (target: 90 s)",
                s(self.caught_up),
            ),
            (
                "entries per second during that",
                format!("{:.0}", observed.entries_per_second),
            ),
            (
                "elections during that (target: 0)",
                observed.elections.to_string(),
            ),
            (
                "longest silence between leader and voter during that",
                ms(observed.silence),
            ),
            ("longest status request during that", ms(observed.status)),
            ("longest dashboard request during that", ms(observed.page)),
            ("longest call during that", ms(self.load.longest)),
            (
                "calls answered, failed",
                format!("{}, {}", self.load.answered, self.load.failed),
            ),
            (
                "peak memory of a store (target: 2 times the memory at rest)",
                format!(
                    "{}, {:.2} times",
                    mib(observed.memory_bytes),
                    self.memory_ratio()
                ),
            ),
        ];
        let mut text =
            format!("{count} sections, {rate} calls per second\n\n| step | value |\n|---|---|\n");
        for (step, value) in rows {
            text.push_str(&format!("| {step} | {value} |\n"));
        }
        let verdict = if self.meets_targets() {
            "met"
        } else {
            "NOT met"
        };
        text.push_str(&format!("\nThe targets are {verdict}.\n"));
        text
    }
}
