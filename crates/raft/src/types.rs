//! openraft's types with our types in them.
//!
//! Standard Raft: at most one leader a term, so a log id is (term, index).

use std::fmt;
use std::sync::Arc;

use openraft::vote::RaftLeaderId;
use seqsvr_core::command::{Batch, Command, Reply};
use serde::{Deserialize, Serialize};

use crate::record::HasFormatLevel;

openraft::declare_raft_types!(
    /// Our instance of openraft.
    pub(crate) TypeConfig:
        D = Proposal,
        R = Vec<Reply>,
        NodeId = u64,
        Node = Peer,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
        AsyncRuntime = Runtime,
);

#[cfg(sim)]
pub(crate) use crate::runtime::Runtime;
#[cfg(not(sim))]
pub(crate) type Runtime = openraft::impls::TokioRuntime;

pub(crate) type LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>;
pub(crate) type CommittedLeaderId = <LeaderId as RaftLeaderId>::Committed;
pub(crate) type LogId = openraft::LogId<CommittedLeaderId>;
pub(crate) type Vote = openraft::Vote<LeaderId>;
pub(crate) type Payload = openraft::EntryPayload<Proposal, u64, Peer>;
pub(crate) type Entry = openraft::Entry<CommittedLeaderId, Payload>;
pub(crate) type StoredMembership = openraft::StoredMembership<CommittedLeaderId, u64, Peer>;
pub(crate) type Membership = openraft::Membership<u64, Peer>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<CommittedLeaderId, u64, Peer>;

/// A node and the incarnation of its directory.
pub(crate) type PeerId = (u64, u64);

/// A batch in the log; cloned for every reader of the log, so it is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal(pub(crate) Arc<Batch>);

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commands", self.0.commands.len())
    }
}

impl Serialize for Proposal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Batch::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Proposal {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Batch::deserialize(deserializer).map(|batch| Proposal(Arc::new(batch)))
    }
}

impl HasFormatLevel for LogId {}
impl HasFormatLevel for Vote {}

impl HasFormatLevel for Payload {
    fn format_level(&self) -> u32 {
        match self {
            Payload::Blank | Payload::Membership(_) => 1,
            Payload::Normal(proposal) => {
                let levels = proposal.0.commands.iter().map(Command::format_level);
                levels.max().unwrap_or(1)
            }
        }
    }
}

/// A node in the membership.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    /// Where the other nodes reach it, `host:port`.
    pub(crate) address: String,
    /// Random number of its data directory.
    pub(crate) incarnation: u64,
}
