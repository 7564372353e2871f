//! Draws scenarios: faults that make sense only together.

use super::Draw;
use crate::plan::{Direction, Fault, Load, RowsFate, Scope, Setup, Target, What};

/// Draws a flapping quorum while the AllocSvr with most slots is dead (finding A2).
///
/// 1. Kill the AllocSvr that owns most slots.
/// 2. Slow the leader's links to the other stores again and again, each time too briefly to cost it
///    the leadership.
pub(super) fn flap(draw: &mut Draw, setup: &mut Setup, faults_ms: u64) -> Vec<Fault> {
    let d = draw.one_of(&[600, 900]);
    setup.lease_ms = d;
    // An election timeout is longer than the delay of a heartbeat over a slow link.
    setup.heartbeat_ms = d / 3;
    setup.net.slow_per_mille = 0;
    let dead_at_ms = draw.between(1_000, 2_000);
    let mut faults = vec![Fault {
        at_ms: dead_at_ms,
        for_ms: faults_ms,
        target: Target::Owner,
        what: What::Kill {
            rows: RowsFate::Lose(0),
        },
    }];
    let mut at_ms = dead_at_ms;
    while at_ms < faults_ms {
        faults.push(Fault {
            at_ms,
            for_ms: d / 3,
            target: Target::Leader,
            what: What::Slow {
                more_ms: d / 4 + draw.between(1, 20),
                scope: Scope::Stores,
            },
        });
        at_ms += draw.between(d * 7 / 10, d);
    }
    faults
}

/// Draws a flood of commands while AllocSvrs register (finding A3).
///
/// 1. Every call needs a command and entries are small, so that each class of commands waits for
///    space in an entry.
/// 2. Kill AllocSvrs again and again, so that they must register during the flood.
pub(super) fn flood(
    draw: &mut Draw,
    setup: &mut Setup,
    load: &mut Load,
    faults_ms: u64,
) -> Vec<Fault> {
    setup.entry_bytes = Some(512);
    setup.lease_ms = 900;
    setup.heartbeat_ms = 30;
    setup.net.slow_per_mille = 0;
    setup.net.delay_max_ms = setup.net.delay_max_ms.min(4);
    setup.step = 1;
    setup.slots = 16;
    // Requests of several AllocSvrs must overlap, so that one of them always waits.
    setup.allocs = 4;
    setup.idle_after_ms = 1;
    *load = Load {
        busy_callers: 64,
        busy_think_ms: 2,
        keys: 200,
        many_percent: 100,
        current_percent: 0,
        raise_percent: 0,
        strict_percent: 0,
        slow_think_ms: load.slow_think_ms.clone(),
    };
    let kill = |at_ms| Fault {
        at_ms,
        for_ms: 200,
        target: Target::Owner,
        what: What::Kill {
            rows: RowsFate::Lose(0),
        },
    };
    let mut kills = Vec::new();
    let mut at_ms = 500;
    while at_ms < faults_ms {
        at_ms += draw.between(300, 1_500);
        kills.push(kill(at_ms));
    }
    kills
}

/// Draws faults during the initialization of the cluster (finding B3).
///
/// 1. Cut the power of one store.
/// 2. Wipe the disk of another store.
/// 3. Isolate or kill the third store.
pub(super) fn genesis(draw: &mut Draw, setup: &mut Setup) -> Vec<Fault> {
    setup.stores = 3;
    // Syncs are so slow that a fault can hit each step of the initialization.
    setup.sync_ms = (40, 80);
    setup.net.delay_max_ms = 1;
    setup.heartbeat_ms = setup.heartbeat_ms.max(100);
    let at_ms = draw.between(20, 500);
    let cut = draw.below(3) as u32;
    let wiped = (cut + 1 + draw.below(2) as u32) % 3;
    let parted = 3 - cut - wiped;
    vec![
        Fault {
            at_ms,
            for_ms: draw.between(50, 1_500),
            target: Target::Store(cut),
            what: What::PowerCut {
                rows: RowsFate::Lose(0),
            },
        },
        Fault {
            at_ms: at_ms + draw.between(50, 500),
            for_ms: 1,
            target: Target::Store(wiped),
            what: What::Wipe,
        },
        Fault {
            at_ms: at_ms + draw.between(0, 300),
            for_ms: draw.between(500, 6_000),
            target: Target::Store(parted),
            what: draw.one_of(&[
                What::Part {
                    way: Direction::Both,
                    scope: Scope::All,
                },
                What::Kill {
                    rows: RowsFate::Lose(0),
                },
            ]),
        },
    ]
}

/// Draws the fault that makes another cluster of the same machines.
pub(super) fn remake(draw: &mut Draw, setup: &Setup, faults_ms: u64) -> Fault {
    Fault {
        at_ms: draw.between(faults_ms / 4, faults_ms * 2 / 3),
        for_ms: 1,
        target: Target::Store(0),
        what: What::Remake {
            kept: draw.below(u64::from(setup.allocs) + 1) as u32,
        },
    }
}

/// Draws the fault that wipes the disk of a store.
pub(super) fn wipe(draw: &mut Draw, setup: &Setup, faults_ms: u64) -> Fault {
    let store = draw.below(u64::from(setup.stores)) as u32;
    Fault {
        at_ms: draw.between(500, faults_ms),
        for_ms: 1,
        target: draw.one_of(&[Target::Leader, Target::Store(store)]),
        what: What::Wipe,
    }
}
