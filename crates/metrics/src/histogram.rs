//! Durations, counted in fixed buckets.
//!
//! An observation is two additions to a line of memory that the thread mostly has to itself: no
//! lock, no allocation.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Upper bounds of the buckets; one more bucket takes longer durations.
pub const BUCKET_BOUNDS: [Duration; 17] = [
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
];
/// Counts of observations by bucket; the last one is that of longer durations.
pub type BucketCounts = [u64; BUCKET_BOUNDS.len() + 1];
/// Number of shards of a histogram, so that few threads share one.
const SHARDS: usize = 8;

/// Counts of durations.
#[derive(Debug, Default)]
pub struct Histogram([HistogramShard; SHARDS]);

/// Counts of some threads. Aligned so that no two shards share a cache line, or a pair of cache
/// lines that processors fetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct HistogramShard {
    buckets: [AtomicU64; BUCKET_BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub fn observe(&self, duration: Duration) {
        self.observe_many(duration, 1);
    }

    /// Counts `n` observations of this duration each.
    pub fn observe_many(&self, duration: Duration, n: u64) {
        let shard = &self.0[thread_shard_index()];
        let bucket = BUCKET_BOUNDS.partition_point(|bound| *bound < duration);
        shard.buckets[bucket].fetch_add(n, Relaxed);
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        shard.sum_ns.fetch_add(ns.wrapping_mul(n), Relaxed);
    }

    /// Returns how many were observed.
    pub fn count(&self) -> u64 {
        self.bucket_counts().iter().sum()
    }

    /// Returns how many were observed in each bucket.
    pub fn bucket_counts(&self) -> BucketCounts {
        std::array::from_fn(|bucket| {
            let loads = self
                .0
                .iter()
                .map(|shard| shard.buckets[bucket].load(Relaxed));
            loads.sum()
        })
    }

    fn encode_value(&self, encoder: &mut MetricEncoder) -> fmt::Result {
        let sum_ns = self.0.iter().map(|shard| shard.sum_ns.load(Relaxed));
        let sum = sum_ns.sum::<u64>() as f64 / 1e9;
        let counts = self.bucket_counts();
        let bounds = BUCKET_BOUNDS.iter().map(Duration::as_secs_f64);
        let buckets: Vec<_> = bounds.chain([f64::INFINITY]).zip(counts).collect();
        encoder.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
    }

    /// Writes the histogram for Prometheus; `name` ends in `_seconds`.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn encode(&self, name: &str, help: &str, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let kind = MetricType::Histogram;
        self.encode_value(&mut encoder.encode_descriptor(name, help, None, kind)?)
    }

    /// Writes several histograms that differ by the value of a label.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn encode_all<'a>(
        all: impl Iterator<Item = (&'static str, &'a Histogram)>,
        name: &str,
        label: &'static str,
        help: &str,
        encoder: &mut DescriptorEncoder,
    ) -> fmt::Result {
        let kind = MetricType::Histogram;
        let mut encoder = encoder.encode_descriptor(name, help, None, kind)?;
        for (value, histogram) in all {
            histogram.encode_value(&mut encoder.encode_family(&[(label, value)])?)?;
        }
        Ok(())
    }
}

/// Returns an estimate of the duration that a part of the observations (0 to 1) does not exceed:
/// linear within a bucket, and at most the greatest bound. None: there is no observation.
pub fn estimate_quantile(counts: &BucketCounts, part: f64) -> Option<Duration> {
    let rank = counts.iter().sum::<u64>() as f64 * part;
    let mut below = 0.0;
    let mut lower = Duration::ZERO;
    for (upper, count) in BUCKET_BOUNDS.iter().zip(counts) {
        let count = *count as f64;
        if count > 0.0 && below + count >= rank {
            return Some(lower + (*upper - lower).mul_f64((rank - below) / count));
        }
        below += count;
        lower = *upper;
    }
    (rank > 0.0).then_some(lower)
}

/// Returns the index of this thread's shard.
fn thread_shard_index() -> usize {
    static NEXT_INDEX: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD_INDEX: Cell<Option<usize>> = const { Cell::new(None) };
    }
    SHARD_INDEX.get().unwrap_or_else(|| {
        let index = NEXT_INDEX.fetch_add(1, Relaxed) % SHARDS;
        SHARD_INDEX.set(Some(index));
        index
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn histogram_counts_duration_in_first_bucket_that_is_not_below_it() {
        let histogram = Histogram::default();
        let us = Duration::from_micros;
        for duration in [
            us(0),
            us(50),
            us(51),
            us(10_000_000),
            us(10_000_001),
            Duration::MAX,
        ] {
            histogram.observe(duration);
        }
        let counts = histogram.bucket_counts();
        assert_eq!((counts[0], counts[1]), (2, 1));
        assert_eq!((counts[16], counts[17]), (1, 2));
        assert_eq!(histogram.count(), 6);
        assert!(BUCKET_BOUNDS.is_sorted());
    }

    #[test]
    fn quantile_lies_in_the_bucket_of_its_rank() {
        let us = Duration::from_micros;
        let mut counts = BucketCounts::default();
        assert_eq!(estimate_quantile(&counts, 0.99), None);
        counts[0] = 100;
        assert_eq!(estimate_quantile(&counts, 0.5), Some(us(25)));
        counts[2] = 100;
        assert_eq!(estimate_quantile(&counts, 0.5), Some(us(50)));
        assert_eq!(estimate_quantile(&counts, 0.99), Some(us(247)));
        counts[17] = 10_000;
        assert_eq!(
            estimate_quantile(&counts, 0.99),
            Some(Duration::from_secs(10))
        );
    }

    #[test]
    fn histogram_loses_no_observation_of_concurrent_threads() {
        let histogram = Arc::new(Histogram::default());
        let threads: Vec<_> = (0..2 * SHARDS)
            .map(|_| {
                let histogram = histogram.clone();
                std::thread::spawn(move || {
                    (0..1_000).for_each(|_| histogram.observe(Duration::from_millis(3)));
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(histogram.bucket_counts()[6], 2_000 * SHARDS as u64);
        let sum: u64 = histogram.0.iter().map(|c| c.sum_ns.load(Relaxed)).sum();
        assert_eq!(sum, 2_000 * SHARDS as u64 * 3_000_000);
    }
}
