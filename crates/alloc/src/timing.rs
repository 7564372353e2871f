//! How long calls take, and how they fail: for gRPC and for the doors alike, since both come
//! through the service.

use std::time::Duration;

use seqsvr_metrics::{DescriptorEncoder, Figure, Histogram};
use seqsvr_proto::v1::Reason;
use tokio::time::Instant;

use crate::counters::EventCounter;

/// One more than the greatest reason of the contract.
const REASONS: usize = 18;

/// What is called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallMethod {
    Next,
    NextMany,
    Current,
    CurrentMany,
    /// One frame of it.
    Pipe,
    RaiseTo,
    Routes,
}

/// In the order of [`CallMethod`].
const METHODS: [&str; 7] = [
    "Next",
    "NextMany",
    "Current",
    "CurrentMany",
    "Pipe",
    "RaiseTo",
    "Routes",
];

/// What is known of the calls of one AllocSvr.
#[derive(Debug, Default)]
pub(crate) struct CallMetrics {
    took: [Histogram; METHODS.len()],
    failed: [EventCounter; REASONS],
    dropped: EventCounter,
}

impl CallMetrics {
    /// Begins a call that was received at that moment.
    pub(crate) fn begin(&self, method: CallMethod, at: Instant) -> CallTimer<'_> {
        CallTimer {
            timing: self,
            method,
            at,
            ended: false,
        }
    }

    /// Notes `n` calls or frames that took so long each.
    pub(crate) fn took(&self, method: CallMethod, took: Duration, n: u64) {
        self.took[method as usize].observe_each(took, n);
    }

    /// Notes a call, a frame or an item that is answered by an error.
    pub(crate) fn failed(&self, reason: Reason) {
        if let Some(failed) = self.failed.get(reason as usize) {
            failed.add(1);
        }
    }

    /// What counts failures.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let help =
            "Calls, frames of Pipes, and items of others, answered by an error, by its reason";
        let failed = (0..).zip(&self.failed).map(|(reason, count)| {
            let name = Reason::try_from(reason).unwrap_or_default().as_str_name();
            let name = name.strip_prefix("REASON_").unwrap_or(name);
            Figure::counter("errors", help, count.get()).of("reason", name)
        });
        let help = "Calls and frames whose caller went away before the answer";
        let dropped = Figure::counter("calls_dropped", help, self.dropped.get());
        failed.chain([dropped]).collect()
    }

    /// Writes how long calls took.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder) -> std::fmt::Result {
        Histogram::encode_all(
            METHODS.into_iter().zip(&self.took),
            "call_duration_seconds",
            "method",
            "From when a call, or a frame of a Pipe, was received until its answer was ready",
            encoder,
        )
    }
}

/// A call that is being answered.
pub(crate) struct CallTimer<'a> {
    timing: &'a CallMetrics,
    method: CallMethod,
    at: Instant,
    ended: bool,
}

impl CallTimer<'_> {
    /// The answer is ready.
    pub(crate) fn end(mut self) -> Duration {
        self.ended = true;
        let took = self.at.elapsed();
        self.timing.took(self.method, took, 1);
        took
    }
}

impl Drop for CallTimer<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.timing.dropped.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(timing: &CallMetrics, name: &str) -> u64 {
        let figures = timing.figures();
        let named = figures.iter().find(|f| match &f.label {
            Some((_, value)) => value == name,
            None => f.name == name,
        });
        named.unwrap().value
    }

    #[test]
    fn every_reason_has_its_count() {
        assert!(Reason::try_from(REASONS as i32).is_err(), "a reason is new");
        let timing = CallMetrics::default();
        timing.failed(Reason::NameTaken);
        assert_eq!(value(&timing, "NAME_TAKEN"), 1);
        assert_eq!(value(&timing, "UNSPECIFIED"), 0);
    }

    #[test]
    fn a_call_ends_or_was_dropped() {
        let timing = CallMetrics::default();
        timing.begin(CallMethod::Routes, Instant::now()).end();
        assert_eq!(timing.took[CallMethod::Routes as usize].count(), 1);
        drop(timing.begin(CallMethod::Routes, Instant::now()));
        assert_eq!(timing.took[CallMethod::Routes as usize].count(), 1);
        assert_eq!(value(&timing, "calls_dropped"), 1);
    }
}
