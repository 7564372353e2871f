//! What a server tells of itself to those who watch over it.
//!
//! ```text
//! Figure      a number with a name: what `status --json` shows and Prometheus scrapes, from one list
//! Histogram   how long something took, over fixed buckets; observed without a lock
//! Watched     what a server brings: its figures and histograms, whether it has failed, its checks
//! ```
//!
//! Figures are read when they are asked for, from what the server counts anyway. What has a label has few
//! values: methods, reasons, parts of a directory, stores. No key, section or name that callers make up is ever one.

mod figure;
mod histogram;
mod watched;

pub use figure::{Figure, Kind, by_name, encode};
pub use histogram::{BOUNDS, Histogram};
pub use prometheus_client::collector::Collector;
pub use prometheus_client::encoding::{DescriptorEncoder, text};
pub use prometheus_client::registry::Registry;
pub use watched::{Check, Watched};
