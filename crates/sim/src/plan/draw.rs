//! Draws a plan from a seed. Each class of faults is left out of half of all plans: a few faults in a calm world
//! find more than all of them at once.

use seqsvr_core::sim::{hash, mix};

use super::{Direction, Fault, Load, Plan, RowsFate, Setup, Target, What};
use crate::clock::{Rates, TRUE_RATE};
use crate::net::NetConduct;

/// Numbers from a seed, one stream for each purpose.
pub struct Draw {
    state: u64,
    count: u64,
}

impl Draw {
    /// A stream for a purpose.
    pub fn new(seed: u64, purpose: &str) -> Draw {
        Draw {
            state: mix(seed, hash(purpose)),
            count: 0,
        }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.count += 1;
        mix(self.state, self.count)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// A number from `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True so many times out of a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}

/// Classes of faults, each of which a plan has or has not.
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
    /// Moves, drains, restarts and transfers.
    Operations,
}

const CLASSES: [Class; 6] = [
    Class::Net,
    Class::Process,
    Class::Machine,
    Class::Clock,
    Class::Disk,
    Class::Operations,
];

/// Most that a clock may be off, parts per million (design 3: 10 %).
const DRIFT_MAX: u64 = 100_000;

impl Plan {
    /// Draws the plan of a seed: faults for so many milliseconds.
    pub fn draw(seed: u64, faults_ms: u64) -> Plan {
        let mut draw = Draw::new(seed, "classes");
        let mut classes: Vec<Class> = CLASSES.into_iter().filter(|_| draw.percent(50)).collect();
        if classes.is_empty() {
            classes.push(draw.one_of(&CLASSES));
        }
        Plan::draw_in(seed, faults_ms, &classes)
    }

    /// Draws a plan that has faults of these classes.
    pub fn draw_in(seed: u64, faults_ms: u64, classes: &[Class]) -> Plan {
        let mut draw = Draw::new(seed, "plan");
        let setup = draw_setup(&mut draw);
        let has_bounded_clocks = !(classes.contains(&Class::Clock) && draw.percent(20));
        let has_rates = classes.contains(&Class::Clock);
        let servers = setup.stores + setup.allocs;
        let rates = (0..servers).map(|_| match has_rates {
            true => draw_rates(&mut draw),
            false => Rates::TRUE,
        });
        let rates = rates.collect();
        let mut faults = Vec::new();
        let mut at_ms = draw.between(100, 1_000);
        let gap = draw.one_of(&[300, 1_000, 2_500]);
        while at_ms < faults_ms {
            let class = draw.one_of(classes);
            faults.push(draw_fault(
                &mut draw,
                class,
                at_ms,
                &setup,
                has_bounded_clocks,
            ));
            at_ms += draw.between(gap / 5, 2 * gap);
        }
        let load = draw_load(&mut draw, &setup);
        Plan {
            seed,
            planted: Vec::new(),
            setup,
            rates,
            has_bounded_clocks,
            faults,
            load,
            heal_at_ms: faults_ms,
        }
    }
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
    }
}

fn draw_rates(draw: &mut Draw) -> Rates {
    let mut rate = || match draw.percent(30) {
        // At the very bound.
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

fn draw_fault(
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
                clients: draw.percent(30),
            },
            4 | 5 => What::Slow {
                more_ms: draw.between(10, d / 3),
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
            match draw.below(5) {
                0 => {
                    target = draw.one_of(&[Target::Owner, Target::Alloc(alloc)]);
                    What::Leave
                }
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
    };
    Fault {
        at_ms,
        for_ms,
        target,
        what,
    }
}
