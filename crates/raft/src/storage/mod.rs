//! The data directory and the files in it.

pub(crate) mod data_dir;
pub(crate) mod first_error;
pub(crate) mod founder;
pub(crate) mod identity;
pub(crate) mod lock_binding;
pub(crate) mod usage_report;
