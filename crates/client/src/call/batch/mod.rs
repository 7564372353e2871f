//! Calls about many keys.

pub(crate) mod execution;
mod single_owner;
