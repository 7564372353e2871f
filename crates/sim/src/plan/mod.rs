//! Plan of a run, and how it is drawn from a seed.

mod fault_draw;
mod fault_scenarios;
mod plan_draw;
mod run_plan;

pub use plan_draw::{FaultClass, RandomStream};
pub use run_plan::{
    CallLoad, ClusterSetup, FaultKind, FaultTarget, PartitionDirection, PartitionScope,
    PlannedFault, RowsCrashEffect, RunPlan,
};
