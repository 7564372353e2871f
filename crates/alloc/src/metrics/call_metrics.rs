//! Durations and failures of calls. Both gRPC and the other endpoints call the service, so all are
//! counted.

use std::time::Duration;

use seqsvr_metrics::{BucketCounts, DescriptorEncoder, Histogram, MetricSample};
use seqsvr_proto::v1::Reason;
use tokio::time::Instant;

use crate::metrics::counters::EventCounter;

/// One more than the greatest reason that a caller of `Sequence` or `Ids` gets.
const REASON_COUNT: usize = 32;

/// Methods of the `Sequence` service, and `NextIds`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallMethod {
    Next,
    NextMany,
    Current,
    CurrentMany,
    /// One frame of a Pipe.
    Pipe,
    RaiseTo,
    NextIds,
    Routes,
}

/// Names of the methods, in the order of [`CallMethod`].
const METHOD_NAMES: [&str; 8] = [
    "Next",
    "NextMany",
    "Current",
    "CurrentMany",
    "Pipe",
    "RaiseTo",
    "NextIds",
    "Routes",
];

/// Metrics of the calls of one AllocSvr.
#[derive(Debug, Default)]
pub(crate) struct CallMetrics {
    durations: [Histogram; METHOD_NAMES.len()],
    failures: [EventCounter; REASON_COUNT],
    dropped: EventCounter,
}

impl CallMetrics {
    /// Starts the timer of a call that was received at `at`.
    pub(crate) fn start_call(&self, method: CallMethod, started_at: Instant) -> CallTimer<'_> {
        CallTimer {
            metrics: self,
            method,
            started_at,
            is_stopped: false,
        }
    }

    /// Records calls or frames with this duration each.
    pub(crate) fn record_calls(&self, method: CallMethod, duration: Duration, call_count: u64) {
        self.durations[method as usize].observe_many(duration, call_count);
    }

    /// Records a call, a frame or an item that is answered with an error.
    pub(crate) fn record_failure(&self, reason: Reason) {
        if let Some(failed) = self.failures.get(reason as usize) {
            failed.add(1);
        }
    }

    /// Returns the failure counters as metrics.
    pub(crate) fn to_figures(&self) -> Vec<MetricSample> {
        let help = "Errors sent for calls, Pipe frames and items, by reason";
        let failed = (0..).zip(&self.failures).filter_map(|(reason, count)| {
            let name = Reason::try_from(reason).ok()?.as_str_name();
            let name = name.strip_prefix("REASON_").unwrap_or(name);
            let sample = MetricSample::counter("errors", help, count.get());
            Some(sample.with_label("reason", name))
        });
        let help = "Calls and frames whose caller disconnected before the answer";
        let dropped = MetricSample::counter("requests_cancelled", help, self.dropped.get());
        failed.chain([dropped]).collect()
    }

    /// Returns the durations of all calls, by bucket; without `Routes`, the last method, which may
    /// wait for a newer table as long as its caller likes.
    pub(crate) fn duration_counts(&self) -> BucketCounts {
        let mut counts = BucketCounts::default();
        for histogram in &self.durations[..CallMethod::Routes as usize] {
            for (sum, count) in counts.iter_mut().zip(histogram.bucket_counts()) {
                *sum += count;
            }
        }
        counts
    }

    /// Writes the durations of calls.
    pub(crate) fn encode_durations(&self, encoder: &mut DescriptorEncoder) -> std::fmt::Result {
        Histogram::encode_all(
            METHOD_NAMES.into_iter().zip(&self.durations),
            "request_duration_seconds",
            "method",
            "Time from the receipt of a call or Pipe frame until its response was ready",
            encoder,
        )
    }
}

/// Timer of a call in progress. A drop without [`CallTimer::stop`] counts the call as dropped.
pub(crate) struct CallTimer<'a> {
    metrics: &'a CallMetrics,
    method: CallMethod,
    started_at: Instant,
    is_stopped: bool,
}

impl CallTimer<'_> {
    /// Records the duration of the call and returns it.
    pub(crate) fn stop(mut self) -> Duration {
        self.is_stopped = true;
        let duration = self.started_at.elapsed();
        self.metrics.record_calls(self.method, duration, 1);
        duration
    }
}

impl Drop for CallTimer<'_> {
    fn drop(&mut self) {
        if !self.is_stopped {
            self.metrics.dropped.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(timing: &CallMetrics, name: &str) -> u64 {
        let figures = timing.to_figures();
        let named = figures.iter().find(|f| match &f.label {
            Some((_, value)) => value == name,
            None => f.name == name,
        });
        named.unwrap().value
    }

    #[test]
    fn call_metrics_have_a_counter_for_each_reason() {
        assert!(
            Reason::try_from(REASON_COUNT as i32).is_err(),
            "a reason is new"
        );
        let timing = CallMetrics::default();
        timing.record_failure(Reason::NameTaken);
        assert_eq!(value(&timing, "NAME_TAKEN"), 1);
        assert_eq!(value(&timing, "UNSPECIFIED"), 0);
    }

    #[test]
    fn call_timer_records_end_or_drop() {
        let timing = CallMetrics::default();
        timing.start_call(CallMethod::Routes, Instant::now()).stop();
        assert_eq!(timing.durations[CallMethod::Routes as usize].count(), 1);
        drop(timing.start_call(CallMethod::Routes, Instant::now()));
        assert_eq!(timing.durations[CallMethod::Routes as usize].count(), 1);
        assert_eq!(value(&timing, "requests_cancelled"), 1);
    }
}
