//! Work of operators on a cluster under load.

pub mod backup;
pub mod membership;
pub mod planned_moves;
pub mod rolling_restart;
