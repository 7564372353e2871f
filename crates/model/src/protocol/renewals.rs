//! Renewals of leases: the request, the quorum round that confirms it, the stamp, the lease
//! (design 5.1).
//!
//! Invariant: t0 comes before the round, the round before any later election, and a leader of the
//! round's own term makes the stamp. So every lease is over before W has passed from the stamp, and
//! from the election of any later leader.

use super::Protocol;
use super::guards::require;
use crate::rules::Rule;
use crate::world::World;
use crate::world::action::RenewalAction;
use crate::world::store_node::{QuorumRound, RenewalInFlight, RenewalPosition};

impl Protocol {
    /// Takes one step of a renewal.
    pub(super) fn apply_renewal_action(
        &self,
        world: &mut World,
        action: RenewalAction,
    ) -> Option<()> {
        match action {
            RenewalAction::SendRenewal { process, node } => {
                self.send_renewal(world, process, node)?;
            }
            RenewalAction::ConfirmLeadership { node } => self.confirm_leadership(world, node)?,
            RenewalAction::StampRenewal { renewal } => self.stamp_renewal(world, renewal)?,
            RenewalAction::ExtendLease { renewal } => self.extend_lease(world, renewal),
        }
        self.forget_lost_renewals(world);
        world.renewals.sort_unstable();
        Some(())
    }

    /// Forgets renewals that no node can stamp any more, which is as good as lost.
    pub(super) fn forget_lost_renewals(&self, world: &mut World) {
        if self.rules.has(Rule::Confirm) && self.rules.has(Rule::ConfirmAfterRequest) {
            let mut renewals = std::mem::take(&mut world.renewals);
            renewals.retain(|renewal| match renewal.position {
                RenewalPosition::AtNode(node, None) => self.may_yet_lead(world, node),
                RenewalPosition::AtNode(node, Some(round)) => {
                    round.term == world.nodes[node].term || !self.rules.has(Rule::StampInTerm)
                }
                RenewalPosition::Stamped => true,
            });
            world.renewals = renewals;
        }
    }

    /// Returns whether the node may still get an entry committed within the bounds.
    pub(super) fn may_yet_lead(&self, world: &World, node: usize) -> bool {
        world.is_leading(node) || world.log_end.term < self.scenario.terms
    }

    /// Sends a renewal. If the process has as many in flight as it may, its oldest one is lost.
    fn send_renewal(&self, world: &mut World, process: usize, node: usize) -> Option<()> {
        let is_own = |(_, renewal): &(usize, &RenewalInFlight)| renewal.process == process;
        let own = world.renewals.iter().enumerate().filter(is_own);
        if own.clone().count() == self.scenario.renewals_in_flight_max {
            let (oldest, _) = own.max_by_key(|(_, renewal)| renewal.age)?;
            world.renewals.remove(oldest);
        }
        world.renewals.push(RenewalInFlight {
            process,
            session: world.processes[process].session,
            age: 0,
            position: RenewalPosition::AtNode(node, world.nodes[node].earlier_round),
        });
        Some(())
    }

    /// A quorum answers a round of the node, which confirms all renewals that came before it.
    fn confirm_leadership(&self, world: &mut World, node: usize) -> Option<()> {
        let has_first_entry = world.nodes[node].first_version != 0;
        require(has_first_entry || !self.rules.has(Rule::ReadFirstEntry))?;
        let round = Some(QuorumRound {
            term: world.log_end.term,
            index: world.state.version,
        });
        for renewal in &mut world.renewals {
            if renewal.position == RenewalPosition::AtNode(node, None) {
                renewal.position = RenewalPosition::AtNode(node, round);
            }
        }
        if !self.rules.has(Rule::ConfirmAfterRequest) {
            world.nodes[node].earlier_round = round;
        }
        Some(())
    }

    fn stamp_renewal(&self, world: &mut World, renewal: usize) -> Option<()> {
        let RenewalPosition::AtNode(node, round) = world.renewals[renewal].position else {
            return None;
        };
        let session = world.renewals[renewal].session;
        let is_leading = world.is_leading(node);
        let node = &mut world.nodes[node];
        let round = if self.rules.has(Rule::Confirm) {
            round?
        } else {
            QuorumRound {
                term: node.term,
                index: 0,
            }
        };
        let has_applied = node.applied.version >= round.index;
        let is_living = node.applied.is_living(session);
        require(node.term != 0)?;
        require(node.term == round.term || !self.rules.has(Rule::StampInTerm))?;
        require(has_applied || !self.rules.has(Rule::ReadIndexApplied))?;
        require(is_living || !self.rules.has(Rule::SessionExists))?;
        require(!node.is_expiring(session) || !self.rules.has(Rule::RejectWhileExpiring))?;
        if is_leading {
            node.ticks_since_stamp[usize::from(session) - 1] = 0;
        }
        world.renewals[renewal].position = RenewalPosition::Stamped;
        // Counted from t0, an early reply allows all that a late one does.
        if self.rules.has(Rule::LeaseFromT0) {
            self.extend_lease(world, renewal);
        }
        Some(())
    }

    fn extend_lease(&self, world: &mut World, renewal: usize) {
        let renewal = world.renewals.remove(renewal);
        let process = &mut world.processes[renewal.process];
        if process.session == renewal.session {
            let is_from_t0 = self.rules.has(Rule::LeaseFromT0);
            let age = if is_from_t0 { renewal.age } else { 0 };
            process.lease_age = process.lease_age.min(age);
        }
    }
}
