//! The commands `backup` and `restore`.

pub(super) mod backup;
mod namespace_rates;
pub(super) mod restore;
