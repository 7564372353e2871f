//! Schedule of the calls, and the end of the run.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Schedule of the calls of a run, which all callers share.
pub(crate) struct Pace {
    began: Instant,
    ends: Instant,
    /// Interval between two scheduled calls; None: each call follows the last answer.
    every: Option<Duration>,
    due: AtomicU64,
    stopped: AtomicBool,
}

impl Pace {
    /// Starts a run of this duration; `rate` is in calls a second.
    pub(crate) fn new(time: Duration, rate: Option<u32>) -> Pace {
        let began = Instant::now();
        Pace {
            began,
            ends: began + time,
            every: rate.map(|rate| Duration::from_secs(1) / rate),
            due: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Returns whether calls are scheduled at a rate (open loop).
    pub(crate) fn has_rate(&self) -> bool {
        self.every.is_some()
    }

    /// Waits until the next call is due. Returns when it was due, or None when the run is over.
    ///
    /// `now` is the end of the caller's last call. A caller that is late begins at once, and the
    /// latency of its call counts from when it was due.
    pub(crate) async fn turn(&self, now: Instant) -> Option<Instant> {
        let due = match self.every {
            None => now,
            Some(every) => {
                let n = self.due.fetch_add(1, Relaxed);
                let due = self.began + Duration::from_nanos(every.as_nanos() as u64 * n);
                if due > now {
                    sleep_until(due.min(self.ends)).await;
                }
                due
            }
        };
        (due < self.ends && now < self.ends && !self.stopped.load(Acquire)).then_some(due)
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
    async fn calls_fall_due_whether_answered_or_not() {
        let began = Instant::now();
        let pace = Pace::new(Duration::from_secs(1), Some(10));
        assert_eq!(pace.turn(Instant::now()).await, Some(began));
        // An answer takes 350 ms: three more calls became due during that time.
        tokio::time::sleep(Duration::from_millis(350)).await;
        for n in 1..=3 {
            let due = began + Duration::from_millis(100 * n);
            assert_eq!(pace.turn(Instant::now()).await, Some(due));
            assert_eq!(began.elapsed(), Duration::from_millis(350));
        }
        let due = began + Duration::from_millis(400);
        assert_eq!(pace.turn(Instant::now()).await, Some(due));
        assert_eq!(Instant::now(), due);
        let mut left = 0;
        while pace.turn(Instant::now()).await.is_some() {
            left += 1;
        }
        assert_eq!(left, 5);
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_a_call_is_due_at_once() {
        let pace = Pace::new(Duration::from_secs(1), None);
        assert_eq!(pace.turn(Instant::now()).await, Some(Instant::now()));
        pace.stop();
        assert_eq!(pace.turn(Instant::now()).await, None);
    }
}
