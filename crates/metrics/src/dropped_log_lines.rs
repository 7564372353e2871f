//! The count of lines of output that a server discarded because their reader did not take them.

use std::sync::LazyLock;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::metric_sample::MetricSample;

const HELP: &str = "Log lines that the process dropped because no reader took them in time";

/// Lines that this process dropped; all servers in it have one log.
static DROPPED: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Counts lines that were dropped.
pub fn count_dropped_log_lines(lines: u64) {
    DROPPED.inc_by(lines);
}

/// Returns the sample of `status --json`.
pub fn dropped_log_lines_sample() -> MetricSample {
    MetricSample::counter("log_lines_dropped", HELP, DROPPED.get())
}

/// Adds `seqsvr_log_lines_dropped_total`, which has the same name on every kind of server.
pub fn register_dropped_log_lines(registry: &mut Registry) {
    registry.register("seqsvr_log_lines_dropped", HELP, DROPPED.clone());
}
