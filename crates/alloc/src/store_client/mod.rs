//! Calls to the StoreSvr group.

pub(crate) mod cluster_votes;
pub(crate) mod cluster_watch;
pub(crate) mod command_queue;
mod open_attempt;
pub(crate) mod ownership_verifier;
pub(crate) mod refusal;
pub(crate) mod section_reader;
pub(crate) mod store_group;
mod store_preference;
pub(crate) mod unavailable;
