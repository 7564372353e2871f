//! Faults of a run: when each begins and ends, and its effects.

mod fault_effects;
mod fault_scheduler;

pub use fault_scheduler::{FaultScheduler, OperatorCommand, restart_ended_allocs};
