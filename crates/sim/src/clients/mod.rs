//! Clients and operators of a run, and what they share with the world.

mod client_process;
mod cluster_operator;
mod holder_process;
mod load_caller;
mod replaceable_client;
mod rogue_alloc;
mod run_context;
mod unanswered_calls;

pub use client_process::run_client;
pub use holder_process::run_holder_on;
pub use run_context::{OperatorReport, RunContext, UIDS_PER_SECTION};
