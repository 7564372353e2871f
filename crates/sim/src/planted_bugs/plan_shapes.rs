//! Shapes of the plans that search for a planted bug. Each makes the schedule that the bug needs
//! likely. A shape does not depend on the bug: the same plans pass without it.

use crate::machine::{Rates, TRUE_RATE};
use crate::plan::{
    FamilySetup, FaultKind, FaultTarget, PartitionDirection, PartitionScope, PlannedFault,
    RowsCrashEffect, RunPlan, draw_family,
};
use crate::random_stream::RandomStream;

/// Function that changes a drawn plan.
pub type PlanShape = fn(&mut RandomStream, &mut RunPlan);

/// Leaves the plan as it was drawn.
pub fn keep_as_drawn(_: &mut RandomStream, _: &mut RunPlan) {}

/// Repeats faults over the whole plan, with pauses from `gap_min` to `gap_max`.
fn repeat_faults(
    random: &mut RandomStream,
    plan: &mut RunPlan,
    (gap_min, gap_max): (u64, u64),
    mut faults: impl FnMut(&mut RandomStream, u64) -> Vec<PlannedFault>,
) {
    plan.faults.clear();
    let mut at_ms = random.next_between(200, 1_000);
    while at_ms < plan.heal_at_ms {
        plan.faults.extend(faults(random, at_ms));
        at_ms += random.next_between(gap_min, gap_max);
    }
}

fn new_fault(at_ms: u64, for_ms: u64, target: FaultTarget, kind: FaultKind) -> PlannedFault {
    PlannedFault {
        at_ms,
        for_ms,
        target,
        kind,
    }
}

fn partition(way: PartitionDirection, scope: PartitionScope) -> FaultKind {
    FaultKind::Part { way, scope }
}

fn set_short_lease(plan: &mut RunPlan) -> u64 {
    plan.setup.lease_ms = 600;
    plan.setup.heartbeat_ms = 20;
    plan.load.slow_think_ms = vec![750, 2_250];
    plan.setup.lease_ms
}

/// Stops an AllocSvr behind slow links.
///
/// 1. Slow the links of an AllocSvr.
/// 2. Stop its process (SIGSTOP).
/// 3. Block what it sends to the servers at the same time, for longer than the stop.
pub fn pause_and_partition_alloc(random: &mut RandomStream, plan: &mut RunPlan) {
    let lease_ms = set_short_lease(plan);
    repeat_faults(
        random,
        plan,
        (4 * lease_ms, 6 * lease_ms),
        |random, at_ms| {
            let target = random.pick_one(&[
                FaultTarget::Owner,
                FaultTarget::Alloc(0),
                FaultTarget::Alloc(1),
            ]);
            let more_ms = random.next_between(5, lease_ms / 20);
            let slow = FaultKind::Slow {
                more_ms,
                scope: PartitionScope::Servers,
            };
            let pause_at_ms = at_ms + random.next_between(200, 400);
            vec![
                new_fault(at_ms, 4 * lease_ms, target, slow),
                new_fault(
                    pause_at_ms,
                    random.next_between(lease_ms / 3, lease_ms),
                    target,
                    FaultKind::Pause,
                ),
                new_fault(
                    pause_at_ms,
                    3 * lease_ms,
                    target,
                    partition(PartitionDirection::Out, PartitionScope::Servers),
                ),
            ]
        },
    );
}

/// Partitions the AllocSvr with most slots from the servers, but not from clients.
pub fn partition_owner(random: &mut RandomStream, plan: &mut RunPlan) {
    let lease_ms = set_short_lease(plan);
    plan.load.keys = 3;
    repeat_faults(
        random,
        plan,
        (2 * lease_ms, 5 * lease_ms),
        |random, at_ms| {
            let way = random.pick_one(&[
                PartitionDirection::Both,
                PartitionDirection::Out,
                PartitionDirection::In,
            ]);
            let kind = partition(way, PartitionScope::Servers);
            vec![new_fault(
                at_ms,
                random.next_between(lease_ms, 4 * lease_ms),
                FaultTarget::Owner,
                kind,
            )]
        },
    );
}

/// Partitions AllocSvrs as [`partition_owner`] does, while a rogue speaks for them.
pub fn partition_owner_beside_rogue(random: &mut RandomStream, plan: &mut RunPlan) {
    partition_owner(random, plan);
    plan.has_rogue = true;
}

/// Partitions the leader from the other stores only.
pub fn partition_leader(random: &mut RandomStream, plan: &mut RunPlan) {
    let lease_ms = set_short_lease(plan);
    repeat_faults(
        random,
        plan,
        (4 * lease_ms, 8 * lease_ms),
        |random, at_ms| {
            let kind = partition(PartitionDirection::Both, PartitionScope::Stores);
            vec![new_fault(
                at_ms,
                random.next_between(2 * lease_ms, 4 * lease_ms),
                FaultTarget::Leader,
                kind,
            )]
        },
    );
}

