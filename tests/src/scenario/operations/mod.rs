//! Work of operators on a cluster under load.

pub mod backup;
mod family_ids;
pub mod membership;
pub mod planned_moves;
pub mod rolling_restart;
