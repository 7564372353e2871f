//! Shapes of the plans that search for a planted bug. Each makes the schedule that the bug needs
//! likely. A shape does not depend on the bug: the same plans pass without it.

use crate::clock::{Rates, TRUE_RATE};
use crate::plan::{Direction, Draw, Fault, Plan, RowsFate, Scope, Target, What};

/// Function that changes a drawn plan.
pub type Shape = fn(&mut Draw, &mut Plan);

/// Leaves the plan as it was drawn.
pub fn as_drawn(_: &mut Draw, _: &mut Plan) {}

/// Repeats faults over the whole plan, with pauses from `gap_min` to `gap_max`.
fn repeat(
    draw: &mut Draw,
    plan: &mut Plan,
    (gap_min, gap_max): (u64, u64),
    mut faults: impl FnMut(&mut Draw, u64) -> Vec<Fault>,
) {
    plan.faults.clear();
    let mut at_ms = draw.between(200, 1_000);
    while at_ms < plan.heal_at_ms {
        plan.faults.extend(faults(draw, at_ms));
        at_ms += draw.between(gap_min, gap_max);
    }
}

fn fault(at_ms: u64, for_ms: u64, target: Target, what: What) -> Fault {
    Fault {
        at_ms,
        for_ms,
        target,
        what,
    }
}

fn part(way: Direction, scope: Scope) -> What {
    What::Part { way, scope }
}

