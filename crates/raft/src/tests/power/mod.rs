//! Power cuts and failed syncs of a disk.

mod log_rotation;
pub(super) mod model;
mod power_cut;
pub(super) mod sync_failure;
