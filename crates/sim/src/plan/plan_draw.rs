//! Draws a plan from a seed. Each class of faults is left out of half of all plans: a few faults in
//! a calm world find more bugs than all of them at once.

use seqsvr_core::sim::{hash, mix};

use super::run_plan::{CallLoad, ClusterSetup, FaultKind, PlannedFault, RunPlan};
use super::{fault_draw, fault_scenarios};
use crate::machine::{Rates, TRUE_RATE};
use crate::network::NetworkConditions;

/// Stream of random numbers of a seed, one for each purpose.
pub struct RandomStream {
    state: u64,
    count: u64,
}

impl RandomStream {
    /// Creates the stream of a purpose.
    pub fn new(seed: u64, purpose: &str) -> RandomStream {
        RandomStream {
            state: mix(seed, hash(purpose)),
            count: 0,
        }
    }

    /// Returns the next number.
    pub fn next_number(&mut self) -> u64 {
        self.count += 1;
        mix(self.state, self.count)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn next_below(&mut self, end: u64) -> u64 {
        self.next_number() % end.max(1)
    }

    /// Returns a number from `from` to `to`, both included.
    pub fn next_between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next_below(to - from + 1)
    }

    /// Returns true with a probability of `percent`.
    pub fn next_bool(&mut self, percent: u64) -> bool {
        self.next_below(100) < percent
    }

    /// Returns one of several values.
    pub fn pick_one<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.next_below(all.len() as u64) as usize].clone()
    }
}

/// Class of faults. A plan has all faults of a class or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// Partitions, slow links, resets.
    Net,
    /// Processes that are stopped or killed.
    Process,
    /// Machines that lose their power or are suspended.
    Machine,
    /// Clocks that run at other rates.
    Clock,
    /// Disks whose syncs are slow or fail.
    Disk,
    /// Moves, drains, graceful restarts, leadership transfers, and an AllocSvr that joins.
    Operations,
    /// Stores that join, leave, lose their disks or run beside a copy.
    Members,
    /// Another cluster is made of the same machines.
    Remake,
    /// The leader loses its quorum again and again while an AllocSvr is dead.
    Flap,
    /// More commands wait for the log than an entry can hold.
    Flood,
    /// Faults during the initialization of the cluster.
    Genesis,
}

/// Classes that half of all plans have.
const COMMON_CLASSES: [FaultClass; 6] = [
    FaultClass::Net,
    FaultClass::Process,
    FaultClass::Machine,
    FaultClass::Clock,
    FaultClass::Disk,
    FaultClass::Operations,
];

/// Maximum error of the rate of a bounded clock, parts per million (design 3: 10 %).
const CLOCK_DRIFT_MAX_PPM: u64 = 100_000;

impl RunPlan {
    /// Draws the plan of a seed, with faults for `faults_ms` milliseconds.
    pub fn draw(seed: u64, faults_ms: u64) -> RunPlan {
        let mut random = RandomStream::new(seed, "classes");
        match random.next_below(100) {
            0..4 => return RunPlan::draw_with_classes(seed, faults_ms, &[FaultClass::Flap]),
            4..7 => return RunPlan::draw_with_classes(seed, faults_ms, &[FaultClass::Flood]),
            7..12 => return RunPlan::draw_with_classes(seed, faults_ms, &[FaultClass::Genesis]),
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
        RunPlan::draw_with_classes(seed, faults_ms, &classes)
    }

    /// Draws a plan with faults of these classes.
    pub fn draw_with_classes(seed: u64, faults_ms: u64, classes: &[FaultClass]) -> RunPlan {
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
        }
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
        faults.push(fault_draw::draw_fault(
            random,
            class,
            at_ms,
            setup,
            has_bounded_clocks,
        ));
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
    }
}

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
    }
}
