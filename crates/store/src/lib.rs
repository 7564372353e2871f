//! StoreSvr: one member of the store group, its services and the arbiter.
//!
//! What lives here: the [`StoreServer`] (from [`Options`]); the [`proposer`], a bounded queue above
//! Raft that has one entry in flight while the next gathers; [`read_index`], leadership
//! confirmations shared by many requests; the [`arbiter`], a pure machine that expires silent
//! sessions and assigns free slots; the gRPC services `Store` and `Admin`, health and reflection.
//!
//! How data passes through:
//!
//! - A raise: `Submit` -> [`proposer::ProposalQueue`] -> one Raft entry with the commands of all
//!   callers -> applied -> its own reply.
//! - A keep-alive: `KeepAlive` -> a quorum round begun after it came in -> stamped under the
//!   arbiter's lock -> D and what the caller's routing table misses.
//! - A death: no stamp for W -> marked -> `ExpireSession` -> `Assign` -> pushed to every `Watch`.
//!
//! What it may not know: openraft, disks, and how an AllocSvr uses what it owns.

mod address_check;
pub mod arbiter;
pub mod clock;
mod connection_server;
mod context;
mod drivers;
mod error;
mod grpc_server;
mod metrics;
mod options;
pub mod proposer;
pub mod read_index;
mod rpc_errors;
mod service;
mod store_server;
mod store_time;

#[cfg(sim)]
pub use seqsvr_raft::sim;
/// Backup files and their restore, which belong to the replicated state.
pub use seqsvr_raft::{backup, restore, salvage};

pub use error::Error;
pub use options::Options;
pub use store_server::{StoreEnvironment, StoreServer};
