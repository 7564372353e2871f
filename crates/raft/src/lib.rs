//! Replication and disk: the only crate that names openraft, raft-log, sled or bincode.
//!
//! Contents: a [`RaftNode`] of one Raft group that replicates
//! [`Batch`](seqsvr_core::command::Batch)es and applies them to the
//! [`State`](seqsvr_core::state::State). [`Options`] in, a cheap-clone handle out.
//!
//! Path of the data: `RaftNode::propose` → openraft → `log` (durable on a quorum) →
//! `state::state_machine` → `state::applied_state` (memory, what readers see) → `state::sled_rows`
//! → replies. From time to time `state::snapshot` writes the state to a file and the log below it
//! is purged. `rpc::peer_client` calls the other nodes, `node::server` is called by them, and
//! `rpc::identity_check` checks the identity of each call. `rpc::ack_tracker` finds a node that
//! lost what it acknowledged, `rpc::duplicate_id` a second process with this node's id, and
//! `state::checkpoints` a node whose state differs. `open` opens a data directory and decides what
//! in it can be trusted; `backup` has what an operator does with a state outside of a node. Log,
//! vote, identity and snapshots are the truth: if one is damaged, the node refuses to start. The
//! rows are a shortcut, and rebuilt if in doubt.
//!
//! Not used here: sessions, leases, routing, the meaning of a command.

#[cfg(test)]
extern crate self as seqsvr_raft;

pub mod backup;
mod blocking;
mod detach_on_drop;
mod error;
mod limits;
mod log;
mod node;
mod open;
mod options;
mod record;
mod remedy;
mod rpc;
#[cfg(sim)]
mod runtime;
#[cfg(sim)]
pub mod sim;
mod state;
mod storage;
#[cfg(test)]
mod tests;
mod types;

pub use backup::{restore, salvage};
pub use error::{ConfirmError, Error, MemberError, ProposeError};
pub use limits::MEMBERS_MAX;
pub use node::leadership::{Leadership, RaftRole};
pub use node::server::RaftService;
pub use node::{GroupMember, RaftCounters, RaftNode};
pub use options::Options;
pub use state::applied_state::AppliedPosition;
pub use storage::identity::NodeIdentity;
