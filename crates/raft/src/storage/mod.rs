//! The data directory and the files in it.

pub mod backup;
pub(crate) mod data_dir;
pub(crate) mod founder;
pub(crate) mod identity;
pub(crate) mod lock_binding;
pub(crate) mod open;
pub(crate) mod record;
pub mod restore;
pub mod salvage;
pub(crate) mod snapshot;
pub(crate) mod usage_report;
