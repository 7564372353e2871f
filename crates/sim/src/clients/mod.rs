//! Clients and operators of a run, and what they share with the world.

mod client_process;
mod cluster_operator;
mod run_context;

pub use client_process::run_client;
pub use cluster_operator::UIDS_PER_SECTION;
pub use run_context::{OperatorReport, RunContext};
