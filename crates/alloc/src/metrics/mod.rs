//! Metrics and health checks of this AllocSvr.

pub(crate) mod call_metrics;
pub(crate) mod collector;
pub(crate) mod counters;
