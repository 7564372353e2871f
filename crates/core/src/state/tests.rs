//! Schedules: each test plays the one that a rule of `apply` exists for, and shows that the rule
//! rejects it. Random sequences over the same rules are in `tests/state_prop.rs`.

use std::collections::BTreeSet;

use super::{RowKey, State, StateRow};
use crate::SEQ_MAX;
use crate::command::{
    Batch, Command, CommandRejection, Fence, HIGH_WATER_MARKS_MAX, HighWaterMark, OpenSession,
    RaiseCause, Reply, SESSIONS_MAX, SessionProof, SlotHighWaterMark,
};
use crate::geometry::Geometry;
use crate::ids::{
    ClusterId, Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId, Slot,
};
use crate::namespace::{NAMESPACES_MAX, NamespaceChange, NamespaceLimits, NamespaceSpec};
use crate::progression::Progression;

mod families;
mod namespaces;
mod sections;
mod sessions;

const TERM: u64 = 5;
const KEY: SectionKey = SectionKey {
    namespace: NamespaceId(1),
    section: SectionId(0),
};
/// The only slot.
const SLOT: Slot = Slot(0);

impl State {
    fn one(&mut self, command: Command) -> Reply {
        let batch = Batch {
            commands: vec![command],
        };
        self.apply(TERM, &batch, &mut BTreeSet::new()).remove(0)
    }

    fn max_seq(&self) -> u64 {
        self.section(KEY).unwrap().max_seq
    }

    fn owner(&self) -> (Epoch, Option<SessionId>) {
        (self.slots[0].epoch, self.slots[0].owner)
    }
}

/// Slot 0 belongs to session 1 at epoch 1; session 2 lives too.
fn cluster() -> State {
    let mut state = State::default();
    let cluster = ClusterId(7);
    state.one(Command::Init {
        cluster,
        lease_ms: 3_000,
        slots: 1,
    });
    assert_eq!(state.one(session("a1", 1, None)), opened_session(1));
    assert_eq!(state.one(session("a2", 2, None)), opened_session(2));
    state.one(assign(0, 1));
    state
}

fn opened_session(id: u64) -> Reply {
    Reply::Session(SessionId(id))
}

fn session(name: &str, nonce: u128, proof: Option<SessionProof>) -> Command {
    Command::OpenSession(OpenSession {
        name: name.into(),
        address: "127.0.0.1:7700".into(),
        incarnation: 1,
        nonce: Nonce(nonce),
        proof,
    })
}

fn assign(from: u64, to: u64) -> Command {
    Command::Assign {
        slot: SLOT,
        from: Epoch(from),
        to: SessionId(to),
    }
}

fn fence(epoch: u64) -> Fence {
    Fence {
        slot: SLOT,
        epoch: Epoch(epoch),
        section: KEY,
    }
}

fn open(epoch: u64, expected: u64, nonce: u128) -> Command {
    Command::Open {
        fence: fence(epoch),
        expected: Generation(expected),
        nonce: Nonce(nonce),
        step: 100,
    }
}

fn raise(epoch: u64, generation: u64, to: u64, cause: RaiseCause) -> Command {
    Command::Raise {
        fence: fence(epoch),
        generation: Generation(generation),
        to,
        cause,
    }
}

fn close(epoch: u64, generation: u64, value: u64) -> Command {
    Command::CloseSection {
        fence: fence(epoch),
        generation: Generation(generation),
        value,
    }
}

fn last(generation: u64, value: u64) -> HighWaterMark {
    HighWaterMark::new(KEY.namespace, KEY.section, Generation(generation), value)
}

fn move_slot(epoch: u64, high_water_marks: Vec<HighWaterMark>, to: Option<u64>) -> Command {
    Command::MoveSlot {
        slot: SLOT,
        epoch: Epoch(epoch),
        high_water_marks,
        to: to.map(SessionId),
    }
}

fn expire(session: u64, term: u64) -> Command {
    Command::ExpireSession {
        session: SessionId(session),
        term,
    }
}

fn opened(generation: u64, base: u64, max_seq: u64) -> Reply {
    Reply::Opened {
        generation: Generation(generation),
        base,
        max_seq,
    }
}

fn not_owner(reply: &Reply) -> bool {
    matches!(reply, Reply::Rejected(CommandRejection::NotOwner { .. }))
}

fn stale(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::Rejected(CommandRejection::StaleGeneration { .. })
    )
}

#[test]
fn init_comes_first_and_applies_once() {
    let mut state = State::default();
    assert_eq!(
        state.one(open(0, 0, 1)),
        Reply::Rejected(CommandRejection::NotInitialized)
    );
    let init = |id, lease_ms, slots| Command::Init {
        cluster: ClusterId(id),
        lease_ms,
        slots,
    };
    for (lease_ms, slots) in [(299, 1), (60_001, 1), (3_000, 0), (3_000, 16_385)] {
        let reply = state.one(init(7, lease_ms, slots));
        assert!(matches!(
            reply,
            Reply::Rejected(CommandRejection::Invalid(_))
        ));
    }
    assert_eq!(state.one(init(7, 3_000, 1_024)), Reply::Done);
    assert_eq!(state.one(init(7, 3_000, 1_024)), Reply::Done);
    let other = CommandRejection::AlreadyInitialized(ClusterId(7));
    assert_eq!(state.one(init(8, 3_000, 1_024)), Reply::Rejected(other));
    let names: Vec<_> = state.namespaces().map(|n| n.spec.name.as_str()).collect();
    assert_eq!(names, ["default", "keys"]);
}

#[test]
fn rows_that_contradict_each_other_are_rejected() {
    let state = cluster();
    let rows = || state.rows().collect::<Vec<_>>();
    assert_eq!(State::from_rows(rows()), Some(state.clone()));
    let mut reversed = rows();
    reversed.reverse();
    assert_eq!(State::from_rows(reversed), Some(state.clone()));
    let without_slot = rows().into_iter().filter(|(k, _)| *k != RowKey::Slot(SLOT));
    assert_eq!(State::from_rows(without_slot), None);
    let mut more = rows();
    more.push((RowKey::Slot(Slot(1)), StateRow::Slot(Default::default())));
    assert_eq!(State::from_rows(more), None);
    let mut misfit = rows();
    misfit.push((
        RowKey::Session(SessionId(9)),
        StateRow::Slot(Default::default()),
    ));
    assert_eq!(State::from_rows(misfit), None);
}