/// Partitions an AllocSvr for about the takeover wait, with slow disks.
pub fn partition_until_expiry(random: &mut RandomStream, plan: &mut RunPlan) {
    let lease_ms = set_short_lease(plan);
    plan.setup.sync_ms = (30, 60);
    repeat_faults(
        random,
        plan,
        (4 * lease_ms, 6 * lease_ms),
        |random, at_ms| {
            let wait = lease_ms * 5 / 4;
            let kind = partition(PartitionDirection::Both, PartitionScope::Servers);
            vec![new_fault(
                at_ms,
                random.next_between(wait - 50, wait + 150),
                FaultTarget::Owner,
                kind,
            )]
        },
    );
}

/// Delays the requests of an AllocSvr until long after others own its slots, and closes sections
/// often.
pub fn delay_requests(random: &mut RandomStream, plan: &mut RunPlan) {
    let lease_ms = set_short_lease(plan);
    plan.setup.idle_after_ms = 50;
    plan.load.keys = 12;
    plan.load.busy_think_ms = 20;
    repeat_faults(
        random,
        plan,
        (4 * lease_ms, 6 * lease_ms),
        |random, at_ms| {
            let kind = partition(PartitionDirection::Out, PartitionScope::Servers);
            vec![new_fault(
                at_ms,
                random.next_between(2 * lease_ms, 4 * lease_ms),
                FaultTarget::Owner,
                kind,
            )]
        },
    );
}

/// Moves slots all the time, and delays the messages of the AllocSvr with most slots.
pub fn move_slots(random: &mut RandomStream, plan: &mut RunPlan) {
    let lease_ms = set_short_lease(plan);
    plan.setup.slots = 4;
    plan.load.keys = 3;
    repeat_faults(random, plan, (200, 600), |random, at_ms| {
        let slot = random.next_below(4) as u32;
        let slow = FaultKind::Slow {
            more_ms: random.next_between(10, lease_ms / 10),
            scope: PartitionScope::Servers,
        };
        vec![
            new_fault(at_ms, 0, FaultTarget::Owner, FaultKind::Move { slot }),
            new_fault(
                at_ms,
                random.next_between(100, 500),
                FaultTarget::Owner,
                slow,
            ),
        ]
    });
}

/// Sets the clock rates to their bounds, and partitions AllocSvrs as [`partition_owner`] does.
pub fn drift_clocks(random: &mut RandomStream, plan: &mut RunPlan) {
    partition_owner(random, plan);
    let bound = |rate| Rates {
        main: rate,
        raw: rate,
    };
    let stores = plan.setup.stores as usize;
    for (at, rates) in plan.rates.iter_mut().enumerate() {
        *rates = bound(match at < stores {
            true => TRUE_RATE * 11 / 10,
            false => TRUE_RATE * 9 / 10,
        });
    }
}

/// Cuts the power of stores again and again during elections, with slow disks.
pub fn cut_power(random: &mut RandomStream, plan: &mut RunPlan) {
    set_short_lease(plan);
    plan.setup.stores = 3;
    plan.setup.sync_ms = (20, 60);
    repeat_faults(random, plan, (30, 120), |random, at_ms| {
        let cut = FaultKind::PowerCut {
            rows: RowsCrashEffect::Lose(0),
        };
        let store = FaultTarget::Store(random.next_below(3) as u32);
        vec![new_fault(at_ms, random.next_between(1, 30), store, cut)]
    });
}

/// Makes syncs fail on one store after another.
pub fn fail_syncs(random: &mut RandomStream, plan: &mut RunPlan) {
    set_short_lease(plan);
    repeat_faults(random, plan, (300, 1_500), |random, at_ms| {
        let store = FaultTarget::Store(random.next_below(5) as u32);
        vec![new_fault(
            at_ms,
            random.next_between(100, 500),
            store,
            FaultKind::FailSync,
        )]
    });
}

/// Makes followers fall behind and receive snapshots, while each store writes its own snapshots.
pub fn force_snapshots(random: &mut RandomStream, plan: &mut RunPlan) {
    set_short_lease(plan);
    plan.setup.snapshot_every = 20;
    plan.setup.step = 5;
    plan.load.busy_think_ms = 5;
    repeat_faults(random, plan, (500, 1_500), |random, at_ms| {
        let store = FaultTarget::Follower(random.next_below(5) as u32);
        let kind = partition(PartitionDirection::Both, PartitionScope::Stores);
        vec![new_fault(
            at_ms,
            random.next_between(200, 1_000),
            store,
            kind,
        )]
    });
}

