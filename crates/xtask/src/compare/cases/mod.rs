//! The cases: which workloads are compared, and the targets that this project sets itself.

mod grpc_cases;
mod resp_cases;
mod system_cases;
mod write_cases;

use std::time::Duration;

use super::workload::Workload;

/// A workload of seqsvr, and the workload that it is compared with.
pub(super) struct Case {
    /// Name on the command line and in the table.
    pub(super) name: &'static str,
    /// Both workloads in one line.
    pub(super) about: &'static str,
    /// Workload of seqsvr.
    pub(super) workload: Workload,
    /// Workload that it is compared with; None: only the writes of seqsvr are of interest.
    pub(super) reference: Option<Workload>,
    /// Arguments of `seqsvr bench` that touches keys before the first round, and its time.
    pub(super) preparation: Option<(&'static str, Duration)>,
    /// What seqsvr should reach.
    pub(super) targets: &'static [Target],
}

/// A value that seqsvr should reach. A missed target is reported; the command succeeds, because
/// machines differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// Minimum numbers per second, divided by those of the reference in the same round.
    RatioMin(f64),
    /// Minimum numbers per second.
    RateMin(f64),
    /// Maximum p99.9, divided by that of the reference in the same round.
    TailRatioMax(f64),
    /// Minimum raises per second.
    RaiseRateMin(f64),
    /// Minimum numbers for each raise.
    NumbersPerRaiseMin(f64),
    /// Minimum raises for each sync of a store's log.
    RaisesPerSyncMin(f64),
    /// Maximum resident bytes of the AllocSvr for each key.
    BytesPerKeyMax(f64),
    /// No call waits for a refill.
    NoRefillWait,
}

impl Target {
    /// Returns whether a measured value reaches the target.
    pub(super) fn is_reached_by(self, value: f64) -> bool {
        match self {
            Target::RatioMin(min)
            | Target::RateMin(min)
            | Target::RaiseRateMin(min)
            | Target::NumbersPerRaiseMin(min)
            | Target::RaisesPerSyncMin(min) => value >= min,
            Target::TailRatioMax(max) | Target::BytesPerKeyMax(max) => value <= max,
            Target::NoRefillWait => value == 0.0,
        }
    }
}

impl Case {
    /// Returns both workloads, that of seqsvr first.
    pub(super) fn workloads(&self) -> Vec<Workload> {
        [self.workload].into_iter().chain(self.reference).collect()
    }
}

/// All cases, in the order of the table.
const GROUPS: [&[Case]; 4] = [
    grpc_cases::CASES,
    resp_cases::CASES,
    system_cases::CASES,
    write_cases::CASES,
];

const NEXT_1024: Workload = Workload::Bench("--in-flight 1024");
const NEXT_64: Workload = Workload::Bench("--in-flight 64");

/// Returns the names and descriptions of the cases, one per line.
pub(super) fn list_cases() -> String {
    let width = all_cases().map(|case| case.name.len()).max();
    let width = width.unwrap_or_default();
    let to_line = |case: &Case| format!("{:width$}  {}\n", case.name, case.about);
    all_cases().map(to_line).collect()
}

/// Returns the cases with these names, or all cases if there are no names.
///
/// # Errors
/// No case has one of the names. The text lists the cases.
pub(super) fn select_cases(names: &[String]) -> Result<Vec<&'static Case>, String> {
    let is_unknown = |name: &&String| all_cases().all(|case| case.name != **name);
    if let Some(unknown) = names.iter().find(is_unknown) {
        let list = list_cases();
        return Err(format!(
            "no case has the name {unknown}; choose one of:\n{list}"
        ));
    }
    let is_selected = |case: &&Case| names.is_empty() || names.iter().any(|name| name == case.name);
    Ok(all_cases().filter(is_selected).collect())
}

fn all_cases() -> impl Iterator<Item = &'static Case> {
    GROUPS.into_iter().flatten()
}
