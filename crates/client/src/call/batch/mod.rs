//! Calls about many keys.

pub(crate) mod execution;
mod owner_batch;
mod owner_split;
mod single_owner;
