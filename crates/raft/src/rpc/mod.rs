//! Calls between nodes: the client, and the checks before openraft gets a call.

pub(crate) mod ack_tracker;
pub(crate) mod duplicate_id;
pub(crate) mod identity_check;
pub(crate) mod lag_bound;
pub(crate) mod log_throttle;
pub(crate) mod peer_client;
pub(crate) mod peer_levels;
pub(crate) mod peer_network;
mod raft_network;
mod silence_log;
pub(crate) mod snapshot_receiver;
pub(crate) mod snapshot_transfer;
pub(crate) mod status;
