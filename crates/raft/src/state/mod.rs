//! The applied state: in memory, as rows on sled, and as openraft's state machine.

pub(crate) mod applied_state;
pub(crate) mod backfill;
pub(crate) mod checkpoints;
pub(crate) mod digest;
#[cfg(sim)]
pub(crate) mod memory_rows;
mod quarantine;
pub(crate) mod sled_guard;
pub(crate) mod sled_rows;
pub(crate) mod snapshot;
pub(crate) mod snapshot_builder;
pub(crate) mod snapshot_turns;
pub(crate) mod state_disk;
pub(crate) mod state_machine;
