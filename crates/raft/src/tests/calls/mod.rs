//! Calls between nodes, mostly with a leader that the test plays.

mod call_limits;
mod duplicate_id;
mod log_conflict;
mod log_loss;
mod openraft_regressions;
pub(super) mod scripted_leader;
