//! The actions that a state offers. Those that may not happen are rejected when they are applied.
//!
//! The order of the actions decides in which order states are visited, and so which shortest
//! schedule is found.

use super::Protocol;
use crate::parameters::ClockBehavior;
use crate::rules::Rule;
use crate::world::World;
use crate::world::action::{
    CallAction, LeaderAction, NetworkAction, ProcessAction, RenewalAction, SectionAction,
    SessionAction, StoresAction, WorldAction,
};
use crate::world::store_node::RenewalPosition;

impl Protocol {
    /// Adds each action that a state may offer.
    pub(super) fn list_actions(&self, world: &World, actions: &mut Vec<WorldAction>) {
        if self.scenario.clocks == ClockBehavior::Bounded {
            actions.push(WorldAction::Tick);
        }
        if self.scenario.nodes > 0 {
            self.list_leader_actions(world, actions);
            self.list_renewal_steps(world, actions);
        }
        self.list_stores_actions(world, actions);
        let requests = (0..world.requests.len())
            .map(|request| WorldAction::Network(NetworkAction::DeliverRequest { request }));
        actions.extend(requests);
        let replies = (0..world.replies.len())
            .map(|reply| WorldAction::Network(NetworkAction::DeliverReply { reply }));
        actions.extend(replies);
        for process in 0..world.processes.len() {
            self.list_process_actions(world, process, actions);
        }
    }

    fn list_stores_actions(&self, world: &World, actions: &mut Vec<WorldAction>) {
        let (spent, limits) = (&world.spent, &self.scenario.limits);
        let mut list = |action| actions.push(WorldAction::Stores(action));
        let sessions = 1..=world.state.newest_session;
        if spent.expiries < limits.expiries {
            for session in sessions.clone() {
                list(StoresAction::ExpireSession { session });
            }
        }
        if spent.assigns < limits.assigns {
            for session in sessions {
                list(StoresAction::AssignSlot { session });
            }
        }
        if spent.new_clusters < limits.new_clusters {
            list(StoresAction::BecomeNewCluster);
        }
    }

    fn list_leader_actions(&self, world: &World, actions: &mut Vec<WorldAction>) {
        let has_uncommitted = world.log_end.uncommitted.is_some();
        if world.nodes[world.log_end.leader].first_version == 0 {
            actions.push(WorldAction::Leader(LeaderAction::CommitFirstEntry));
        } else if has_uncommitted {
            actions.push(WorldAction::Leader(LeaderAction::CommitEntry));
        }
        for node in 0..world.nodes.len() {
            let mut list = |action| actions.push(WorldAction::Leader(action));
            if world.log_end.term < self.scenario.terms {
                list(LeaderAction::Elect {
                    node,
                    keeps_entry: true,
                });
                if has_uncommitted {
                    list(LeaderAction::Elect {
                        node,
                        keeps_entry: false,
                    });
                }
            }
            if !self.rules.has(Rule::SenderKnown) {
                list(LeaderAction::LeadByReusedId { node });
            }
            if world.nodes[node].applied.version < world.state.version {
                list(LeaderAction::ApplyEntries { node });
            }
            if world.nodes[node].decided.is_some() {
                list(LeaderAction::ProposeDecision { node });
            } else if world.nodes[node].term != 0 && self.may_yet_lead(world, node) {
                for session in 1..=world.state.newest_session {
                    list(LeaderAction::DecideExpire { node, session });
                    list(LeaderAction::DecideAssign { node, session });
                }
            }
            if !self.rules.has(Rule::MarkSticks) {
                list(LeaderAction::ForgetMarks { node });
            }
            self.list_renewal_starts(world, node, actions);
        }
    }

    /// Adds the confirmation by a node, and the renewals that processes may send to it.
    fn list_renewal_starts(&self, world: &World, node: usize, actions: &mut Vec<WorldAction>) {
        let mut list = |action| actions.push(WorldAction::Renewal(action));
        if world.is_leading(node) {
            list(RenewalAction::ConfirmLeadership { node });
        }
        for (process, sender) in world.processes.iter().enumerate() {
            if sender.session != 0 && self.scenario.is_timed(sender.session) {
                list(RenewalAction::SendRenewal { process, node });
            }
        }
    }

    /// Adds the next step of each renewal in flight.
    fn list_renewal_steps(&self, world: &World, actions: &mut Vec<WorldAction>) {
        for (renewal, sent) in world.renewals.iter().enumerate() {
            actions.push(WorldAction::Renewal(match sent.position {
                RenewalPosition::AtNode(..) => RenewalAction::StampRenewal { renewal },
                RenewalPosition::Stamped => RenewalAction::ExtendLease { renewal },
            }));
        }
    }

    fn list_process_actions(&self, world: &World, process: usize, actions: &mut Vec<WorldAction>) {
        use ProcessAction::{Call, Section, Session};

        let own = &world.processes[process];
        if !own.up {
            return;
        }
        let (spent, limits) = (&world.spent, &self.scenario.limits);
        let mut list = |is_possible: bool, action: ProcessAction| {
            if is_possible {
                actions.push(WorldAction::Process { process, action });
            }
        };
        let is_behind = own.route.epoch < world.state.slot.epoch;
        let has_object = own.object.is_some();
        let may_open = spent.opens < limits.opens && own.is_slot_owner();
        let may_raise = spent.raises < limits.raises && has_object;
        let may_close = spent.closes < limits.closes && has_object;
        list(is_behind, Session(SessionAction::LearnRoute));
        list(may_open, Section(SectionAction::OpenSection));
        list(may_raise, Section(SectionAction::RaiseSection));
        list(may_close, Section(SectionAction::CloseSection));
        list(
            spent.leaves < limits.leaves,
            Session(SessionAction::CloseSession),
        );
        list(
            spent.crashes < limits.crashes,
            Session(SessionAction::Crash),
        );
        list(has_object, Section(SectionAction::UnsealSection));
        list(has_object, Call(CallAction::CheckBeforeArrival));
        list(true, Session(SessionAction::RetryOpenSession));
        let may_move = spent.moves < limits.moves && own.is_slot_owner();
        let may_join = spent.sessions < limits.sessions;
        for session in 0..=world.state.newest_session {
            let proof = session;
            list(
                may_move && session != 0,
                Section(SectionAction::MoveSlot { to: session }),
            );
            list(may_join, Session(SessionAction::OpenSession { proof }));
        }
        let may_enter = has_object && own.calls.len() < self.scenario.calls_in_flight_max;
        for &operation in self.scenario.operations {
            for cluster in 1..=world.state.cluster {
                list(
                    may_enter,
                    Call(CallAction::EnterSection { operation, cluster }),
                );
            }
        }
        for (call, pending) in own.calls.iter().enumerate() {
            let holds_guard = pending.number.is_none();
            list(holds_guard, Call(CallAction::TakeNumber { call }));
            list(holds_guard, Call(CallAction::CheckBeforeTake { call }));
            list(!holds_guard, Call(CallAction::ArriveAfterTake { call }));
            list(!holds_guard, Call(CallAction::AnswerCall { call }));
            list(!holds_guard, Call(CallAction::DiscardNumber { call }));
        }
    }
}
