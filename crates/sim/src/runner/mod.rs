//! Runs plans: one, or many in a sweep.

mod branch_coverage;
mod plan_runner;
mod repeatability;
mod seed_sweep;

pub use plan_runner::run_plan_in_thread;
pub use repeatability::check_repeatability;
pub use seed_sweep::{SeedSweep, SweepOptions};
