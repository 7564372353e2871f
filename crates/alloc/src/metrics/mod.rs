//! Counters of this AllocSvr, and durations of its calls.

pub(crate) mod call_metrics;
pub(crate) mod counters;
pub(crate) mod recent_load;
