//! Situations that scenarios must reach. A promise that is kept only because the schedule for it
//! never happens proves nothing.
//!
//! Invariant: a condition depends on the state alone. A memory of what has happened would multiply
//! the states.

use stateright::{Model, Property};

use crate::world::World;
use crate::world::store_command::{SessionId, StoreCommand};
use crate::world::store_node::{RenewalPosition, StoreNode};

/// A situation that a scenario must reach. [`Situation::to_property`] describes each.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Situation {
    SecondOwner,
    ReturnedProcess,
    OldObjectUnderLease,
    DeposedHoldsConfirmed,
    OldExpireProposed,
    OldAssignProposed,
    RenewalWhileExpiring,
    LateRaise,
    LateMark,
    GuardInSealed,
    TwoMoves,
    LateMove,
    FastRestart,
    TwoClusters,
    LateMoveOfOtherCluster,
}

impl Situation {
    /// Returns the situation as a property of the model: its description and its condition.
    pub(crate) fn to_property<M: Model<State = World>>(self) -> Property<M> {
        match self {
            Situation::SecondOwner => {
                Property::sometimes("two owners handed out numbers", |_, world| {
                    has_second_owner(world)
                })
            }
            Situation::ReturnedProcess => Property::sometimes(
                "the first process returned with a new session and handed out a number",
                |_, world| has_returned_process(world),
            ),
            Situation::OldObjectUnderLease => Property::sometimes(
                "a call holds a number of an old session while the new one has lease and slot",
                |_, world| has_old_object_under_lease(world),
            ),
            Situation::DeposedHoldsConfirmed => {
                Property::sometimes("a deposed leader holds a confirmed renewal", |_, world| {
                    has_confirmed_renewal(world, |node, _| node.term < world.log_end.term)
                })
            }
            Situation::OldExpireProposed => Property::sometimes(
                "a decision of an earlier term is appended in a later one",
                |_, world| has_old_expire(world),
            ),
            Situation::OldAssignProposed => Property::sometimes(
                "an Assign for an epoch that is over is appended",
                |_, world| has_old_assign(world),
            ),
            Situation::RenewalWhileExpiring => Property::sometimes(
                "a confirmed renewal finds its session being expired",
                |_, world| has_confirmed_renewal(world, StoreNode::is_expiring),
            ),
            Situation::LateRaise => {
                Property::sometimes("a Raise is late: its generation is over", |_, world| {
                    has_late_raise(world)
                })
            }
            Situation::LateMark => Property::sometimes(
                "a high-water mark is late: its generation is over and numbers of the next are handed out",
                |_, world| has_late_mark(world),
            ),
            Situation::GuardInSealed => Property::sometimes(
                "a section guard is inside a sealed section object",
                |_, world| has_guard_in_sealed(world),
            ),
            Situation::TwoMoves => Property::sometimes(
                "the slot went to the second process and back by planned moves",
                |_, world: &World| world.state.slot.epoch == 3 && world.state.slot.owner == 1,
            ),
            Situation::LateMove => Property::sometimes(
                "a MoveSlot of an earlier epoch may still arrive",
                |_, world| has_late_move(world),
            ),
            Situation::FastRestart => Property::sometimes(
                "a restarted process superseded its old session and handed out a number",
                |_, world: &World| has_served(world, 2) && world.processes[1].proof == 1,
            ),
            Situation::TwoClusters => {
                Property::sometimes("callers of both clusters received numbers", |_, world| {
                    has_two_clusters(world)
                })
            }
            Situation::LateMoveOfOtherCluster => Property::sometimes(
                "a MoveSlot of the first cluster may arrive in the second, \
                 which has that session and epoch",
                |_, world| has_late_move_of_other_cluster(world),
            ),
        }
    }
}

/// The greatest value shown to callers of the cluster that the stores belong to now.
fn highest_shown(world: &World) -> u8 {
    world.current_ledger().highest_shown
}

fn has_served(world: &World, session: SessionId) -> bool {
    let section = &world.state.section;
    let is_owner = world.state.slot.owner == session;
    is_owner && section.generation > 1 && highest_shown(world) > section.base
}

fn has_second_owner(world: &World) -> bool {
    let ledger = world.ledgers.of_cluster(1);
    has_served(world, 2) && (ledger.has_number(1) || ledger.has_number(2))
}

fn has_returned_process(world: &World) -> bool {
    let has_returned = world.processes[0].has_had_session(3) && world.state.slot.epoch > 2;
    has_served(world, 3) && has_returned
}

fn has_old_object_under_lease(world: &World) -> bool {
    let process = &world.processes[0];
    process.route.owner == 3 && process.calls.iter().any(|call| call.session == 1)
}

fn has_confirmed_renewal(world: &World, condition: impl Fn(&StoreNode, SessionId) -> bool) -> bool {
    world.renewals.iter().any(|renewal| match renewal.position {
        RenewalPosition::AtNode(node, Some(_)) => condition(&world.nodes[node], renewal.session),
        _ => false,
    })
}

fn has_old_expire(world: &World) -> bool {
    match world.log_end.uncommitted {
        Some((term, StoreCommand::ExpireSession { term: decided, .. })) => decided < term,
        _ => false,
    }
}

fn has_old_assign(world: &World) -> bool {
    match world.log_end.uncommitted {
        Some((_, StoreCommand::Assign { from, .. })) => from < world.state.slot.epoch,
        _ => false,
    }
}

fn has_late_raise(world: &World) -> bool {
    let current = world.state.section.generation;
    world.requests.iter().any(|request| match request.command {
        StoreCommand::Raise { generation, .. } => generation < current,
        _ => false,
    })
}

fn has_late_mark(world: &World) -> bool {
    let section = world.state.section;
    let is_late = |command| match command {
        StoreCommand::CloseSection { last, .. }
        | StoreCommand::MoveSlot { last, .. }
        | StoreCommand::CloseSession { last, .. } => {
            last.generation != 0 && last.generation < section.generation
        }
        _ => false,
    };
    let mut requests = world.requests.iter();
    highest_shown(world) > section.base && requests.any(|request| is_late(request.command))
}

fn has_guard_in_sealed(world: &World) -> bool {
    world.processes.iter().any(|process| {
        let objects = [process.object, process.older_object];
        let mut sealed = objects.into_iter().flatten().filter(|object| object.sealed);
        sealed.any(|object| process.has_guard_in(object.generation))
    })
}

fn has_late_move(world: &World) -> bool {
    let current = world.state.slot.epoch;
    world.requests.iter().any(|request| match request.command {
        StoreCommand::MoveSlot { epoch, .. } => epoch < current,
        _ => false,
    })
}

fn has_late_move_of_other_cluster(world: &World) -> bool {
    let state = &world.state;
    let mut requests = world.requests.iter();
    highest_shown(world) > 0
        && requests.any(|request| match request.command {
            StoreCommand::MoveSlot { session, epoch, .. } => {
                request.cluster < state.cluster && state.is_owner(session, epoch)
            }
            _ => false,
        })
}

fn has_two_clusters(world: &World) -> bool {
    let has_first = world.ledgers.of_cluster(1).highest_shown > 0;
    world.state.cluster == 2 && has_first && highest_shown(world) > 0
}
