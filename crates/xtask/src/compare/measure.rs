//! Measures a case: both workloads in turn, for the given number of rounds.

use seqsvr_bench::ClusterCounters;

use super::cases::{Case, Target};
use super::error::CompareError;
use super::run_sample::RunSample;
use super::run_workload::{run_bench, run_workload, warm_up};
use super::testbed::Testbed;

/// All samples of a case: one of each workload per round.
pub(super) struct CaseResult {
    /// Samples of seqsvr.
    pub(super) measured: Vec<RunSample>,
    /// Samples of the reference; empty without one.
    pub(super) reference: Vec<RunSample>,
}

/// Runs both workloads of a case in turn. The one that runs first alternates.
pub(super) async fn measure_case(
    case: &Case,
    testbed: &mut Testbed,
    rounds: u32,
) -> Result<CaseResult, CompareError> {
    testbed.stop_all_except(&case.workloads());
    let mut result = CaseResult {
        measured: Vec::new(),
        reference: Vec::new(),
    };
    // A reference that is not installed is reported before time is spent on seqsvr.
    if let Some(reference) = case.reference {
        testbed.start(reference).await?;
    }
    if let Some((args, time)) = case.preparation {
        testbed.start(case.workload).await?;
        run_bench(testbed, args, None, time)?;
    }
    for workload in case.workloads() {
        warm_up(workload, testbed).await?;
    }
    for round in 0..rounds {
        let mut sides = vec![(case.workload, &mut result.measured)];
        sides.extend(case.reference.map(|side| (side, &mut result.reference)));
        if round % 2 == 1 {
            sides.reverse();
        }
        for (workload, samples) in sides {
            let sample = run_workload(workload, testbed).await?;
            eprintln!(
                "{} {}/{rounds}: {workload:?}: {:.0} per second",
                case.name,
                round + 1,
                sample.rate
            );
            samples.push(sample);
        }
    }
    Ok(result)
}

impl CaseResult {
    /// Returns the counters of the cluster, summed over all rounds of seqsvr; None if another
    /// generator than `seqsvr bench` made the load.
    ///
    /// # Errors
    /// A round has no counters, or not those of all processes.
    pub(super) fn sum_counters(&self) -> Result<Option<ClusterCounters>, CompareError> {
        let mut sum = None;
        for sample in &self.measured {
            if let Some(counters) = sample.cluster_counters()? {
                sum.get_or_insert_with(ClusterCounters::default)
                    .add(&counters);
            }
        }
        Ok(sum)
    }

    fn expect_counters(&self) -> Result<ClusterCounters, CompareError> {
        let missing = || CompareError::failed("the generator of the load reads no counters");
        self.sum_counters()?.ok_or_else(missing)
    }

    /// Returns the median over the rounds of the rate divided by that of the reference; NaN without
    /// rounds of both.
    pub(super) fn median_ratio(&self) -> f64 {
        let pairs = self.measured.iter().zip(&self.reference);
        median(pairs.map(|(measured, reference)| measured.rate / reference.rate))
    }

    /// Returns the value that a target is about: its median over the rounds.
    pub(super) fn target_value(&self, target: Target) -> Result<f64, CompareError> {
        match target {
            Target::RatioMin(_) => Ok(self.median_ratio()),
            Target::RateMin(_) => Ok(median(self.measured.iter().map(|s| s.rate))),
            Target::TailRatioMax(_) => {
                let tail = |sample: &RunSample| sample.bench_value("/latency_ns/p99.9");
                let pairs = self.measured.iter().zip(&self.reference);
                try_median(
                    pairs.map(|(measured, reference)| Ok(tail(measured)? / tail(reference)?)),
                )
            }
            Target::RaiseRateMin(_) => try_median(self.measured.iter().map(|sample| {
                let counters = sample.cluster_counters()?;
                let missing = || CompareError::failed("the load has no counters");
                let raises = counters.ok_or_else(missing)?.raises;
                Ok(raises as f64 / sample.bench_value("/seconds")?)
            })),
            Target::NumbersPerRaiseMin(_) => {
                let sum = self.expect_counters()?;
                Ok(sum.numbers_issued as f64 / sum.raises as f64)
            }
            Target::RaisesPerSyncMin(_) => {
                let sum = self.expect_counters()?;
                Ok(sum.raises as f64 / sum.fsyncs as f64)
            }
            Target::BytesPerKeyMax(_) => try_median(self.measured.iter().map(|sample| {
                let bytes = sample.resident_bytes;
                let bytes = bytes.ok_or_else(|| CompareError::failed("no memory was read"))?;
                Ok(bytes as f64 / sample.bench_value("/keys")?)
            })),
            Target::NoRefillWait => Ok(self.expect_counters()?.window_waits as f64),
        }
    }
}

fn try_median(
    values: impl Iterator<Item = Result<f64, CompareError>>,
) -> Result<f64, CompareError> {
    let values: Result<Vec<f64>, CompareError> = values.collect();
    Ok(median(values?.into_iter()))
}

/// Returns the median: the value in the middle, or the mean of the two in the middle; NaN of no
/// values.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_ignores_one_slow_round() {
        assert_eq!(median([3.0, 900.0, 1.0].into_iter()), 3.0);
        assert_eq!(median([4.0, 1.0, 2.0, 900.0].into_iter()), 3.0);
        let result = CaseResult {
            measured: [100.0, 10.0, 90.0].map(RunSample::from_rate).into(),
            reference: [50.0, 5.0, 900.0].map(RunSample::from_rate).into(),
        };
        let ratio = result.median_ratio();
        assert_eq!(ratio, 2.0);
        assert!(Target::RatioMin(2.0).is_reached_by(ratio));
        assert!(!Target::RatioMin(2.1).is_reached_by(ratio));
        assert!(!Target::NoRefillWait.is_reached_by(1.0));
    }

    #[test]
    fn missing_counter_fails_the_target_that_needs_it() {
        let sample = |cluster: serde_json::Value| RunSample {
            bench_report: Some(serde_json::json!({ "seconds": 2.0, "cluster": cluster })),
            ..RunSample::default()
        };
        let counters = ClusterCounters {
            numbers_issued: 600,
            raises: 6,
            fsyncs: 3,
            ..ClusterCounters::default()
        };
        let whole = serde_json::to_value(&counters).unwrap();
        let result = |cluster: &serde_json::Value| CaseResult {
            measured: vec![sample(cluster.clone())],
            reference: Vec::new(),
        };
        let targets = [
            (Target::NumbersPerRaiseMin(1.0), 100.0),
            (Target::RaisesPerSyncMin(1.0), 2.0),
            (Target::RaiseRateMin(1.0), 3.0),
            (Target::NoRefillWait, 0.0),
        ];
        for (target, value) in targets {
            assert_eq!(result(&whole).target_value(target).unwrap(), value);
            for name in ["numbers_issued", "raises", "fsyncs", "window_waits"] {
                let mut cut = whole.clone();
                cut.as_object_mut().unwrap().remove(name);
                let error = result(&cut).target_value(target).unwrap_err();
                assert!(error.into_text().contains(name), "{name}");
            }
            let mut partly = whole.clone();
            partly["silent"] = serde_json::json!(["a:1"]);
            let error = result(&partly).target_value(target).unwrap_err();
            assert!(error.into_text().contains("a:1"));
            let none = CaseResult {
                measured: vec![RunSample::from_rate(1.0)],
                reference: Vec::new(),
            };
            none.target_value(target).unwrap_err();
        }
    }
}
