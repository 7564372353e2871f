//! Rate at which a section's furthest counter advances, for operators. The task that checks the
//! memory budget samples every section now and then. That is enough, and costs the fast path
//! nothing.

use parking_lot::Mutex;
use tokio::time::Instant;

/// Rate of a section's furthest counter between the last two samples.
#[derive(Default)]
pub(crate) struct RateMeter(Mutex<RateSample>);

#[derive(Default)]
struct RateSample {
    sampled_at: Option<Instant>,
    highest: u64,
    numbers_per_second: u64,
}

impl RateMeter {
    /// Records the position of the furthest counter.
    pub(crate) fn sample(&self, now: Instant, highest: u64) {
        let mut last = self.0.lock();
        let advanced = highest.saturating_sub(last.highest);
        // There is no earlier time at the first sample.
        let elapsed = last
            .sampled_at
            .map(|at| (now - at).as_secs_f64().max(0.001));
        *last = RateSample {
            sampled_at: Some(now),
            highest,
            numbers_per_second: elapsed.map_or(0, |s| (advanced as f64 / s).ceil() as u64),
        };
    }

    /// Records that a RaiseTo moved the furthest counter, so that the distance does not count as
    /// numbers taken.
    pub(crate) fn record_jump(&self, highest: u64) {
        self.0.lock().highest = highest;
    }

    pub(crate) fn numbers_per_second(&self) -> u64 {
        self.0.lock().numbers_per_second
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rate_meter_ignores_jumps_and_falls_without_use() {
        let rate_meter = RateMeter::default();
        let at = |s| Instant::now() + Duration::from_secs(s);
        rate_meter.sample(at(0), 5_000);
        assert_eq!(
            rate_meter.numbers_per_second(),
            0,
            "the first look knows no time before it"
        );
        rate_meter.record_jump(1_000_000);
        rate_meter.sample(at(2), 1_000_100);
        assert!((45..=55).contains(&rate_meter.numbers_per_second()));
        rate_meter.sample(at(4), 1_000_100);
        assert_eq!(rate_meter.numbers_per_second(), 0);
    }
}
