//! Replication and disk: the only crate that names openraft, raft-log, sled or bincode.
//!
//! Contents: a [`Node`] of one Raft group that replicates [`Batch`](seqsvr_core::command::Batch)es
//! and applies them to the [`State`](seqsvr_core::state::State). [`Options`] in, a cheap-clone
//! handle out.
//!
//! Path of the data: `propose` → openraft → `log` (durable on a quorum) → `machine` → `applied`
//! (memory, what readers see) → `rows` (sled) → replies. From time to time `snapshot` writes the
//! state to a file and the log below it is purged. `network` calls the other nodes, `service` is
//! called by them, `identity_check` and `sender` check their identity. `lost` finds a node that
//! lost what it acknowledged, `twin` a second process with this node's id, and `checkpoints` a node
//! whose state differs. `storage` opens a data directory and decides what in it can be trusted.
//! Log, vote, identity and snapshots are the truth: if one is damaged, the node refuses to start.
//! The rows are a shortcut, and rebuilt if in doubt.
//!
//! Not used here: sessions, leases, routing, the meaning of a command.

#[cfg(test)]
extern crate self as seqsvr_raft;

mod applied;
mod aside;
mod backfill;
pub mod backup;
mod binding;
mod builder;
mod calm;
mod checkpoints;
mod digest;
mod directory;
mod error;
mod founder;
mod frame;
mod gate;
mod identity;
mod lag;
mod leadership;
mod levels;
mod log;
mod lost;
mod machine;
#[cfg(sim)]
mod memory_rows;
mod network;
mod node;
mod options;
mod outlive;
mod received;
pub mod restore;
mod rot;
mod rows;
pub mod salvage;
mod sender;
mod service;
#[cfg(sim)]
pub mod sim;
mod snapshot;
mod storage;
#[cfg(test)]
mod tests;
mod transfer;
mod turns;
mod twin;
mod types;

pub use applied::AppliedPosition;
pub use error::{ConfirmError, Error, MemberError, ProposeError};
pub use identity::Identity;
pub use leadership::{Leadership, Role};
pub use node::{Member, Node, RaftCounters};
pub use options::Options;
pub use service::RaftService;

/// Longest address of a node, in bytes.
pub const ADDRESS_MAX: usize = 256;
/// Most members of a group, so that the stored membership stays under 4 KiB.
pub const MEMBERS_MAX: usize = 9;
/// Longest encoded batch, in bytes. The proposer stays under half of it.
pub const ENTRY_BYTES_MAX: usize = 128 << 10;
/// Most entries of one append call.
pub(crate) const ENTRIES_PER_APPEND: u64 = 64;
/// Bytes of entries in one append call; the last entry may pass it. Otherwise a call on a slow link
/// could take longer than its timeout, and the same entries would be sent again without an end.
pub(crate) const APPEND_BYTES_MAX: usize = 256 << 10;
