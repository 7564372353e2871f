//! Draws single faults.

use super::{Class, Draw, draw_rates};
use crate::clock::{Rates, TRUE_RATE};
use crate::plan::{Direction, Fault, RowsFate, Scope, Setup, Target, What};

fn draw_rows(draw: &mut Draw) -> RowsFate {
    match draw.below(10) {
        0 => RowsFate::Remove,
        1 => RowsFate::Damage,
        2..5 => RowsFate::Lose(0),
        _ => RowsFate::Lose(60),
    }
}

fn draw_target(draw: &mut Draw, setup: &Setup) -> Target {
    let store = draw.below(u64::from(setup.stores)) as u32;
    let alloc = draw.below(u64::from(setup.allocs)) as u32;
    draw.one_of(&[
        Target::Leader,
        Target::Leader,
        Target::Follower(store),
        Target::Store(store),
        Target::Owner,
        Target::Owner,
        Target::Alloc(alloc),
    ])
}

pub(super) fn draw_fault(
    draw: &mut Draw,
    class: Class,
    at_ms: u64,
    setup: &Setup,
    has_bounded_clocks: bool,
) -> Fault {
    let d = setup.lease_ms;
    let mut target = draw_target(draw, setup);
    let mut for_ms = draw.between(d / 6, 3 * d);
    let is_store = matches!(
        target,
        Target::Leader | Target::Follower(_) | Target::Store(_)
    );
    let what = match class {
        Class::Net => match draw.below(8) {
            0..4 => What::Part {
                way: draw.one_of(&[Direction::Both, Direction::Out, Direction::In]),
                scope: match draw.percent(30) {
                    true => Scope::All,
                    false => Scope::Servers,
                },
            },
            4 | 5 => What::Slow {
                more_ms: draw.between(10, d / 3),
                scope: Scope::Servers,
            },
            6 => What::Reset,
            _ => What::Eat,
        },
        Class::Process => match draw.below(6) {
            0 | 1 => What::Pause,
            2 | 3 if !is_store => What::PauseAtRead {
                reads: draw.below(40),
            },
            2 | 3 => What::Pause,
            _ => What::Kill {
                rows: draw_rows(draw),
            },
        },
        Class::Machine => match draw.below(8) {
            0..4 => What::PowerCut {
                rows: draw_rows(draw),
            },
            4 => {
                for_ms = draw.between(50, d);
                What::PowerCutAll
            }
            _ => What::Suspend,
        },
        Class::Clock if has_bounded_clocks => What::Rate(draw_rates(draw)),
        Class::Clock => match draw.below(3) {
            0 => What::Jump {
                by_ms: draw.between(d / 2, 5 * d),
            },
            1 => What::Rate(Rates {
                main: draw.one_of(&[0, 2 * TRUE_RATE]),
                raw: draw.one_of(&[0, 2 * TRUE_RATE]),
            }),
            _ => What::Rate(draw_rates(draw)),
        },
        Class::Disk => {
            let store = draw.below(u64::from(setup.stores)) as u32;
            target = draw.one_of(&[Target::Leader, Target::Store(store)]);
            match draw.below(3) {
                0 => What::FailSync,
                _ => What::SlowSync {
                    ms: draw.between(20, d / 2),
                },
            }
        }
        Class::Operations => {
            let alloc = draw.below(u64::from(setup.allocs)) as u32;
            match draw.below(6) {
                0 => {
                    target = draw.one_of(&[Target::Owner, Target::Alloc(alloc)]);
                    What::Leave
                }
                5 => What::Join,
                1 | 2 => What::Move {
                    slot: draw.below(u64::from(setup.slots)) as u32,
                },
                3 => {
                    target = draw.one_of(&[Target::Owner, Target::Alloc(alloc)]);
                    What::Drain
                }
                _ => What::Transfer,
            }
        }
        Class::Members => {
            let store = draw.below(u64::from(setup.stores)) as u32;
            target = draw.one_of(&[Target::Leader, Target::Store(store), Target::Store(store)]);
            for_ms = draw.between(2 * d, 6 * d);
            match draw.below(5) {
                0..3 => What::Replace,
                3 => {
                    target = Target::Leader;
                    What::ReuseId
                }
                _ => What::Copy,
            }
        }
        // Plans of these classes get their faults elsewhere.
        Class::Remake | Class::Flap | Class::Flood | Class::Genesis => What::Transfer,
    };
    Fault {
        at_ms,
        for_ms,
        target,
        what,
    }
}
