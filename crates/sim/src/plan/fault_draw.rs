//! Draws single faults.

use super::fault_class::FaultClass;
use super::planned_fault::{
    FaultKind, FaultTarget, PartitionDirection, PartitionScope, PlannedFault, RowsCrashEffect,
};
use super::run_plan::ClusterSetup;
use crate::machine::{Rates, TRUE_RATE};
use crate::random_stream::RandomStream;

/// Maximum error of the rate of a bounded clock, parts per million (design 3: 10 %).
const CLOCK_DRIFT_MAX_PPM: u64 = 100_000;

fn draw_rows_effect(random: &mut RandomStream) -> RowsCrashEffect {
    match random.next_below(10) {
        0 => RowsCrashEffect::Remove,
        1 => RowsCrashEffect::Damage,
        2..5 => RowsCrashEffect::Lose(0),
        _ => RowsCrashEffect::Lose(60),
    }
}

fn draw_target(random: &mut RandomStream, setup: &ClusterSetup) -> FaultTarget {
    let store = random.next_below(u64::from(setup.stores)) as u32;
    let alloc = random.next_below(u64::from(setup.allocs)) as u32;
    random.pick_one(&[
        FaultTarget::Leader,
        FaultTarget::Leader,
        FaultTarget::Follower(store),
        FaultTarget::Store(store),
        FaultTarget::Owner,
        FaultTarget::Owner,
        FaultTarget::Alloc(alloc),
    ])
}

/// Draws a fault of a class.
pub(super) fn draw_fault(
    random: &mut RandomStream,
    class: FaultClass,
    at_ms: u64,
    setup: &ClusterSetup,
    has_bounded_clocks: bool,
) -> PlannedFault {
    let lease_ms = setup.lease_ms;
    let mut target = draw_target(random, setup);
    let mut for_ms = random.next_between(lease_ms / 6, 3 * lease_ms);
    let is_store = matches!(
        target,
        FaultTarget::Leader | FaultTarget::Follower(_) | FaultTarget::Store(_)
    );
    let kind = match class {
        FaultClass::Net => match random.next_below(8) {
            0..4 => FaultKind::Part {
                way: random.pick_one(&[
                    PartitionDirection::Both,
                    PartitionDirection::Out,
                    PartitionDirection::In,
                ]),
                scope: match random.next_bool(30) {
                    true => PartitionScope::All,
                    false => PartitionScope::Servers,
                },
            },
            4 | 5 => FaultKind::Slow {
                more_ms: random.next_between(10, lease_ms / 3),
                scope: PartitionScope::Servers,
            },
            6 => FaultKind::Reset,
            _ => FaultKind::Eat,
        },
        FaultClass::Process => match random.next_below(6) {
            0 | 1 => FaultKind::Pause,
            2 | 3 if !is_store => FaultKind::PauseAtRead {
                reads: random.next_below(40),
            },
            2 | 3 => FaultKind::Pause,
            _ => FaultKind::Kill {
                rows: draw_rows_effect(random),
            },
        },
        FaultClass::Machine => match random.next_below(8) {
            0..4 => FaultKind::PowerCut {
                rows: draw_rows_effect(random),
            },
            4 => {
                for_ms = random.next_between(50, lease_ms);
                FaultKind::PowerCutAll
            }
            _ => FaultKind::Suspend,
        },
        FaultClass::Clock if has_bounded_clocks => FaultKind::Rate(draw_rates(random)),
        FaultClass::Clock => match random.next_below(3) {
            0 => FaultKind::Jump {
                by_ms: random.next_between(lease_ms / 2, 5 * lease_ms),
            },
            1 => FaultKind::Rate(Rates {
                main: random.pick_one(&[0, 2 * TRUE_RATE]),
                raw: random.pick_one(&[0, 2 * TRUE_RATE]),
            }),
            _ => FaultKind::Rate(draw_rates(random)),
        },
        FaultClass::Disk => {
            let store = random.next_below(u64::from(setup.stores)) as u32;
            target = random.pick_one(&[FaultTarget::Leader, FaultTarget::Store(store)]);
            match random.next_below(3) {
                0 => FaultKind::FailSync,
                _ => FaultKind::SlowSync {
                    ms: random.next_between(20, lease_ms / 2),
                },
            }
        }
        FaultClass::Operations => {
            let alloc = random.next_below(u64::from(setup.allocs)) as u32;
            match random.next_below(6) {
                0 => {
                    target = random.pick_one(&[FaultTarget::Owner, FaultTarget::Alloc(alloc)]);
                    FaultKind::Leave
                }
                5 => FaultKind::Join,
                1 | 2 => FaultKind::Move {
                    slot: random.next_below(u64::from(setup.slots)) as u32,
                },
                3 => {
                    target = random.pick_one(&[FaultTarget::Owner, FaultTarget::Alloc(alloc)]);
                    FaultKind::Drain
                }
                _ => FaultKind::Transfer,
            }
        }
        FaultClass::Members => {
            let store = random.next_below(u64::from(setup.stores)) as u32;
            target = random.pick_one(&[
                FaultTarget::Leader,
                FaultTarget::Store(store),
                FaultTarget::Store(store),
            ]);
            for_ms = random.next_between(2 * lease_ms, 6 * lease_ms);
            match random.next_below(5) {
                0..3 => FaultKind::Replace,
                3 => {
                    target = FaultTarget::Leader;
                    FaultKind::ReuseId
                }
                _ => FaultKind::Copy,
            }
        }
        // Plans of these classes get their faults elsewhere.
        FaultClass::Remake | FaultClass::Flap | FaultClass::Flood | FaultClass::Genesis => {
            FaultKind::Transfer
        }
    };
    PlannedFault {
        at_ms,
        for_ms,
        target,
        kind,
    }
}

/// Draws the rates of the clocks of a machine.
pub(super) fn draw_rates(random: &mut RandomStream) -> Rates {
    let mut rate = || match random.next_bool(30) {
        // Exactly at a bound.
        true => random.pick_one(&[
            TRUE_RATE - CLOCK_DRIFT_MAX_PPM,
            TRUE_RATE + CLOCK_DRIFT_MAX_PPM,
        ]),
        false => random.next_between(
            TRUE_RATE - CLOCK_DRIFT_MAX_PPM,
            TRUE_RATE + CLOCK_DRIFT_MAX_PPM,
        ),
    };
    Rates {
        main: rate(),
        raw: rate(),
    }
}
