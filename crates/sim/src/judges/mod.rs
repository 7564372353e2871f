//! Judges of a run. A judge looks at the servers and changes nothing.

pub mod answer_judge;
pub mod id_judge;
pub mod invariant_judge;
pub mod liveness;
pub mod regression_judge;
pub mod rows_judge;
pub mod session_judge;
pub mod takeover_judge;
pub mod unexpected_stops;
