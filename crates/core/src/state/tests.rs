//! Schedules: each test plays the one that a rule of `apply` exists for, and shows that the rule
//! refuses it. Random sequences over the same rules are in `tests/state_prop.rs`.

use std::collections::BTreeSet;

use super::{RowKey, State, StateRow};
use crate::SEQ_MAX;
use crate::command::{
    Batch, Command, CommandRejection, Fence, HIGH_WATER_MARKS_MAX, HighWaterMark, OpenSession,
    RaiseCause, Reply, SessionProof, SlotHighWaterMark,
};
use crate::geometry::Geometry;
use crate::ids::{
    ClusterId, Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId, Slot,
};
use crate::namespace::{NamespaceChange, NamespaceLimits, NamespaceSpec};
use crate::progression::Progression;

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

/// A raise sent before a close and arriving after it would widen what the next owner was given.
#[test]
fn raise_after_close_is_rejected_by_the_ended_generation() {
    let mut state = cluster();
    assert_eq!(state.one(open(1, 0, 1)), opened(1, 0, 100));
    state.one(close(1, 1, 40));
    assert_eq!(state.max_seq(), 40);
    assert!(stale(&state.one(raise(1, 1, 200, RaiseCause::Refill))));
    assert_eq!(state.one(open(1, 1, 2)), opened(2, 40, 140));
    assert!(stale(&state.one(raise(1, 1, 200, RaiseCause::Refill))));
    assert_eq!(state.max_seq(), 140);
}

/// A close of generation 1 that arrives after generation 2 was opened would hand numbers back that
/// generation 2 gives out.
#[test]
fn late_close_is_rejected_by_the_generation() {
    let mut state = cluster();
    state.one(open(1, 0, 1));
    state.one(open(1, 1, 2));
    assert!(stale(&state.one(close(1, 1, 10))));
    assert_eq!(state.max_seq(), 200);
}

/// A duplicate of an Open arriving late would begin a generation that no owner uses, and would end
/// the owner's current one.
#[test]
fn late_open_is_rejected_by_the_expected_generation() {
    let mut state = cluster();
    let first = open(1, 0, 1);
    let reply = state.one(first.clone());
    assert_eq!(state.one(first.clone()), reply, "the same nonce");
    state.one(close(1, 1, 10));
    assert!(stale(&state.one(first)));
    assert!(stale(&state.one(open(1, 0, 2))));
}

/// The first Open of a section at an epoch does not name the generation that it follows: at each
/// try the store fills in what it has applied. A late duplicate of it begins generations that
/// nothing uses. Each costs a window. The owner's own generations stay disjoint and in order,
/// because the duplicate cannot lower max_seq, and a generation that it ended accepts no raise and
/// no high-water mark.
#[test]
fn late_duplicate_of_a_first_open_costs_a_window_and_repeats_no_number() {
    let mut state = cluster();
    let late = |state: &State| {
        let last = state.section(KEY).map_or(0, |s| s.generation.0);
        open(1, last, 1)
    };
    let (first, taken) = (late(&state), opened(1, 0, 100));
    assert_eq!(state.one(first), taken);
    let again = late(&state);
    assert_eq!(state.one(again), taken, "its generation is open");

    state.one(close(1, 1, 10));
    let again = late(&state);
    assert_eq!(state.one(again), opened(2, 10, 110));
    assert!(stale(&state.one(open(1, 1, 2))), "the owner gets an error");
    assert_eq!(state.one(open(1, 2, 2)), opened(3, 110, 210));

    let again = late(&state);
    assert_eq!(state.one(again), opened(4, 210, 310));
    assert!(stale(&state.one(raise(1, 3, 250, RaiseCause::Refill))));
    assert!(stale(&state.one(close(1, 3, 150))));
    assert_eq!(state.one(open(1, 4, 3)), opened(5, 310, 410));

    state.one(move_slot(1, vec![last(5, 320)], Some(2)));
    let again = late(&state);
    assert!(not_owner(&state.one(again)), "the epoch is over");
    assert_eq!(state.max_seq(), 320);
}

