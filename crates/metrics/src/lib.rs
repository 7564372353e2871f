//! Figures, histograms and checks of a server for the people and tools that monitor it.
//!
//! ```text
//! Figure      a number with a name; `status --json` and Prometheus show the same list
//! Histogram   how long something took, over fixed buckets; observed without a lock
//! Watched     what a server brings: its figures and histograms, whether it has failed, its checks
//! ```
//!
//! Figures are read on request, from what the server counts anyway. A label has few values:
//! methods, reasons, parts of a directory, stores. No key, section or name that callers choose is
//! ever one.

mod histogram;
mod metric_sample;
mod server_probe;

pub use histogram::{BUCKET_BOUNDS, Histogram};
pub use metric_sample::{MetricKind, MetricSample, encode_samples, to_counter_map};
pub use prometheus_client::collector::Collector;
pub use prometheus_client::encoding::{DescriptorEncoder, text};
pub use prometheus_client::registry::Registry;
pub use server_probe::{HealthCheck, ServerProbe};
