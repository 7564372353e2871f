//! Metrics and health checks of a server for the people and tools that monitor it.
//!
//! ```text
//! MetricSample   a number with a name; `status --json` and Prometheus show the same list
//! Histogram      durations, counted in fixed buckets without a lock
//! ServerProbe    interface of a server: its metrics, its permanent failure, its health checks
//! ```
//!
//! Samples are made on request, from what the server counts anyway. A label has few values:
//! methods, reasons, parts of a directory, stores. A key, a section or a name that callers choose
//! is never a label.

mod dropped_log_lines;
mod histogram;
mod metric_sample;
mod server_probe;
mod server_security;

pub use dropped_log_lines::{
    count_dropped_log_lines, dropped_log_lines_sample, register_dropped_log_lines,
};
pub use histogram::{BUCKET_BOUNDS, BucketCounts, Histogram, estimate_quantile};
pub use metric_sample::{MetricKind, MetricSample, encode_samples, to_counter_map};
pub use prometheus_client::collector::Collector;
pub use prometheus_client::encoding::{DescriptorEncoder, text};
pub use prometheus_client::registry::Registry;
pub use server_probe::{HealthCheck, ServerProbe};
pub use server_security::ServerSecurity;
