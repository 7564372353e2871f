//! The metric that shows that a server runs without protection.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::metric_sample::MetricSample;

const HELP: &str = "1 if any program that reaches the server may do everything (--insecure)";

/// Returns the sample of `status --json`.
pub fn insecure_sample(is_insecure: bool) -> MetricSample {
    MetricSample::gauge("insecure", HELP, is_insecure.into())
}

/// Adds `seqsvr_insecure`, which has the same name on every kind of server.
pub fn register_insecure_gauge(is_insecure: bool, registry: &mut Registry) {
    let gauge = Gauge::<i64>::default();
    gauge.set(is_insecure.into());
    registry.register("seqsvr_insecure", HELP, gauge);
}
