//! Processes and disks that fail.

pub mod deposed_owner;
pub mod disk_faults;
pub mod fast_restart;
pub mod full_outage;
pub mod ids;
pub mod owner_killed;
pub mod paused_processes;
pub mod store_killed;
