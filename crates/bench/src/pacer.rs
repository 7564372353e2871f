//! Schedule of the calls, and the end of the run.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Schedule of the calls of a run, which all callers share.
pub(crate) struct Pacer {
    began: Instant,
    end: Instant,
    /// Interval between two scheduled calls; None: each call follows the last answer.
    interval: Option<Duration>,
    calls_due: AtomicU64,
    stopped: AtomicBool,
}

impl Pacer {
    /// Starts a run of this duration; `rate` is in calls a second.
    pub(crate) fn new(duration: Duration, rate: Option<u32>) -> Pacer {
        let began = Instant::now();
        Pacer {
            began,
            end: began + duration,
            interval: rate.map(|rate| Duration::from_secs(1) / rate),
            calls_due: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Returns whether calls are scheduled at a rate (open loop).
    pub(crate) fn has_rate(&self) -> bool {
        self.interval.is_some()
    }

    /// Waits until the next call is due. Returns when it was due, or None when the run is over.
    ///
    /// `now` is the end of the caller's last call. A caller that is late begins at once, and the
    /// latency of its call counts from when it was due.
    pub(crate) async fn wait_until_due(&self, now: Instant) -> Option<Instant> {
        let due = match self.interval {
            None => now,
            Some(interval) => {
                let call_index = self.calls_due.fetch_add(1, Relaxed);
                let due =
                    self.began + Duration::from_nanos(interval.as_nanos() as u64 * call_index);
                if due > now {
                    sleep_until(due.min(self.end)).await;
                }
                due
            }
        };
        (due < self.end && now < self.end && !self.stopped.load(Acquire)).then_some(due)
    }

    /// Ends the run early.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Release);
    }

    /// Returns whether the run was ended early.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn open_loop_call_is_due_before_the_last_answer() {
        let began = Instant::now();
        let pacer = Pacer::new(Duration::from_secs(1), Some(10));
        assert_eq!(pacer.wait_until_due(Instant::now()).await, Some(began));
        // An answer takes 350 ms: three more calls became due during that time.
        tokio::time::sleep(Duration::from_millis(350)).await;
        for n in 1..=3 {
            let due = began + Duration::from_millis(100 * n);
            assert_eq!(pacer.wait_until_due(Instant::now()).await, Some(due));
            assert_eq!(began.elapsed(), Duration::from_millis(350));
        }
        let due = began + Duration::from_millis(400);
        assert_eq!(pacer.wait_until_due(Instant::now()).await, Some(due));
        assert_eq!(Instant::now(), due);
        let mut remaining = 0;
        while pacer.wait_until_due(Instant::now()).await.is_some() {
            remaining += 1;
        }
        assert_eq!(remaining, 5);
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn closed_loop_call_is_due_at_once() {
        let pacer = Pacer::new(Duration::from_secs(1), None);
        assert_eq!(
            pacer.wait_until_due(Instant::now()).await,
            Some(Instant::now())
        );
        pacer.stop();
        assert_eq!(pacer.wait_until_due(Instant::now()).await, None);
    }
}
