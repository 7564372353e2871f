//! StoreSvr nodes that lead, or lead in their own view: terms, the end of the log, the arbiter.
//!
//! Invariant (design 5.1, 5.2): while the lease of an owner holds, no leader has expired its
//! session.
//!
//! The schedules that would break it start with a leader that does not know what another leader
//! promised or decided. So the model has the memories of both nodes, and the nodes share only the
//! log.

use super::Protocol;
use super::guards::require;
use crate::parameters::{ClockBehavior, LEASE_TICKS, TAKEOVER_WAIT_TICKS};
use crate::rules::Rule;
use crate::world::World;
use crate::world::action::LeaderAction;
use crate::world::store_command::{SessionId, StoreCommand, session_bit};
use crate::world::store_node::{AppliedView, StoreNode};

impl Protocol {
    /// Takes one step of StoreSvr nodes and their log.
    pub(super) fn apply_leader_action(
        &self,
        world: &mut World,
        action: LeaderAction,
    ) -> Option<()> {
        match action {
            LeaderAction::Elect { node, keeps_entry } => self.elect(world, node, keeps_entry),
            LeaderAction::CommitFirstEntry => self.commit_first_entry(world),
            LeaderAction::CommitEntry => {
                require(world.nodes[world.log_end.leader].first_version != 0)?;
                let (term, command) = world.log_end.uncommitted.take()?;
                self.commit(world, command, term);
                Some(())
            }
            LeaderAction::LeadByReusedId { node } => self.lead_by_reused_id(world, node),
            LeaderAction::ApplyEntries { node } => {
                world.nodes[node].applied = AppliedView::from_state(&world.state);
                Some(())
            }
            LeaderAction::DecideExpire { node, session } => {
                self.decide_expire(&mut world.nodes[node], session)
            }
            LeaderAction::DecideAssign { node, session } => {
                self.decide_assign(&mut world.nodes[node], session)
            }
            LeaderAction::ForgetMarks { node } => {
                let node = &mut world.nodes[node];
                require(!self.rules.has(Rule::MarkSticks) && node.expiring != 0)?;
                node.expiring = 0;
                Some(())
            }
            LeaderAction::ProposeDecision { node } => self.propose_decision(world, node),
        }
    }

    /// Lets one tick pass for all. The overview of the crate says why one clock is enough.
    pub(super) fn advance_time(&self, world: &mut World) -> Option<()> {
        require(self.scenario.clocks == ClockBehavior::Bounded)?;
        let advance = |ticks: &mut u8, limit: u8| *ticks = (*ticks + 1).min(limit);
        for node in &mut world.nodes {
            advance(&mut node.ticks_since_election, TAKEOVER_WAIT_TICKS);
            for ticks in &mut node.ticks_since_stamp {
                advance(ticks, TAKEOVER_WAIT_TICKS);
            }
        }
        for process in &mut world.processes {
            advance(&mut process.lease_age, LEASE_TICKS);
        }
        for renewal in &mut world.renewals {
            advance(&mut renewal.age, LEASE_TICKS);
        }
        if self.rules.has(Rule::LeaseFromT0) {
            // An older renewal cannot extend a lease any more.
            world.renewals.retain(|renewal| renewal.age < LEASE_TICKS);
        }
        world.renewals.sort_unstable();
        Some(())
    }

    /// Elects a node. Timers belong to one term; what a task has decided does not go away.
    fn elect(&self, world: &mut World, node: usize, keeps_entry: bool) -> Option<()> {
        require(world.log_end.term < self.scenario.terms)?;
        world.log_end.term += 1;
        world.log_end.leader = node;
        if !keeps_entry {
            world.log_end.uncommitted.take()?;
        }
        // The deposed leader may decide anything, also what its timers would not permit yet: only
        // the timers of the newest leader matter.
        world.nodes.iter_mut().for_each(StoreNode::run_out_timers);
        let elected = &mut world.nodes[node];
        elected.term = world.log_end.term;
        elected.first_version = 0;
        elected.ticks_since_election = self.ticks_at_election();
        elected.expiring = 0;
        elected.earlier_round = None;
        self.forget_lost_renewals(world);
        Some(())
    }

    fn ticks_at_election(&self) -> u8 {
        if self.rules.has(Rule::WaitAfterElection) {
            0
        } else {
            TAKEOVER_WAIT_TICKS
        }
    }

    /// Commits the first entry of the newest term, and before it the entry that the leader has.
    fn commit_first_entry(&self, world: &mut World) -> Option<()> {
        let leader = world.log_end.leader;
        require(world.nodes[leader].first_version == 0)?;
        if let Some((term, command)) = world.log_end.uncommitted.take() {
            self.commit(world, command, term);
        }
        world.state.version += 1;
        world.nodes[leader].first_version = world.state.version;
        Some(())
    }

    /// A deposed leader whose id was given to the elected one finds that id in the newest vote, and
    /// leads the newest term without an election. A quorum answers its rounds, because the other
    /// nodes know a leader by its id only. What it appends is stored on no node.
    fn lead_by_reused_id(&self, world: &mut World, node: usize) -> Option<()> {
        require(!self.rules.has(Rule::SenderKnown))?;
        let deposed = &mut world.nodes[node];
        require(deposed.term != 0 && deposed.term < world.log_end.term)?;
        deposed.term = world.log_end.term;
        deposed.first_version = deposed.applied.version;
        deposed.run_out_timers();
        deposed.ticks_since_election = self.ticks_at_election();
        deposed.expiring = 0;
        deposed.earlier_round = None;
        Some(())
    }

    fn decide_expire(&self, node: &mut StoreNode, session: SessionId) -> Option<()> {
        self.require_arbiter(node, session)?;
        let wait = if self.rules.has(Rule::DriftMargin) {
            TAKEOVER_WAIT_TICKS
        } else {
            TAKEOVER_WAIT_TICKS - 1
        };
        let ticks_since_stamp = node.ticks_since_stamp[usize::from(session) - 1];
        require(self.scenario.is_timed(session))?;
        require(node.ticks_since_election >= wait && ticks_since_stamp >= wait)?;
        node.expiring |= session_bit(session);
        node.decided = Some(StoreCommand::ExpireSession {
            session,
            term: node.term,
        });
        Some(())
    }

    fn decide_assign(&self, node: &mut StoreNode, session: SessionId) -> Option<()> {
        self.require_arbiter(node, session)?;
        let slot = node.applied.slot;
        require(!node.applied.is_living(slot.owner))?;
        node.decided = Some(StoreCommand::Assign {
            from: slot.epoch,
            to: session,
        });
        Some(())
    }

    /// Returns `None` unless the arbiter of the node may decide something about a session.
    fn require_arbiter(&self, node: &StoreNode, session: SessionId) -> Option<()> {
        let is_idle = node.term != 0 && node.decided.is_none();
        require(is_idle && node.applied.is_living(session))?;
        let has_applied_first =
            node.first_version != 0 && node.applied.version >= node.first_version;
        require(has_applied_first || !self.rules.has(Rule::ArbiterFirstEntry))
    }

    fn propose_decision(&self, world: &mut World, node: usize) -> Option<()> {
        let is_elected = world.log_end.leader == node && world.is_leading(node);
        require(is_elected && world.nodes[node].first_version != 0)?;
        require(world.log_end.uncommitted.is_none())?;
        let command = world.nodes[node].decided.take()?;
        world.log_end.uncommitted = Some((world.log_end.term, command));
        Some(())
    }
}
