//! Plan of a run, and how it is drawn from a seed.

mod fault_class;
mod fault_draw;
mod fault_scenarios;
mod ids_draw;
mod plan_draw;
mod planned_fault;
mod run_plan;

pub use fault_class::FaultClass;
pub use ids_draw::draw_family;
pub use plan_draw::{draw_plan, draw_plan_with_classes};
pub use planned_fault::{
    FaultKind, FaultTarget, PartitionDirection, PartitionScope, PlannedFault, RowsCrashEffect,
};
pub use run_plan::{CallLoad, ClusterSetup, FamilySetup, RunPlan};
