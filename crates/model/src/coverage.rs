//! Situations that scenarios must reach, so that their promises are not kept for want of trying.
//!
//! Invariant: a condition is read off the state alone; a memory of what has happened would
//! multiply the states.

use stateright::Property;

use crate::leaders::Way;
use crate::store::{Command, Sid};
use crate::world::{Protocol, World};

/// A situation that a scenario must reach.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    name: &'static str,
    condition: fn(&Protocol, &World) -> bool,
}

impl Reached {
    /// As a property of the model.
    pub fn property(self) -> Property<Protocol> {
        Property::sometimes(self.name, self.condition)
    }
}

/// The greatest value shown to callers of the cluster that the stores belong to now.
fn shown(world: &World) -> u8 {
    world.ledgers.of(world.store.cluster).shown
}

fn answered_by(world: &World, sid: Sid) -> bool {
    world.store.slot.owner == sid
        && world.store.section.generation > 1
        && shown(world) > world.store.section.base
}

pub(crate) const SECOND_OWNER: Reached = Reached {
    name: "two owners handed out numbers",
    condition: |_, world| answered_by(world, 2) && world.ledgers.of(1).handed & 0b110 != 0,
};
pub(crate) const BACK_AGAIN: Reached = Reached {
    name: "the first process came back with a new session and handed out a number",
    condition: |_, world| {
        answered_by(world, 3) && world.allocs[0].had(3) && world.store.slot.epoch > 2
    },
};
pub(crate) const OLD_OBJECT_WHILE_LEASED: Reached = Reached {
    name: "a call holds a number of an old session while the new one has lease and slot",
    condition: |_, world| {
        let alloc = &world.allocs[0];
        alloc.route.owner == 3 && alloc.calls.iter().any(|call| call.sid == 1)
    },
};
pub(crate) const DEPOSED_HOLDS_CONFIRMED: Reached = Reached {
    name: "a deposed leader holds a confirmed renewal",
    condition: |_, world| {
        world.renewals.iter().any(|renewal| match renewal.way {
            Way::At(node, Some(_)) => world.nodes[node].term < world.raft.term,
            _ => false,
        })
    },
};
pub(crate) const OLD_DECISION_PROPOSED: Reached = Reached {
    name: "a decision of an earlier term is appended in a later one",
    condition: |_, world| matches!(world.raft.tail, Some((term, Command::ExpireSession { term: decided, .. })) if decided < term),
};
pub(crate) const OLD_ASSIGN_PROPOSED: Reached = Reached {
    name: "an Assign for an epoch that is over is appended",
    condition: |_, world| matches!(world.raft.tail, Some((_, Command::Assign { from, .. })) if from < world.store.slot.epoch),
};
pub(crate) const RENEWAL_WHILE_EXPIRING: Reached = Reached {
    name: "a confirmed renewal finds its session being expired",
    condition: |_, world| {
        world.renewals.iter().any(|renewal| match renewal.way {
            Way::At(node, Some(_)) => world.nodes[node].expiring & 1 << renewal.sid != 0,
            _ => false,
        })
    },
};
pub(crate) const LATE_RAISE: Reached = Reached {
    name: "a Raise is late: its generation is over",
    condition: |_, world| {
        let current = world.store.section.generation;
        world
            .sent
            .iter()
            .any(|sent| matches!(sent.command, Command::Raise { generation, .. } if generation < current))
    },
};
pub(crate) const LATE_FINAL: Reached = Reached {
    name: "a final is late: its generation is over and numbers of the next are handed out",
    condition: |_, world| {
        let section = world.store.section;
        shown(world) > section.base
            && world.sent.iter().any(|sent| match sent.command {
                Command::CloseSection { last, .. }
                | Command::MoveSlot { last, .. }
                | Command::CloseSession { last, .. } => {
                    last.generation != 0 && last.generation < section.generation
                }
                _ => false,
            })
    },
};
pub(crate) const ADDER_IN_SEALED: Reached = Reached {
    name: "an adder is inside a sealed section object",
    condition: |_, world| {
        world.allocs.iter().any(|alloc| {
            let sealed = |generation| {
                let objects = [alloc.object, alloc.older];
                objects
                    .iter()
                    .flatten()
                    .any(|object| object.sealed && object.generation == generation)
            };
            alloc
                .calls
                .iter()
                .any(|call| call.number.is_none() && sealed(call.generation))
        })
    },
};
pub(crate) const TWO_MOVES: Reached = Reached {
    name: "the slot went to the second process and back by planned moves",
    condition: |_, world| world.store.slot.epoch == 3 && world.store.slot.owner == 1,
};
pub(crate) const STALE_MOVE: Reached = Reached {
    name: "a MoveSlot of an earlier epoch may still arrive",
    condition: |_, world| {
        let now = world.store.slot.epoch;
        world
            .sent
            .iter()
            .any(|sent| matches!(sent.command, Command::MoveSlot { epoch, .. } if epoch < now))
    },
};
pub(crate) const FAST_RESTART: Reached = Reached {
    name: "a restarted process superseded its old session and handed out a number",
    condition: |_, world| answered_by(world, 2) && world.allocs[1].proof == 1,
};
pub(crate) const TWO_CLUSTERS: Reached = Reached {
    name: "callers of both clusters got numbers",
    condition: |_, world| {
        world.store.cluster == 2 && world.ledgers.of(1).shown > 0 && shown(world) > 0
    },
};
pub(crate) const LATE_OF_OTHER_CLUSTER: Reached = Reached {
    name: "a MoveSlot of the first cluster may arrive in the second, which has that session and epoch",
    condition: |_, world| {
        let store = &world.store;
        world.sent.iter().any(|sent| {
            matches!(sent.command, Command::MoveSlot { sid, epoch, .. }
                if sent.cluster < store.cluster && store.owns(sid, epoch) && shown(world) > 0)
        })
    },
};
