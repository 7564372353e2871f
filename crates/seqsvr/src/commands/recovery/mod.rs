//! The commands `backup` and `restore`.

pub(super) mod backup;
pub(super) mod restore;