/// Makes another cluster within the lease of AllocSvrs that keep running. Slow callers still use
/// the old one.
pub fn remake_cluster(random: &mut RandomStream, plan: &mut RunPlan) {
    plan.setup.lease_ms = 3_000;
    plan.setup.heartbeat_ms = 30;
    plan.setup.allocs = 3;
    plan.rates = vec![Rates::TRUE; (plan.setup.stores + 3) as usize];
    plan.load.busy_callers = 8;
    plan.load.busy_think_ms = 20;
    plan.load.keys = 40;
    let kept = 1 + random.next_below(2) as u32;
    let at_ms = random.next_between(3_000, 6_000);
    plan.faults = vec![new_fault(
        at_ms,
        1,
        FaultTarget::Store(0),
        FaultKind::Remake { kept },
    )];
}

/// Removes an isolated leader, and gives its id to a new store.
pub fn reuse_store_id(random: &mut RandomStream, plan: &mut RunPlan) {
    set_short_lease(plan);
    let at_ms = random.next_between(500, 2_000);
    plan.faults = vec![new_fault(
        at_ms,
        7_000,
        FaultTarget::Leader,
        FaultKind::ReuseId,
    )];
}

/// Runs a copy of a store beside the store, while leaders are killed.
pub fn copy_store(random: &mut RandomStream, plan: &mut RunPlan) {
    set_short_lease(plan);
    repeat_faults(random, plan, (300, 900), |random, at_ms| {
        let kill = FaultKind::Kill {
            rows: RowsCrashEffect::Lose(0),
        };
        vec![new_fault(
            at_ms,
            random.next_between(200, 500),
            FaultTarget::Leader,
            kill,
        )]
    });
    plan.faults.push(new_fault(
        400,
        plan.heal_at_ms,
        FaultTarget::Store(0),
        FaultKind::Copy,
    ));
}

/// Cuts a follower off from the stores, but not from the AllocSvrs, while the leader is dead.
///
/// 1. Isolate the first of the followers from all other stores: it names the leader without end.
/// 2. Kill the leader. The list that it sent names that follower after it.
pub fn isolate_follower_of_dead_leader(random: &mut RandomStream, plan: &mut RunPlan) {
    set_short_lease(plan);
    plan.setup.stores = 5;
    plan.bounds_outages = true;
    let at_ms = random.next_between(500, 2_000);
    let isolate = partition(PartitionDirection::Both, PartitionScope::Stores);
    let kill = FaultKind::Kill {
        rows: RowsCrashEffect::Lose(0),
    };
    let until_end = plan.heal_at_ms;
    plan.faults = vec![
        new_fault(at_ms, until_end, FaultTarget::Follower(0), isolate),
        new_fault(at_ms + 10, until_end, FaultTarget::Leader, kill),
    ];
}

/// Pauses a holder until another one has its worker: there are two of each, and the second holder
/// is killed and started again during that time.
pub fn wake_paused_holder(random: &mut RandomStream, plan: &mut RunPlan) {
    plan.setup.holders = 2;
    plan.setup.family = Some(FamilySetup {
        worker_bits: 1,
        workers_per_holder: 1,
        window_ms: 1_000,
        ahead_ms: 200,
        ..draw_family(random)
    });
    repeat_faults(random, plan, (4_000, 5_000), |random, at_ms| {
        let kill = FaultKind::Kill {
            rows: RowsCrashEffect::Lose(0),
        };
        let killed_at_ms = at_ms + random.next_between(200, 500);
        vec![
            new_fault(at_ms, 3_000, FaultTarget::Holder(0), FaultKind::Pause),
            new_fault(killed_at_ms, 1_300, FaultTarget::Holder(1), kill),
        ]
    });
}

/// Resets the connections of AllocSvrs, so that clients request ids from another one.
pub fn change_servers_of_ids(random: &mut RandomStream, plan: &mut RunPlan) {
    plan.setup.family = Some(FamilySetup {
        worker_bits: 3,
        ..draw_family(random)
    });
    plan.load.ids_percent = 60;
    repeat_faults(random, plan, (100, 400), |random, at_ms| {
        let alloc = FaultTarget::Alloc(random.next_below(3) as u32);
        vec![new_fault(at_ms, 1, alloc, FaultKind::Reset)]
    });
}

/// Sets the wall clock of the leader an hour ahead or back, again and again.
pub fn set_wall_clock_of_leader(random: &mut RandomStream, plan: &mut RunPlan) {
    plan.setup.family = Some(draw_family(random));
    plan.load.ids_percent = 20;
    plan.bounds_id_time = true;
    repeat_faults(random, plan, (2_000, 4_000), |random, at_ms| {
        let kind = FaultKind::Wall {
            by_ms: random.pick_one(&[-3_600_000, 3_600_000]),
            rate: TRUE_RATE,
            all: false,
        };
        vec![new_fault(at_ms, 1_500, FaultTarget::Leader, kind)]
    });
}