fn short_leases(plan: &mut Plan) -> u64 {
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
pub fn paused_and_cut_off(draw: &mut Draw, plan: &mut Plan) {
    let d = short_leases(plan);
    repeat(draw, plan, (4 * d, 6 * d), |draw, at_ms| {
        let target = draw.one_of(&[Target::Owner, Target::Alloc(0), Target::Alloc(1)]);
        let more_ms = draw.between(5, d / 20);
        let slow = What::Slow {
            more_ms,
            scope: Scope::Servers,
        };
        let at_stop_ms = at_ms + draw.between(200, 400);
        vec![
            fault(at_ms, 4 * d, target, slow),
            fault(at_stop_ms, draw.between(d / 3, d), target, What::Pause),
            fault(
                at_stop_ms,
                3 * d,
                target,
                part(Direction::Out, Scope::Servers),
            ),
        ]
    });
}

/// Partitions the AllocSvr with most slots from the servers, but not from clients.
pub fn owner_cut_off(draw: &mut Draw, plan: &mut Plan) {
    let d = short_leases(plan);
    plan.load.keys = 3;
    repeat(draw, plan, (2 * d, 5 * d), |draw, at_ms| {
        let way = draw.one_of(&[Direction::Both, Direction::Out, Direction::In]);
        let what = part(way, Scope::Servers);
        vec![fault(at_ms, draw.between(d, 4 * d), Target::Owner, what)]
    });
}

/// Partitions the leader from the other stores only.
pub fn leader_cut_off(draw: &mut Draw, plan: &mut Plan) {
    let d = short_leases(plan);
    repeat(draw, plan, (4 * d, 8 * d), |draw, at_ms| {
        let what = part(Direction::Both, Scope::Stores);
        vec![fault(
            at_ms,
            draw.between(2 * d, 4 * d),
            Target::Leader,
            what,
        )]
    });
}

/// Partitions an AllocSvr for about the takeover wait, with slow disks.
pub fn expired_late(draw: &mut Draw, plan: &mut Plan) {
    let d = short_leases(plan);
    plan.setup.sync_ms = (30, 60);
    repeat(draw, plan, (4 * d, 6 * d), |draw, at_ms| {
        let wait = d * 5 / 4;
        let what = part(Direction::Both, Scope::Servers);
        vec![fault(
            at_ms,
            draw.between(wait - 50, wait + 150),
            Target::Owner,
            what,
        )]
    });
}

/// Delays the requests of an AllocSvr until long after others own its slots, and closes sections
/// often.
pub fn late_requests(draw: &mut Draw, plan: &mut Plan) {
    let d = short_leases(plan);
    plan.setup.idle_after_ms = 50;
    plan.load.keys = 12;
    plan.load.busy_think_ms = 20;
    repeat(draw, plan, (4 * d, 6 * d), |draw, at_ms| {
        let what = part(Direction::Out, Scope::Servers);
        vec![fault(
            at_ms,
            draw.between(2 * d, 4 * d),
            Target::Owner,
            what,
        )]
    });
}

/// Moves slots all the time, and delays the messages of the AllocSvr with most slots.
pub fn moves(draw: &mut Draw, plan: &mut Plan) {
    let d = short_leases(plan);
    plan.setup.slots = 4;
    plan.load.keys = 3;
    repeat(draw, plan, (200, 600), |draw, at_ms| {
        let slot = draw.below(4) as u32;
        let slow = What::Slow {
            more_ms: draw.between(10, d / 10),
            scope: Scope::Servers,
        };
        vec![
            fault(at_ms, 0, Target::Owner, What::Move { slot }),
            fault(at_ms, draw.between(100, 500), Target::Owner, slow),
        ]
    });
}

/// Sets the clock rates to their bounds, and partitions AllocSvrs as [`owner_cut_off`] does.
pub fn drifting(draw: &mut Draw, plan: &mut Plan) {
    owner_cut_off(draw, plan);
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
pub fn power_cuts(draw: &mut Draw, plan: &mut Plan) {
    short_leases(plan);
    plan.setup.stores = 3;
    plan.setup.sync_ms = (20, 60);
    repeat(draw, plan, (30, 120), |draw, at_ms| {
        let cut = What::PowerCut {
            rows: RowsFate::Lose(0),
        };
        let store = Target::Store(draw.below(3) as u32);
        vec![fault(at_ms, draw.between(1, 30), store, cut)]
    });
}

/// Makes syncs fail on one store after another.
pub fn failing_syncs(draw: &mut Draw, plan: &mut Plan) {
    short_leases(plan);
    repeat(draw, plan, (300, 1_500), |draw, at_ms| {
        let store = Target::Store(draw.below(5) as u32);
        vec![fault(at_ms, draw.between(100, 500), store, What::FailSync)]
    });
}

/// Makes followers fall behind and receive snapshots, while each store writes its own snapshots.
pub fn snapshots(draw: &mut Draw, plan: &mut Plan) {
    short_leases(plan);
    plan.setup.snapshot_every = 20;
    plan.setup.step = 5;
    plan.load.busy_think_ms = 5;
    repeat(draw, plan, (500, 1_500), |draw, at_ms| {
        let store = Target::Follower(draw.below(5) as u32);
        let what = part(Direction::Both, Scope::Stores);
        vec![fault(at_ms, draw.between(200, 1_000), store, what)]
    });
}

/// Makes another cluster within the lease of AllocSvrs that keep running. Slow callers still use
/// the old one.
pub fn remade(draw: &mut Draw, plan: &mut Plan) {
    plan.setup.lease_ms = 3_000;
    plan.setup.heartbeat_ms = 30;
    plan.setup.allocs = 3;
    plan.rates = vec![Rates::TRUE; (plan.setup.stores + 3) as usize];
    plan.load.busy_callers = 8;
    plan.load.busy_think_ms = 20;
    plan.load.keys = 40;
    let kept = 1 + draw.below(2) as u32;
    let at_ms = draw.between(3_000, 6_000);
    plan.faults = vec![fault(at_ms, 1, Target::Store(0), What::Remake { kept })];
}

/// Removes an isolated leader, and gives its id to a new store.
pub fn reused_id(draw: &mut Draw, plan: &mut Plan) {
    short_leases(plan);
    let at_ms = draw.between(500, 2_000);
    plan.faults = vec![fault(at_ms, 7_000, Target::Leader, What::ReuseId)];
}

/// Runs a copy of a store beside the store, while leaders are killed.
pub fn copied(draw: &mut Draw, plan: &mut Plan) {
    short_leases(plan);
    repeat(draw, plan, (300, 900), |draw, at_ms| {
        let kill = What::Kill {
            rows: RowsFate::Lose(0),
        };
        vec![fault(at_ms, draw.between(200, 500), Target::Leader, kill)]
    });
    plan.faults
        .push(fault(400, plan.heal_at_ms, Target::Store(0), What::Copy));
}
