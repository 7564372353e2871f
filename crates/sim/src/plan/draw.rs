//! Draws a plan from a seed. Each class of faults is left out of half of all plans: a few faults in
//! a calm world find more bugs than all of them at once.

mod faults;
mod scenes;

use seqsvr_core::sim::{hash, mix};

use super::{Fault, Load, Plan, Setup, What};
use crate::clock::{Rates, TRUE_RATE};
use crate::net::NetConduct;

/// Stream of random numbers of a seed, one for each purpose.
pub struct Draw {
    state: u64,
    count: u64,
}

impl Draw {
    /// Creates the stream of a purpose.
    pub fn new(seed: u64, purpose: &str) -> Draw {
        Draw {
            state: mix(seed, hash(purpose)),
            count: 0,
        }
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.count += 1;
        mix(self.state, self.count)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// Returns a number from `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// Returns true with a probability of `percent`.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of several values.
    pub fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}

/// Class of faults. A plan has all faults of a class or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
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
const CLASSES: [Class; 6] = [
    Class::Net,
    Class::Process,
    Class::Machine,
    Class::Clock,
    Class::Disk,
    Class::Operations,
];

/// Maximum error of the rate of a bounded clock, parts per million (design 3: 10 %).
const DRIFT_MAX: u64 = 100_000;

impl Plan {
    /// Draws the plan of a seed, with faults for `faults_ms` milliseconds.
    pub fn draw(seed: u64, faults_ms: u64) -> Plan {
        let mut draw = Draw::new(seed, "classes");
        match draw.below(100) {
            0..4 => return Plan::draw_in(seed, faults_ms, &[Class::Flap]),
            4..7 => return Plan::draw_in(seed, faults_ms, &[Class::Flood]),
            7..12 => return Plan::draw_in(seed, faults_ms, &[Class::Genesis]),
            _ => {}
        }
        let mut classes: Vec<Class> = CLASSES.into_iter().filter(|_| draw.percent(50)).collect();
        if classes.is_empty() {
            classes.push(draw.one_of(&CLASSES));
        }
        match draw.below(100) {
            0..20 => classes.push(Class::Members),
            20..32 => classes.push(Class::Remake),
            _ => {}
        }
        Plan::draw_in(seed, faults_ms, &classes)
    }

    /// Draws a plan with faults of these classes.
    pub fn draw_in(seed: u64, faults_ms: u64, classes: &[Class]) -> Plan {
        let mut draw = Draw::new(seed, "plan");
        let mut setup = draw_setup(&mut draw);
        let mut load = draw_load(&mut draw, &setup);
        let has_bounded_clocks = !(classes.contains(&Class::Clock) && draw.percent(20));
        let has_rates = classes.contains(&Class::Clock);
        let servers = setup.stores + setup.allocs;
        let rates = (0..servers).map(|_| match has_rates {
            true => draw_rates(&mut draw),
            false => Rates::TRUE,
        });
        let rates = rates.collect();
        let faults = match classes {
            [Class::Flap] => scenes::flap(&mut draw, &mut setup, faults_ms),
            [Class::Flood] => scenes::flood(&mut draw, &mut setup, &mut load, faults_ms),
            [Class::Genesis] => scenes::genesis(&mut draw, &mut setup),
            _ => draw_faults(&mut draw, faults_ms, classes, &setup, has_bounded_clocks),
        };
        Plan {
            seed,
            planted: Vec::new(),
            setup,
            rates,
            has_bounded_clocks,
            faults,
            load,
            heal_at_ms: faults_ms,
            hits_genesis: classes.contains(&Class::Genesis),
            bounds_takeover: classes.contains(&Class::Flap),
        }
    }
}

fn draw_faults(
    draw: &mut Draw,
    faults_ms: u64,
    classes: &[Class],
    setup: &Setup,
    has_bounded_clocks: bool,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut at_ms = draw.between(100, 1_000);
    let gap = draw.one_of(&[300, 1_000, 2_500]);
    let usual: Vec<Class> = classes
        .iter()
        .copied()
        .filter(|c| *c != Class::Remake)
        .collect();
    while at_ms < faults_ms && !usual.is_empty() {
        let class = draw.one_of(&usual);
        faults.push(faults::draw_fault(
            draw,
            class,
            at_ms,
            setup,
            has_bounded_clocks,
        ));
        at_ms += draw.between(gap / 5, 2 * gap);
    }
    // Options of AllocSvrs name only the first stores, so one of those must stay: at most one
    // leaves, and at most one loses its disk.
    let mut has_left = false;
    faults.retain(|fault| {
        let leaves = matches!(fault.what, What::Replace | What::ReuseId);
        !(leaves && std::mem::replace(&mut has_left, true))
    });
    if classes.contains(&Class::Remake) {
        faults.push(scenes::remake(draw, setup, faults_ms));
    }
    // Of three stores at most one may lose its disk, and none of the two that a reused id leaves.
    let reuses_id = faults
        .iter()
        .any(|fault| matches!(fault.what, What::ReuseId));
    if classes.contains(&Class::Members) && draw.percent(50) && !reuses_id {
        faults.push(scenes::wipe(draw, setup, faults_ms));
    }
    faults
}

fn draw_setup(draw: &mut Draw) -> Setup {
    let lease_ms = draw.one_of(&[600, 900, 1_500, 3_000]);
    let sync_max = draw.one_of(&[1, 3, 8]);
    Setup {
        stores: draw.one_of(&[3, 3, 3, 5]),
        allocs: draw.one_of(&[2, 2, 3]),
        clients: 3,
        tick_ms: draw.one_of(&[1, 1, 2]),
        lease_ms,
        slots: draw.one_of(&[4, 16]),
        heartbeat_ms: lease_ms / 30,
        snapshot_every: draw.one_of(&[20, 100, 1_000]),
        step: draw.one_of(&[5, 20, 200]),
        idle_after_ms: draw.one_of(&[1_500, 5_000, 60_000]),
        net: NetConduct {
            delay_min_ms: 1,
            delay_max_ms: draw.one_of(&[1, 4, 12]),
            slow_per_mille: draw.one_of(&[0, 0, 10]),
            window: draw.one_of(&[64 << 10, 64 << 10, 4 << 10]),
            short_read_per_mille: draw.one_of(&[0, 50]),
        },
        sync_ms: (1, sync_max),
        entry_bytes: None,
    }
}

fn draw_rates(draw: &mut Draw) -> Rates {
    let mut rate = || match draw.percent(30) {
        // Exactly at a bound.
        true => draw.one_of(&[TRUE_RATE - DRIFT_MAX, TRUE_RATE + DRIFT_MAX]),
        false => draw.between(TRUE_RATE - DRIFT_MAX, TRUE_RATE + DRIFT_MAX),
    };
    Rates {
        main: rate(),
        raw: rate(),
    }
}

fn draw_load(draw: &mut Draw, setup: &Setup) -> Load {
    let wait = setup.lease_ms * 5 / 4;
    Load {
        busy_callers: draw.one_of(&[2, 4, 8]),
        busy_think_ms: draw.one_of(&[5, 20, 60]),
        slow_think_ms: vec![wait, 3 * wait],
        keys: draw.one_of(&[3, 12, 40]),
        many_percent: draw.one_of(&[0, 10, 30]),
        current_percent: draw.one_of(&[0, 10]),
        raise_percent: draw.one_of(&[0, 0, 4]),
        strict_percent: draw.one_of(&[0, 5, 20]),
    }
}
