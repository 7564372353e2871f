//! Faults of a run: when each begins and ends, and its effects.

mod fault_effects;
mod fault_scheduler;
mod operator_command;

pub use fault_scheduler::{FaultScheduler, restart_ended_allocs};
pub use operator_command::OperatorCommand;