/// A deposed owner can at most finish the window it has.
#[test]
fn deposed_owner_is_rejected_by_the_epoch() {
    let mut state = cluster();
    state.one(open(1, 0, 1));
    state.one(expire(1, TERM));
    assert_eq!(state.owner(), (Epoch(2), None));
    state.one(assign(2, 2));
    for command in [
        open(1, 1, 3),
        raise(1, 1, 200, RaiseCause::Refill),
        close(1, 1, 0),
        move_slot(1, vec![last(1, 0)], Some(1)),
    ] {
        assert!(not_owner(&state.one(command)));
    }
    assert_eq!(state.one(open(3, 1, 4)), opened(2, 100, 200));
}

/// The arbiter of an older term decided; since then a new leader may have renewed the session.
#[test]
fn expiry_decided_in_another_term_does_nothing() {
    let mut state = cluster();
    for term in [TERM - 1, TERM + 1] {
        assert_eq!(state.one(expire(1, term)), Reply::Done);
    }
    assert_eq!(state.owner(), (Epoch(1), Some(SessionId(1))));
}

#[test]
fn assign_takes_free_slots_at_the_epoch_seen() {
    let mut state = cluster();
    assert!(not_owner(&state.one(assign(1, 2))), "owned");
    state.one(move_slot(1, vec![], None));
    assert!(not_owner(&state.one(assign(1, 2))), "decided before");
    let rejected = Reply::Rejected(CommandRejection::SessionNotFound(SessionId(9)));
    assert_eq!(state.one(assign(2, 9)), rejected);
    state.one(assign(2, 2));
    assert_eq!(state.owner(), (Epoch(3), Some(SessionId(2))));
}

#[test]
fn session_is_superseded_only_with_its_own_nonce() {
    let mut state = cluster();
    let proof = |session, nonce| {
        Some(SessionProof {
            session: SessionId(session),
            nonce: Nonce(nonce),
        })
    };
    for wrong in [None, proof(1, 2), proof(2, 1), proof(2, 2)] {
        let reply = state.one(session("a1", 3, wrong));
        assert!(matches!(
            reply,
            Reply::Rejected(CommandRejection::NameTaken { .. })
        ));
    }
    assert_eq!(
        state.one(session("a1", 1, None)),
        opened_session(1),
        "retry"
    );
    let restart = session("a1", 3, proof(1, 1));
    assert_eq!(state.one(restart.clone()), opened_session(3));
    assert_eq!(state.one(restart), opened_session(3), "retry");
    assert_eq!(state.owner(), (Epoch(2), Some(SessionId(3))));
    assert_eq!(state.session(SessionId(1)), None);
}

#[test]
fn move_applies_matching_high_water_marks_and_skips_others() {
    let mut state = cluster();
    state.one(open(1, 0, 1));
    let elsewhere = HighWaterMark::new(NamespaceId(2), SectionId(0), Generation(1), 1);
    let high_water_marks = vec![last(0, 5), last(2, 6), elsewhere, last(1, 30), last(1, 20)];
    let reply = Reply::Slot {
        epoch: Epoch(2),
        owner: Some(SessionId(2)),
    };
    assert_eq!(state.one(move_slot(1, high_water_marks, Some(2))), reply);
    assert_eq!(state.max_seq(), 30, "the first that matched ended it");
    assert_eq!(state.one(open(2, 1, 2)), opened(2, 30, 130));
    let to_dead = state.one(move_slot(2, vec![], Some(9)));
    let free = Reply::Slot {
        epoch: Epoch(3),
        owner: None,
    };
    assert_eq!(to_dead, free);
    let many = vec![last(2, 0); HIGH_WATER_MARKS_MAX + 1];
    let reply = state.one(move_slot(3, many, None));
    assert!(matches!(
        reply,
        Reply::Rejected(CommandRejection::Invalid(_))
    ));
}

