//! Random ops: a command in terms of the state it will meet. Fences, generations, nonces and terms
//! are mostly right and sometimes one off.

use proptest::prelude::*;
use proptest::sample::Index;
use seqsvr_core::SEQ_MAX;
use seqsvr_core::command::RaiseCause;

/// Returns how far a fence, generation or term is from the current one: usually 0.
fn random_offset() -> impl Strategy<Value = i8> {
    prop_oneof![18 => Just(0i8), 1 => Just(-1), 1 => Just(1)]
}

/// A command in terms of the state it will meet.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    OpenSession {
        name: u8,
        nonce: u8,
        proof: Option<bool>,
    },
    CloseSession {
        session: Index,
        high_water_marks: Vec<RandomMark>,
        last: bool,
    },
    Expire {
        session: Index,
        term: i8,
    },
    Assign {
        slot: u8,
        epoch: i8,
        to: Index,
    },
    Open {
        at: FencedSection,
        generation: i8,
        nonce: u8,
        step: u32,
    },
    Raise {
        at: FencedSection,
        generation: i8,
        by: u64,
        cause: RaiseCause,
    },
    Close {
        at: FencedSection,
        generation: i8,
        value: u8,
    },
    Move {
        slot: u8,
        epoch: i8,
        high_water_marks: Vec<RandomMark>,
        to: Option<Index>,
    },
    Create {
        which: u8,
        step: u32,
    },
    Alter {
        namespace: u32,
        step: u32,
        step_max: u32,
    },
    Change {
        namespace: u32,
        step: Option<u32>,
        step_max: Option<u32>,
    },
    Init {
        cluster: u8,
    },
    SetLevel {
        level: u32,
    },
    /// An earlier command that comes once more, late.
    Again {
        which: Index,
    },
    NewTerm,
}

/// A section under a fence.
#[derive(Clone, Debug)]
pub(crate) struct FencedSection {
    pub(crate) section: Index,
    pub(crate) epoch: i8,
    pub(crate) wrong_slot: bool,
}

/// A high-water mark.
#[derive(Clone, Debug)]
pub(crate) struct RandomMark {
    pub(crate) at: FencedSection,
    pub(crate) generation: i8,
    pub(crate) value: u8,
}

fn random_fenced_section() -> impl Strategy<Value = FencedSection> {
    (any::<Index>(), random_offset(), prop::bool::weighted(0.05)).prop_map(
        |(section, epoch, wrong_slot)| FencedSection {
            section,
            epoch,
            wrong_slot,
        },
    )
}

fn random_marks() -> impl Strategy<Value = Vec<RandomMark>> {
    let mark = (random_fenced_section(), random_offset(), any::<u8>()).prop_map(
        |(at, generation, value)| RandomMark {
            at,
            generation,
            value,
        },
    );
    prop::collection::vec(mark, 0..4)
}

fn random_cause() -> impl Strategy<Value = RaiseCause> {
    prop_oneof![
        3 => Just(RaiseCause::Refill),
        1 => any::<bool>().prop_map(|force| RaiseCause::RaiseTo { force }),
    ]
}

fn random_raise_amount() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..400, 1 => 0u64..100_000, 1 => Just(SEQ_MAX)]
}

pub(crate) fn random_op() -> impl Strategy<Value = Op> {
    let index = any::<Index>;
    prop_oneof![
        4 => (0u8..2, 0u8..6, prop::option::of(any::<bool>()))
            .prop_map(|(name, nonce, proof)| Op::OpenSession { name, nonce, proof }),
        1 => (index(), random_marks(), prop::bool::weighted(0.4))
            .prop_map(|(session, high_water_marks, last)| Op::CloseSession {
                session, high_water_marks, last
            }),
        1 => (index(), random_offset()).prop_map(|(session, term)| Op::Expire { session, term }),
        12 => (0u8..4, random_offset(), index())
            .prop_map(|(slot, epoch, to)| Op::Assign { slot, epoch, to }),
        12 => (random_fenced_section(), random_offset(), 0u8..12, 0u32..200)
            .prop_map(|(at, generation, nonce, step)| Op::Open { at, generation, nonce, step }),
        20 => (random_fenced_section(), random_offset(), random_raise_amount(), random_cause())
            .prop_map(|(at, generation, by, cause)| Op::Raise { at, generation, by, cause }),
        5 => (random_fenced_section(), random_offset(), any::<u8>())
            .prop_map(|(at, generation, value)| Op::Close { at, generation, value }),
        4 => (0u8..4, random_offset(), random_marks(), prop::option::weighted(0.8, index()))
            .prop_map(|(slot, epoch, high_water_marks, to)| Op::Move {
                slot, epoch, high_water_marks, to
            }),
        1 => (0u8..3, 1u32..3).prop_map(|(which, step)| Op::Create { which, step }),
        1 => (0u32..6, 0u32..100, 0u32..300)
            .prop_map(|(namespace, step, step_max)| Op::Alter { namespace, step, step_max }),
        1 => (0u32..6, prop::option::of(0u32..100), prop::option::of(0u32..300))
            .prop_map(|(namespace, step, step_max)| Op::Change { namespace, step, step_max }),
        1 => (7u8..9).prop_map(|cluster| Op::Init { cluster }),
        1 => (0u32..5).prop_map(|level| Op::SetLevel { level }),
        8 => index().prop_map(|which| Op::Again { which }),
        1 => Just(Op::NewTerm),
    ]
}
