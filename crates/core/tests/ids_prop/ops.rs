//! Random ops: commands in terms of the grants that they will meet.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::world::FAMILIES;

/// A command in terms of the state it will meet.
#[derive(Clone, Debug)]
pub(crate) enum IdOp {
    Acquire {
        family: usize,
        holder: u8,
        claim: Option<u32>,
        window_ms: u32,
    },
    Renew {
        grant: Index,
        epoch: i8,
        window_ms: u32,
    },
    Release {
        grant: Index,
        epoch: i8,
        used: u64,
    },
    Revoke {
        grant: Index,
        epoch: i8,
    },
    Raise {
        family: usize,
        by: u64,
        force: bool,
    },
    Freeze {
        family: usize,
        frozen: bool,
    },
    Advance {
        by_ms: u64,
        resets: i8,
    },
    SetTime {
        to: TimeJump,
        resets: i8,
    },
    /// An earlier command that comes once more, late.
    Again {
        which: Index,
    },
    Restart,
}

/// Where store time is set to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimeJump {
    Back(u64),
    Forward(u64),
    /// Before the end of all layouts.
    End(u64),
}

/// Returns how far a fence is from the present one: usually 0.
fn random_offset() -> impl Strategy<Value = i8> {
    prop_oneof![14 => Just(0i8), 1 => Just(-1), 1 => Just(1)]
}

fn random_window_ms() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(0u32), 1 => 1u32..4_000]
}

pub(crate) fn random_op() -> impl Strategy<Value = IdOp> {
    let (index, family) = (any::<Index>, 0..FAMILIES.len());
    let claim = prop::option::weighted(0.2, 0u32..5);
    let to = prop_oneof![
        4 => (0u64..6_000).prop_map(TimeJump::Back),
        1 => (0u64..60_000).prop_map(TimeJump::Forward),
        1 => (0u64..3_000).prop_map(TimeJump::End),
    ];
    prop_oneof![
        14 => (family.clone(), 0u8..4, claim, random_window_ms())
            .prop_map(|(family, holder, claim, window_ms)| IdOp::Acquire {
                family, holder, claim, window_ms
            }),
        10 => (index(), random_offset(), random_window_ms())
            .prop_map(|(grant, epoch, window_ms)| IdOp::Renew { grant, epoch, window_ms }),
        5 => (index(), random_offset(), 0u64..15)
            .prop_map(|(grant, epoch, used)| IdOp::Release { grant, epoch, used }),
        1 => (index(), random_offset()).prop_map(|(grant, epoch)| IdOp::Revoke { grant, epoch }),
        1 => (family.clone(), 0u64..30, any::<bool>())
            .prop_map(|(family, by, force)| IdOp::Raise { family, by, force }),
        1 => (family, prop::bool::weighted(0.3))
            .prop_map(|(family, frozen)| IdOp::Freeze { family, frozen }),
        8 => (0u64..1_500, random_offset())
            .prop_map(|(by_ms, resets)| IdOp::Advance { by_ms, resets }),
        2 => (to, random_offset()).prop_map(|(to, resets)| IdOp::SetTime { to, resets }),
        6 => index().prop_map(|which| IdOp::Again { which }),
        1 => Just(IdOp::Restart),
    ]
}

pub(crate) fn random_ops() -> impl Strategy<Value = Vec<IdOp>> {
    prop::collection::vec(random_op(), 1..150)
}