/// Finals of a session that has lost the slot would hand back its successor's numbers.
#[test]
fn close_session_fences_each_high_water_mark() {
    let mut state = cluster();
    state.one(open(1, 0, 1));
    let chunk = |session, epoch, value, ends| Command::CloseSession {
        session: SessionId(session),
        high_water_marks: vec![SlotHighWaterMark {
            slot: SLOT,
            epoch: Epoch(epoch),
            mark: last(1, value),
        }],
        last: ends,
    };
    for wrong in [chunk(2, 1, 1, false), chunk(1, 0, 2, false)] {
        assert_eq!(state.one(wrong), Reply::Done);
        assert_eq!(state.max_seq(), 100);
    }
    assert_eq!(state.one(chunk(1, 1, 3, false)), Reply::Done);
    assert_eq!(state.max_seq(), 3);
    assert_eq!(state.owner(), (Epoch(1), Some(SessionId(1))), "not yet");
    assert_eq!(state.one(chunk(1, 1, 4, true)), Reply::Done);
    assert_eq!(state.owner(), (Epoch(2), None));
    assert_eq!(state.session(SessionId(1)), None);
    assert_eq!(state.max_seq(), 3);
}

#[test]
fn high_water_marks_are_clamped() {
    for (value, expect) in [(0, 100), (150, 150), (500, 200)] {
        let mut state = cluster();
        state.one(open(1, 0, 1));
        state.one(open(1, 1, 2));
        state.one(close(1, 2, value));
        assert_eq!(state.max_seq(), expect);
    }
}

#[test]
fn raises_are_absolute_and_bounded_by_their_cause() {
    let mut state = cluster();
    let limits = NamespaceLimits {
        step_max: 100,
        raise_to_max: 1_000,
        strict: false,
    };
    state.one(Command::AlterNamespace {
        id: KEY.namespace,
        step: 10,
        limits,
    });
    state.one(open(1, 0, 1));
    let raised = |max_seq| Reply::Raised {
        generation: Generation(1),
        max_seq,
    };
    let above = |to, bound| Reply::Rejected(CommandRejection::JumpTooLarge { to, bound });
    let jump = |force| RaiseCause::RaiseTo { force };
    assert_eq!(
        state.one(raise(1, 1, 201, RaiseCause::Refill)),
        above(201, 200)
    );
    for to in [150, 120, 150] {
        assert_eq!(state.one(raise(1, 1, to, RaiseCause::Refill)), raised(150));
    }
    assert_eq!(state.one(raise(1, 1, 750, jump(false))), raised(750));
    assert_eq!(
        state.one(raise(1, 1, 750, jump(false))),
        raised(750),
        "retry"
    );
    // Counted per section: 600 of 1,000 are used up, in later generations too.
    assert_eq!(state.one(open(1, 1, 2)), opened(2, 750, 850));
    let too_far = state.one(raise(1, 2, 1_251, jump(false)));
    assert_eq!(too_far, above(1_251, 1_250));
    let forced = state.one(raise(1, 2, SEQ_MAX, jump(true)));
    assert!(matches!(
        forced,
        Reply::Raised {
            max_seq: SEQ_MAX,
            ..
        }
    ));
    let beyond = state.one(raise(1, 2, SEQ_MAX + 1, jump(true)));
    assert_eq!(beyond, above(SEQ_MAX + 1, SEQ_MAX));
    let exhausted = Reply::Rejected(CommandRejection::SequenceExhausted(KEY));
    assert_eq!(state.one(open(1, 2, 3)), exhausted);
}

