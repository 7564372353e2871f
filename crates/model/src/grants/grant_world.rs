//! The whole state of the model of grants.

use std::collections::BTreeSet;

use super::grant_action_counts::GrantActionCounts;
use super::grant_holder::GrantHolder;
use super::id_ledger::IdLedger;
use super::message::{HolderReply, HolderRequest};
use super::replicated_workers::ReplicatedWorkers;

/// The whole state: rows, holders, network, and what is judged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GrantWorld {
    /// The state after all committed commands.
    pub(crate) state: ReplicatedWorkers,
    /// Processes that make ids.
    pub(crate) holders: Vec<GrantHolder>,
    /// Requests that were sent. Any of them may still arrive, any number of times.
    pub(crate) requests: BTreeSet<HolderRequest>,
    /// Replies that were sent. Any of them may still arrive, any number of times.
    pub(crate) replies: BTreeSet<HolderReply>,
    /// What is judged.
    pub(crate) ledger: IdLedger,
    /// The limited actions that happened.
    pub(crate) spent: GrantActionCounts,
}
