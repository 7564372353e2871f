//! The whole state of the model: machines, network, and what callers have seen.

pub(crate) mod action;
pub(crate) mod action_counts;
pub(crate) mod alloc_process;
pub(crate) mod caller_ledger;
pub(crate) mod message;
pub(crate) mod replicated_state;
pub(crate) mod store_command;
pub(crate) mod store_node;

use std::collections::BTreeSet;

use action_counts::ActionCounts;
use alloc_process::AllocProcess;
use caller_ledger::{CallerLedger, ClusterLedgers};
use message::{ReplyInFlight, RequestInFlight};
use replicated_state::ReplicatedState;
use store_node::{LogEnd, RenewalInFlight, StoreNode};

/// The whole state.
///
/// Invariant: an action does only what some machine could do at that moment with what it holds. No
/// machine acts on [`World::ledgers`], which only callers and the judgment of promises may read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// The state after all committed entries.
    pub(crate) state: ReplicatedState,
    /// The end of the log, and which node may write it.
    pub(crate) log_end: LogEnd,
    /// StoreSvr nodes that lead, or lead in their own view.
    pub(crate) nodes: Vec<StoreNode>,
    /// Renewals on their way.
    pub(crate) renewals: Vec<RenewalInFlight>,
    /// AllocSvr processes.
    pub(crate) processes: Vec<AllocProcess>,
    /// Requests that were sent. Any of them may still arrive, any number of times.
    pub(crate) requests: BTreeSet<RequestInFlight>,
    /// Replies that were sent. Any of them may still arrive, any number of times.
    pub(crate) replies: BTreeSet<ReplyInFlight>,
    /// What callers have seen.
    pub(crate) ledgers: ClusterLedgers,
    /// The limited actions that happened.
    pub(crate) spent: ActionCounts,
}

impl World {
    /// Returns whether a node leads the newest term, in its own view or not. Only the elected node
    /// has that term, and without `Rule::SenderKnown` a node with a reused id as well.
    pub(crate) fn is_leading(&self, node: usize) -> bool {
        self.nodes[node].term == self.log_end.term
    }

    /// Returns the ledger of the callers of the cluster that the stores belong to now.
    pub(crate) fn current_ledger(&self) -> &CallerLedger {
        self.ledgers.of_cluster(self.state.cluster)
    }
}