#[test]
fn steps_count_numbers_of_the_progression() {
    let mut state = cluster();
    let mut spec = NamespaceSpec::new("odd", Geometry::Keyed { sections: 1 });
    spec.progression = Progression {
        start: 10,
        stride: 2,
        offset: 1,
    };
    assert_eq!(
        state.one(Command::CreateNamespace(spec)),
        Reply::Namespace(NamespaceId(3))
    );
    let fence = Fence {
        section: SectionKey {
            namespace: NamespaceId(3),
            section: SectionId(0),
        },
        ..fence(1)
    };
    let command = Command::Open {
        fence,
        expected: Generation(0),
        nonce: Nonce(1),
        step: 100,
    };
    // 11, 13 … 209.
    assert_eq!(state.one(command), opened(1, 9, 209));
}

#[test]
fn namespaces_are_created_once_and_altered_without_needless_versions() {
    let mut state = cluster();
    let spec = NamespaceSpec::new("n", Geometry::Keyed { sections: 4 });
    let id = Reply::Namespace(NamespaceId(3));
    assert_eq!(state.one(Command::CreateNamespace(spec.clone())), id);
    let version = state.table_version();
    assert_eq!(state.one(Command::CreateNamespace(spec.clone())), id);
    let (step, limits) = (spec.step, spec.limits);
    let other = NamespaceSpec {
        step: 7,
        ..spec.clone()
    };
    let exists = CommandRejection::NamespaceExists("n".into());
    assert_eq!(
        state.one(Command::CreateNamespace(other)),
        Reply::Rejected(exists)
    );
    let alter = |id, step| Command::AlterNamespace { id, step, limits };
    assert_eq!(state.one(alter(NamespaceId(3), step)), Reply::Done);
    assert_eq!(state.table_version(), version, "nothing was changed");
    assert_eq!(state.one(alter(NamespaceId(3), 7)), Reply::Done);
    assert_eq!(state.table_version(), version + 1);
    let strict = Command::AlterNamespace {
        id: NamespaceId(3),
        step: 7,
        limits: NamespaceLimits {
            strict: true,
            ..limits
        },
    };
    assert!(!spec.limits.strict);
    assert_eq!(state.one(strict.clone()), Reply::Done);
    let delta = state.delta_since(version + 1).unwrap();
    assert_eq!((delta.version, delta.namespaces.len()), (version + 2, 1));
    assert!(delta.namespaces[0].spec.limits.strict, "owners learn it");
    assert_eq!(state.one(strict), Reply::Done);
    assert_eq!(state.table_version(), version + 2);
    let unknown = CommandRejection::NamespaceNotFound(NamespaceId(9));
    assert_eq!(
        state.one(alter(NamespaceId(9), 7)),
        Reply::Rejected(unknown)
    );
}

/// Schedule: two operators read strict = false; one makes the namespace strict, the other changes
/// its step. In every order, and although each is repeated late, both hold.
#[test]
fn namespace_change_of_one_value_keeps_the_others() {
    let change = |change| Command::ChangeNamespace {
        id: NamespaceId(1),
        change,
    };
    let strict = change(NamespaceChange {
        strict: Some(true),
        ..NamespaceChange::default()
    });
    let step = change(NamespaceChange {
        step: Some(7),
        step_max: Some(70),
        ..NamespaceChange::default()
    });
    for order in [[&strict, &step, &strict], [&step, &strict, &step]] {
        let mut state = cluster();
        let before = state.namespace(NamespaceId(1)).unwrap().spec.limits;
        for command in order {
            assert_eq!(state.one(command.clone()), Reply::Done);
        }
        let spec = &state.namespace(NamespaceId(1)).unwrap().spec;
        let expected = NamespaceLimits {
            step_max: 70,
            strict: true,
            ..before
        };
        assert_eq!((spec.step, spec.limits), (7, expected));
    }
    let mut state = cluster();
    let bad = change(NamespaceChange {
        step_max: Some(7),
        ..NamespaceChange::default()
    });
    let version = state.table_version();
    assert!(matches!(
        state.one(bad),
        Reply::Rejected(CommandRejection::Invalid(_))
    ));
    assert_eq!(state.one(change(NamespaceChange::default())), Reply::Done);
    assert_eq!(state.table_version(), version);
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
