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
pub const BOUNDS: [Duration; 17] = [
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
/// Number of parts, so that few threads share one.
const PARTS: usize = 8;

/// Counts of durations.
#[derive(Debug, Default)]
pub struct Histogram([Part; PARTS]);

/// Aligned so that no two parts share a line or a pair of lines that processors fetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub fn observe(&self, took: Duration) {
        self.observe_each(took, 1);
    }

    /// Counts `n` observations of this duration each.
    pub fn observe_each(&self, took: Duration, n: u64) {
        let part = &self.0[mine()];
        let bucket = BOUNDS.partition_point(|bound| *bound < took);
        part.buckets[bucket].fetch_add(n, Relaxed);
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        part.sum_ns.fetch_add(ns.wrapping_mul(n), Relaxed);
    }

    /// Returns how many were observed.
    pub fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    fn counts(&self) -> [u64; BOUNDS.len() + 1] {
        std::array::from_fn(|at| {
            let parts = self.0.iter().map(|part| part.buckets[at].load(Relaxed));
            parts.sum()
        })
    }

    fn write(&self, encoder: &mut MetricEncoder) -> fmt::Result {
        let sum_ns = self.0.iter().map(|part| part.sum_ns.load(Relaxed));
        let sum = sum_ns.sum::<u64>() as f64 / 1e9;
        let counts = self.counts();
        let bounds = BOUNDS.iter().map(Duration::as_secs_f64);
        let buckets: Vec<_> = bounds.chain([f64::INFINITY]).zip(counts).collect();
        encoder.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
    }

    /// Writes the histogram for Prometheus; `name` ends in `_seconds`.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn encode(&self, name: &str, help: &str, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let kind = MetricType::Histogram;
        self.write(&mut encoder.encode_descriptor(name, help, None, kind)?)
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
            histogram.write(&mut encoder.encode_family(&[(label, value)])?)?;
        }
        Ok(())
    }
}

/// Returns the part of this thread.
fn mine() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    MINE.get().unwrap_or_else(|| {
        let mine = NEXT.fetch_add(1, Relaxed) % PARTS;
        MINE.set(Some(mine));
        mine
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_goes_to_the_first_bucket_that_has_room() {
        let histogram = Histogram::default();
        let us = Duration::from_micros;
        for took in [
            us(0),
            us(50),
            us(51),
            us(10_000_000),
            us(10_000_001),
            Duration::MAX,
        ] {
            histogram.observe(took);
        }
        let counts = histogram.counts();
        assert_eq!((counts[0], counts[1]), (2, 1));
        assert_eq!((counts[16], counts[17]), (1, 2));
        assert_eq!(histogram.count(), 6);
        assert!(BOUNDS.is_sorted());
    }

    #[test]
    fn threads_lose_nothing() {
        let histogram = Arc::new(Histogram::default());
        let threads: Vec<_> = (0..2 * PARTS)
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
        assert_eq!(histogram.counts()[6], 2_000 * PARTS as u64);
        let sum: u64 = histogram.0.iter().map(|c| c.sum_ns.load(Relaxed)).sum();
        assert_eq!(sum, 2_000 * PARTS as u64 * 3_000_000);
    }
}
