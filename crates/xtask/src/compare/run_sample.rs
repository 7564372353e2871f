//! Result of one run of a workload.

use seqsvr_bench::ClusterCounters;
use serde_json::Value;

use super::error::CompareError;

/// Measured values of one run of a workload.
#[derive(Clone, Debug, Default)]
pub(super) struct RunSample {
    /// Numbers per second.
    pub(super) rate: f64,
    /// Flushes of the disk per second, over the whole run; None if the kernel does not count them.
    pub(super) flush_rate: Option<f64>,
    /// Resident bytes of the AllocSvr after the run; None for other systems.
    pub(super) resident_bytes: Option<u64>,
    /// Report of `seqsvr bench`; None for other generators.
    pub(super) bench_report: Option<Value>,
}

impl RunSample {
    /// Makes the sample of a generator that reports a rate only.
    pub(super) fn from_rate(rate: f64) -> RunSample {
        RunSample {
            rate,
            ..RunSample::default()
        }
    }

    /// Returns a number of the report of `seqsvr bench` by its JSON pointer.
    pub(super) fn bench_value(&self, pointer: &str) -> Result<f64, CompareError> {
        let report = self.bench_report.as_ref();
        let value = report.and_then(|report| report.pointer(pointer)?.as_f64());
        let missing = || CompareError::Failed(format!("the report of bench has no {pointer}"));
        value.ok_or_else(missing)
    }

    /// Returns the counters of the cluster; None for other generators than `seqsvr bench`.
    ///
    /// # Errors
    /// The report of `seqsvr bench` has no or other counters, or a process did not answer.
    pub(super) fn cluster_counters(&self) -> Result<Option<ClusterCounters>, CompareError> {
        let Some(report) = &self.bench_report else {
            return Ok(None);
        };
        let counters = serde_json::from_value(report["cluster"].clone());
        let counters: ClusterCounters = counters.map_err(|e| {
            CompareError::Failed(format!("the report of bench has no counters: {e}"))
        })?;
        match counters.silent.is_empty() {
            true => Ok(Some(counters)),
            false => Err(CompareError::Failed(format!(
                "no counters of {}",
                counters.silent.join(", ")
            ))),
        }
    }
}
