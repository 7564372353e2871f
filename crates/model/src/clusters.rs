//! Clusters: the stores are wiped and made again as another cluster, while messages are on their
//! way and AllocSvrs of the first cluster still run. Each message names the cluster of its sender.
//!
//! Invariant (ADR 0016): a caller gets numbers of its own cluster only, and what an AllocSvr of one
//! cluster sends changes nothing in another.
//!
//! Schedules that break it, both with session ids and epochs that coincide, since both count from
//! 1 in each cluster:
//! - A caller of the first cluster keeps an address. An AllocSvr of the second takes the address
//!   and answers 1, which the first cluster handed out long ago.
//! - An AllocSvr outlives its stores. Its MoveSlot arrives at the stores of the second cluster, for
//!   a session and an epoch that are another's there. Its final lowers that one's max_seq below
//!   numbers that were handed out.

use crate::alloc_process::Alloc;
use crate::rules::Rule;
use crate::store::{Command, Reply, Store};
use crate::world::{Protocol, World, allow, spend};

/// A request on its way to the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sent {
    /// What it asks for.
    pub command: Command,
    /// The process that sent it.
    pub process: u8,
    /// The cluster that it names; 0 is none.
    pub cluster: u8,
}

/// An answer of a store on its way to an AllocSvr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Answer {
    /// What it says.
    pub reply: Reply,
    /// The process that asked.
    pub process: u8,
    /// The cluster of the store.
    pub cluster: u8,
}

impl Alloc {
    /// A process belongs to one cluster for its life: the first that it takes something from.
    pub(crate) fn join(&mut self, cluster: u8) {
        if self.cluster == 0 {
            self.cluster = cluster;
        }
    }
}

impl Protocol {
    /// The stores take a request, if they may, and answer.
    pub(crate) fn deliver(&self, world: &mut World, sent: Sent) -> Option<Answer> {
        let cluster = world.store.cluster;
        let own = sent.cluster == cluster || sent.cluster == 0;
        allow(own || !self.rules.has(Rule::RequestNamesCluster))?;
        let reply = self.commit(world, sent.command, world.raft.term)?;
        Some(Answer {
            reply,
            process: sent.process,
            cluster,
        })
    }

    /// May this AllocSvr take what a store of that cluster sends?
    pub(crate) fn takes_from(&self, alloc: &Alloc, cluster: u8) -> bool {
        let own = alloc.cluster == cluster || alloc.cluster == 0;
        own || !self.rules.has(Rule::ReplyNamesCluster)
    }

    /// May this AllocSvr serve a caller of that cluster? A forwarding AllocSvr is such a caller.
    pub(crate) fn serves(&self, alloc: &Alloc, cluster: u8) -> bool {
        alloc.cluster == cluster || !self.rules.has(Rule::CallNamesCluster)
    }

    /// The stores are wiped and made again at the same addresses. AllocSvrs and the network know
    /// nothing of it.
    pub(crate) fn make_again(&self, world: &mut World) -> Option<()> {
        allow(world.nodes.is_empty())?; // their memory would have to go as well
        spend(&mut world.spent.remakes, self.scenario.remakes)?;
        world.store = Store::empty(world.store.cluster + 1);
        Some(())
    }
}
