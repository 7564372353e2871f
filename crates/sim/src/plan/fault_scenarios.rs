//! Draws scenarios: faults that make sense only together.

use super::planned_fault::{
    FaultKind, FaultTarget, PartitionDirection, PartitionScope, PlannedFault, RowsCrashEffect,
};
use super::run_plan::{CallLoad, ClusterSetup};
use crate::random_stream::RandomStream;

/// Draws a flapping quorum while the AllocSvr with most slots is dead (finding A2).
///
/// 1. Kill the AllocSvr that owns most slots.
/// 2. Slow the leader's links to the other stores again and again, each time too briefly to cost it
///    the leadership.
pub(super) fn draw_flapping_quorum(
    random: &mut RandomStream,
    setup: &mut ClusterSetup,
    faults_ms: u64,
) -> Vec<PlannedFault> {
    let lease_ms = random.pick_one(&[600, 900]);
    setup.lease_ms = lease_ms;
    // An election timeout is longer than the delay of a heartbeat over a slow link.
    setup.heartbeat_ms = lease_ms / 3;
    setup.net.slow_per_mille = 0;
    let dead_at_ms = random.next_between(1_000, 2_000);
    let mut faults = vec![PlannedFault {
        at_ms: dead_at_ms,
        for_ms: faults_ms,
        target: FaultTarget::Owner,
        kind: FaultKind::Kill {
            rows: RowsCrashEffect::Lose(0),
        },
    }];
    let mut at_ms = dead_at_ms;
    while at_ms < faults_ms {
        faults.push(PlannedFault {
            at_ms,
            for_ms: lease_ms / 3,
            target: FaultTarget::Leader,
            kind: FaultKind::Slow {
                more_ms: lease_ms / 4 + random.next_between(1, 20),
                scope: PartitionScope::Stores,
            },
        });
        at_ms += random.next_between(lease_ms * 7 / 10, lease_ms);
    }
    faults
}

/// Draws a flood of commands while AllocSvrs register (finding A3).
///
/// 1. Every call needs a command and entries are small, so that each class of commands waits for
///    space in an entry.
/// 2. Kill AllocSvrs again and again, so that they must register during the flood.
pub(super) fn draw_command_flood(
    random: &mut RandomStream,
    setup: &mut ClusterSetup,
    load: &mut CallLoad,
    faults_ms: u64,
) -> Vec<PlannedFault> {
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
    *load = CallLoad {
        busy_callers: 64,
        busy_think_ms: 2,
        keys: 200,
        many_percent: 100,
        current_percent: 0,
        raise_percent: 0,
        strict_percent: 0,
        ids_percent: 0,
        slow_think_ms: load.slow_think_ms.clone(),
    };
    let kill = |at_ms| PlannedFault {
        at_ms,
        for_ms: 200,
        target: FaultTarget::Owner,
        kind: FaultKind::Kill {
            rows: RowsCrashEffect::Lose(0),
        },
    };
    let mut kills = Vec::new();
    let mut at_ms = 500;
    while at_ms < faults_ms {
        at_ms += random.next_between(300, 1_500);
        kills.push(kill(at_ms));
    }
    kills
}

/// Draws faults during the initialization of the cluster (finding B3).
///
/// 1. Cut the power of one store.
/// 2. Wipe the disk of another store.
/// 3. Isolate or kill the third store.
pub(super) fn draw_init_faults(
    random: &mut RandomStream,
    setup: &mut ClusterSetup,
) -> Vec<PlannedFault> {
    setup.stores = 3;
    // Syncs are so slow that a fault can hit each step of the initialization.
    setup.sync_ms = (40, 80);
    setup.net.delay_max_ms = 1;
    setup.heartbeat_ms = setup.heartbeat_ms.max(100);
    let at_ms = random.next_between(20, 500);
    let powerless = random.next_below(3) as u32;
    let wiped = (powerless + 1 + random.next_below(2) as u32) % 3;
    let isolated = 3 - powerless - wiped;
    vec![
        PlannedFault {
            at_ms,
            for_ms: random.next_between(50, 1_500),
            target: FaultTarget::Store(powerless),
            kind: FaultKind::PowerCut {
                rows: RowsCrashEffect::Lose(0),
            },
        },
        PlannedFault {
            at_ms: at_ms + random.next_between(50, 500),
            for_ms: 1,
            target: FaultTarget::Store(wiped),
            kind: FaultKind::Wipe,
        },
        PlannedFault {
            at_ms: at_ms + random.next_between(0, 300),
            for_ms: random.next_between(500, 6_000),
            target: FaultTarget::Store(isolated),
            kind: random.pick_one(&[
                FaultKind::Part {
                    way: PartitionDirection::Both,
                    scope: PartitionScope::All,
                },
                FaultKind::Kill {
                    rows: RowsCrashEffect::Lose(0),
                },
            ]),
        },
    ]
}

/// Draws the fault that makes another cluster of the same machines.
pub(super) fn draw_remake(
    random: &mut RandomStream,
    setup: &ClusterSetup,
    faults_ms: u64,
) -> PlannedFault {
    PlannedFault {
        at_ms: random.next_between(faults_ms / 4, faults_ms * 2 / 3),
        for_ms: 1,
        target: FaultTarget::Store(0),
        kind: FaultKind::Remake {
            kept: random.next_below(u64::from(setup.allocs) + 1) as u32,
        },
    }
}

/// Draws the fault that wipes the disk of a store.
pub(super) fn draw_disk_loss(
    random: &mut RandomStream,
    setup: &ClusterSetup,
    faults_ms: u64,
) -> PlannedFault {
    let store = random.next_below(u64::from(setup.stores)) as u32;
    PlannedFault {
        at_ms: random.next_between(500, faults_ms),
        for_ms: 1,
        target: random.pick_one(&[FaultTarget::Leader, FaultTarget::Store(store)]),
        kind: FaultKind::Wipe,
    }
}
