//! The stores: they apply requests, and they may be wiped and become another cluster at the same
//! addresses while messages are on their way and AllocSvrs of the first cluster still run.
//!
//! Invariant (ADR 0016): a caller gets numbers of its own cluster only, and what an AllocSvr of one
//! cluster sends changes nothing in another.
//!
//! Schedules that break it, both with session ids and epochs that coincide, because both count from
//! 1 in each cluster:
//! - A caller of the first cluster keeps an address. An AllocSvr of the second takes the address
//!   and answers 1, which the first cluster handed out long ago.
//! - An AllocSvr outlives its stores. Its MoveSlot arrives at the stores of the second cluster, for
//!   a session and an epoch that belong to another process there. Its high-water mark lowers the
//!   max_seq of that process below numbers that were handed out.

use super::Protocol;
use super::guards::{count_action, require};
use crate::parameters::{ClockBehavior, LEASE_TICKS};
use crate::rules::Rule;
use crate::world::World;
use crate::world::action::StoresAction;
use crate::world::alloc_process::AllocProcess;
use crate::world::message::{ReplyInFlight, RequestInFlight};
use crate::world::replicated_state::{ApplyContext, ReplicatedState};
use crate::world::store_command::{SessionId, StoreCommand, StoreReply};

impl Protocol {
    /// Appends and commits a command in one step. Returns the reply that the leader would send.
    pub(super) fn commit(
        &self,
        world: &mut World,
        command: StoreCommand,
        term: u8,
    ) -> Option<StoreReply> {
        let context = ApplyContext {
            term,
            rules: self.rules,
            step: self.scenario.step,
            name_of_process: self.scenario.name_of_process,
        };
        let epoch = world.state.slot.epoch;
        let reply = world.state.apply(command, &context);
        if matches!(command, StoreCommand::MoveSlot { .. }) && world.state.slot.epoch > epoch {
            let section = world.state.section;
            let ledger = world.ledgers.of_cluster_mut(world.state.cluster);
            ledger.has_excess |= section.max > ledger.highest_counter.max(section.base);
        }
        reply
    }

    /// Applies a request, if the stores may take it, and returns the reply.
    pub(super) fn deliver_request(
        &self,
        world: &mut World,
        request: RequestInFlight,
    ) -> Option<ReplyInFlight> {
        let cluster = world.state.cluster;
        let is_own = request.cluster == cluster || request.cluster == 0;
        require(is_own || !self.rules.has(Rule::RequestNamesCluster))?;
        let reply = self.commit(world, request.command, world.log_end.term)?;
        Some(ReplyInFlight {
            reply,
            process: request.process,
            cluster,
        })
    }

    /// Takes one step of the stores, in scenarios without StoreSvr nodes.
    pub(super) fn apply_stores_action(
        &self,
        world: &mut World,
        action: StoresAction,
    ) -> Option<()> {
        match action {
            StoresAction::ExpireSession { session } => self.expire_session(world, session),
            StoresAction::AssignSlot { session } => self.assign_slot(world, session),
            StoresAction::BecomeNewCluster => self.become_new_cluster(world),
        }
    }

    /// Decides and commits an expiry in one step. With clocks unbounded, W may seem to have passed
    /// at any moment. Within the drift bound the arbiter acts when the lease is over, which the
    /// scenario `leases` checks.
    fn expire_session(&self, world: &mut World, session: SessionId) -> Option<()> {
        require(world.state.is_living(session))?;
        if self.scenario.clocks == ClockBehavior::Bounded {
            let has_lease = |process: &AllocProcess| {
                process.session == session && process.lease_age < LEASE_TICKS
            };
            require(self.scenario.is_timed(session) && !world.processes.iter().any(has_lease))?;
        }
        count_action(&mut world.spent.expiries, self.scenario.limits.expiries)?;
        let term = world.log_end.term;
        self.commit(world, StoreCommand::ExpireSession { session, term }, term);
        Some(())
    }

    /// Decides and commits an assignment of the slot in one step.
    fn assign_slot(&self, world: &mut World, session: SessionId) -> Option<()> {
        let is_free = !world.state.is_living(world.state.slot.owner);
        require(is_free && world.state.is_living(session))?;
        count_action(&mut world.spent.assigns, self.scenario.limits.assigns)?;
        let command = StoreCommand::Assign {
            from: world.state.slot.epoch,
            to: session,
        };
        self.commit(world, command, world.log_end.term);
        Some(())
    }

    /// Wipes the stores, which become another cluster at the same addresses. AllocSvrs and the
    /// network do not notice.
    fn become_new_cluster(&self, world: &mut World) -> Option<()> {
        require(world.nodes.is_empty())?; // the memory of nodes would have to be wiped as well
        let limit = self.scenario.limits.new_clusters;
        count_action(&mut world.spent.new_clusters, limit)?;
        world.state = ReplicatedState::new_cluster(world.state.cluster + 1);
        Some(())
    }
}
