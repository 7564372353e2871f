//! Load of this AllocSvr in the last five minutes, for the chart of the page. A task of its own
//! reads the counters every 2 s, so the samples cost the calls nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use seqsvr_metrics::{BucketCounts, estimate_quantile};
use seqsvr_proto::node_status::{LOAD_SAMPLE_INTERVAL, LOAD_SAMPLES_MAX};
use seqsvr_proto::v1::LoadSample;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::metrics::call_metrics::CallMetrics;
use crate::metrics::counters::AllocCounters;

/// Part of the calls whose duration does not exceed the shown one.
const QUANTILE: f64 = 0.99;

/// The last samples, newest first.
#[derive(Debug, Default)]
pub(crate) struct RecentLoad(Mutex<VecDeque<(Instant, LoadSample)>>);

impl RecentLoad {
    /// Returns the samples with their ages, newest first.
    pub(crate) fn samples(&self) -> Vec<LoadSample> {
        let (now, samples) = (Instant::now(), self.0.lock());
        let aged = samples.iter().map(|(at, sample)| LoadSample {
            age_ms: (now - *at).as_millis().try_into().unwrap_or(u32::MAX),
            ..*sample
        });
        aged.collect()
    }

    fn push(&self, at: Instant, sample: LoadSample) {
        let mut samples = self.0.lock();
        samples.truncate(LOAD_SAMPLES_MAX - 1);
        samples.push_front((at, sample));
    }
}

/// Task that samples the load.
pub(crate) struct LoadSampler {
    pub(crate) counters: Arc<AllocCounters>,
    pub(crate) call_metrics: Arc<CallMetrics>,
    pub(crate) recent_load: Arc<RecentLoad>,
}

impl LoadSampler {
    /// Samples until it is canceled.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        let mut last = self.read();
        // On a fixed grid: a pause after each reading would be as late as the task is each time,
        // and the ages of the samples would skip places of the chart.
        let mut ticks = interval_at(last.at + LOAD_SAMPLE_INTERVAL, LOAD_SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while cancel.run_until_cancelled(ticks.tick()).await.is_some() {
            let next = self.read();
            // After a pause of the process one tick is late, and the next one may follow at once:
            // a few calls in so short a time would look like a peak.
            if next.at - last.at < LOAD_SAMPLE_INTERVAL / 2 {
                continue;
            }
            self.recent_load.push(next.at, next.since(&last));
            last = next;
        }
    }

    fn read(&self) -> LoadReading {
        LoadReading {
            at: Instant::now(),
            numbers: self.counters.numbers_issued.get(),
            durations: self.call_metrics.duration_counts(),
        }
    }
}

/// Counters at one time.
struct LoadReading {
    at: Instant,
    numbers: u64,
    durations: BucketCounts,
}

impl LoadReading {
    /// Returns the load between an earlier reading and this one.
    fn since(&self, last: &LoadReading) -> LoadSample {
        let seconds = (self.at - last.at).as_secs_f64();
        let between = std::array::from_fn(|i| self.durations[i].saturating_sub(last.durations[i]));
        LoadSample {
            age_ms: 0,
            numbers_per_second: ((self.numbers - last.numbers) as f64 / seconds).round() as u64,
            p99_us: estimate_quantile(&between, QUANTILE).map(|p99| p99.as_micros() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinHandle;
    use tokio::time::{advance, sleep, timeout};

    use super::*;
    use crate::metrics::call_metrics::CallMethod;

    struct Sampling {
        counters: Arc<AllocCounters>,
        call_metrics: Arc<CallMetrics>,
        recent_load: Arc<RecentLoad>,
        cancel: CancellationToken,
        task: JoinHandle<()>,
    }

    /// Starts to sample, and waits until the task has read the counters once.
    async fn start_sampling() -> Sampling {
        let (counters, call_metrics): (Arc<AllocCounters>, Arc<CallMetrics>) = Default::default();
        let recent_load = Arc::new(RecentLoad::default());
        let sampler = LoadSampler {
            counters: counters.clone(),
            call_metrics: call_metrics.clone(),
            recent_load: recent_load.clone(),
        };
        let cancel = CancellationToken::new();
        let task = tokio::spawn(sampler.run(cancel.clone()));
        sleep(Duration::from_millis(1)).await;
        Sampling {
            counters,
            call_metrics,
            recent_load,
            cancel,
            task,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn recent_load_has_the_last_five_minutes_newest_first() {
        let sampling = start_sampling().await;
        sleep(Duration::from_millis(1_000)).await;
        assert!(sampling.recent_load.samples().is_empty());
        sampling.counters.numbers_issued.add(6_000);
        let call_metrics = &sampling.call_metrics;
        call_metrics.record_calls(CallMethod::Next, Duration::from_micros(50), 1);
        call_metrics.record_calls(CallMethod::Routes, Duration::from_secs(9), 100);
        sleep(LOAD_SAMPLE_INTERVAL).await;
        let sample = sampling.recent_load.samples()[0];
        assert_eq!(sample.numbers_per_second, 3_000);
        assert!(sample.p99_us.is_some_and(|p99| p99 < 50), "{sample:?}");
        assert!((1_000..=1_002).contains(&sample.age_ms), "{sample:?}");
        sleep(LOAD_SAMPLE_INTERVAL).await;
        let samples = sampling.recent_load.samples();
        assert_eq!(
            (samples[0].numbers_per_second, samples[0].p99_us),
            (0, None)
        );
        assert_eq!(samples[1].numbers_per_second, 3_000);
        sleep(LOAD_SAMPLE_INTERVAL * 2 * LOAD_SAMPLES_MAX as u32).await;
        let samples = sampling.recent_load.samples();
        assert_eq!(samples.len(), LOAD_SAMPLES_MAX);
        assert!(samples.iter().all(|s| s.numbers_per_second == 0));
    }

    /// The process stops for 7.9 s, so that the next tick follows the late one after 98 ms.
    #[tokio::test(start_paused = true)]
    async fn calls_after_a_pause_are_no_peak() {
        let sampling = start_sampling().await;
        advance(Duration::from_millis(7_900)).await;
        sleep(Duration::from_millis(1)).await;
        let paused = sampling.recent_load.samples();
        assert_eq!(paused.len(), 1, "one sample has the whole pause");
        sampling.counters.numbers_issued.add(4_000);
        sleep(LOAD_SAMPLE_INTERVAL + Duration::from_millis(200)).await;
        let samples = sampling.recent_load.samples();
        assert_eq!(samples.len(), 2, "{samples:?}");
        let rate = samples[0].numbers_per_second;
        assert!((1_800..=2_000).contains(&rate), "{rate}");
    }

    #[tokio::test(start_paused = true)]
    async fn canceled_sampler_ends() {
        let sampling = start_sampling().await;
        sampling.cancel.cancel();
        let ended = timeout(Duration::from_secs(1), sampling.task).await;
        ended.expect("it ends before the next sample").unwrap();
    }
}
