//! Draws a plan from a seed. Each class of faults is left out of half of all plans: a few faults in
//! a calm world find more bugs than all of them at once.

use super::fault_class::FaultClass;
use super::fault_draw::{draw_fault, draw_rates};
use super::fault_scenarios;
use super::ids_draw;
use super::planned_fault::{FaultKind, PlannedFault};
use super::run_plan::{CallLoad, ClusterSetup, RunPlan};
use crate::machine::Rates;
use crate::network::NetworkConditions;
use crate::random_stream::RandomStream;

/// Classes that half of all plans have.
const COMMON_CLASSES: [FaultClass; 6] = [
    FaultClass::Net,
    FaultClass::Process,
    FaultClass::Machine,
    FaultClass::Clock,
    FaultClass::Disk,
    FaultClass::Operations,
];

/// Draws the plan of a seed, with faults for `faults_ms` milliseconds.
pub fn draw_plan(seed: u64, faults_ms: u64) -> RunPlan {
    let mut random = RandomStream::new(seed, "classes");
    match random.next_below(100) {
        0..4 => return draw_plan_with_classes(seed, faults_ms, &[FaultClass::Flap]),
        4..7 => return draw_plan_with_classes(seed, faults_ms, &[FaultClass::Flood]),
        7..12 => return draw_plan_with_classes(seed, faults_ms, &[FaultClass::Genesis]),
        _ => {}
    }
    let mut classes: Vec<FaultClass> = COMMON_CLASSES
        .into_iter()
        .filter(|_| random.next_bool(50))
        .collect();
    if classes.is_empty() {
        classes.push(random.pick_one(&COMMON_CLASSES));
    }
    match random.next_below(100) {
        0..20 => classes.push(FaultClass::Members),
        20..32 => classes.push(FaultClass::Remake),
        _ => {}
    }
    let mut plan = draw_plan_with_classes(seed, faults_ms, &classes);
    let mut random = RandomStream::new(seed, "ids");
    if random.next_bool(50) {
        ids_draw::add_ids(&mut random, &mut plan);
    }
    plan
}

/// Draws a plan with faults of these classes.
pub fn draw_plan_with_classes(seed: u64, faults_ms: u64, classes: &[FaultClass]) -> RunPlan {
    let mut random = RandomStream::new(seed, "plan");
    let mut setup = draw_setup(&mut random);
    let mut load = draw_load(&mut random, &setup);
    let has_bounded_clocks = !(classes.contains(&FaultClass::Clock) && random.next_bool(20));
    let has_rates = classes.contains(&FaultClass::Clock);
    let servers = setup.stores + setup.allocs;
    let rates = (0..servers).map(|_| match has_rates {
        true => draw_rates(&mut random),
        false => Rates::TRUE,
    });
    let rates = rates.collect();
    let faults = match classes {
        [FaultClass::Flap] => {
            fault_scenarios::draw_flapping_quorum(&mut random, &mut setup, faults_ms)
        }
        [FaultClass::Flood] => {
            fault_scenarios::draw_command_flood(&mut random, &mut setup, &mut load, faults_ms)
        }
        [FaultClass::Genesis] => fault_scenarios::draw_init_faults(&mut random, &mut setup),
        _ => draw_faults(&mut random, faults_ms, classes, &setup, has_bounded_clocks),
    };
    RunPlan {
        seed,
        planted: Vec::new(),
        setup,
        rates,
        has_bounded_clocks,
        faults,
        load,
        heal_at_ms: faults_ms,
        hits_genesis: classes.contains(&FaultClass::Genesis),
        bounds_takeover: classes.contains(&FaultClass::Flap),
        bounds_outages: false,
        has_rogue: classes.contains(&FaultClass::Process),
        bounds_id_time: false,
    }
}

fn draw_faults(
    random: &mut RandomStream,
    faults_ms: u64,
    classes: &[FaultClass],
    setup: &ClusterSetup,
    has_bounded_clocks: bool,
) -> Vec<PlannedFault> {
    let mut faults = Vec::new();
    let mut at_ms = random.next_between(100, 1_000);
    let gap = random.pick_one(&[300, 1_000, 2_500]);
    let drawn_classes: Vec<FaultClass> = classes
        .iter()
        .copied()
        .filter(|c| *c != FaultClass::Remake)
        .collect();
    while at_ms < faults_ms && !drawn_classes.is_empty() {
        let class = random.pick_one(&drawn_classes);
        faults.push(draw_fault(random, class, at_ms, setup, has_bounded_clocks));
        at_ms += random.next_between(gap / 5, 2 * gap);
    }
    // Options of AllocSvrs name only the first stores, so one of those must stay: at most one
    // leaves, and at most one loses its disk.
    let mut has_leaving_store = false;
    faults.retain(|fault| {
        let leaves = matches!(fault.kind, FaultKind::Replace | FaultKind::ReuseId);
        !(leaves && std::mem::replace(&mut has_leaving_store, true))
    });
    if classes.contains(&FaultClass::Remake) {
        faults.push(fault_scenarios::draw_remake(random, setup, faults_ms));
    }
    // Of three stores at most one may lose its disk, and none of the two that a reused id leaves.
    let reuses_id = faults
        .iter()
        .any(|fault| matches!(fault.kind, FaultKind::ReuseId));
    if classes.contains(&FaultClass::Members) && random.next_bool(50) && !reuses_id {
        faults.push(fault_scenarios::draw_disk_loss(random, setup, faults_ms));
    }
    faults
}

fn draw_setup(random: &mut RandomStream) -> ClusterSetup {
    let lease_ms = random.pick_one(&[600, 900, 1_500, 3_000]);
    let sync_max = random.pick_one(&[1, 3, 8]);
    ClusterSetup {
        stores: random.pick_one(&[3, 3, 3, 5]),
        allocs: random.pick_one(&[2, 2, 3]),
        clients: 3,
        tick_ms: random.pick_one(&[1, 1, 2]),
        lease_ms,
        slots: random.pick_one(&[4, 16]),
        heartbeat_ms: lease_ms / 30,
        snapshot_every: random.pick_one(&[20, 100, 1_000]),
        step: random.pick_one(&[5, 20, 200]),
        idle_after_ms: random.pick_one(&[1_500, 5_000, 60_000]),
        net: NetworkConditions {
            delay_min_ms: 1,
            delay_max_ms: random.pick_one(&[1, 4, 12]),
            slow_per_mille: random.pick_one(&[0, 0, 10]),
            window: random.pick_one(&[64 << 10, 64 << 10, 4 << 10]),
            short_read_per_mille: random.pick_one(&[0, 50]),
        },
        sync_ms: (1, sync_max),
        entry_bytes: None,
        family: None,
        holders: 0,
    }
}

fn draw_load(random: &mut RandomStream, setup: &ClusterSetup) -> CallLoad {
    let wait = setup.lease_ms * 5 / 4;
    CallLoad {
        busy_callers: random.pick_one(&[2, 4, 8]),
        busy_think_ms: random.pick_one(&[5, 20, 60]),
        slow_think_ms: vec![wait, 3 * wait],
        keys: random.pick_one(&[3, 12, 40]),
        many_percent: random.pick_one(&[0, 10, 30]),
        current_percent: random.pick_one(&[0, 10]),
        raise_percent: random.pick_one(&[0, 0, 4]),
        strict_percent: random.pick_one(&[0, 5, 20]),
        ids_percent: 0,
    }
}
