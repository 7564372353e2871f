//! Judges of a run. A judge looks at the servers and changes nothing.

pub mod live;
pub mod online;
pub mod regress;
pub mod rows;
pub mod state;
pub mod stops;
pub mod takeover;
