//! Machines of a run (stores, AllocSvrs and clients), and how their processes start and end.

mod changes;
mod machine;
mod options;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use seqsvr_alloc::{Alloc, Clock};
use seqsvr_core::lease::Reading;
use seqsvr_core::sim::{self, mix};
use seqsvr_proto::os::files;
use seqsvr_store::Store;
use seqsvr_store::sim as disks;

use crate::clock::{Clocks, Rates};
use crate::net::{MachineId, Net};
use crate::plan::{Plan, RowsFate, Setup};
use crate::process::{MachineClock, Process};
pub use machine::{Machine, Role};
use options::{alloc_options, store_options};

/// All machines of a run.
pub struct Cluster {
    seed: u64,
    /// Options of the servers.
    pub setup: Setup,
    /// Simulated network.
    pub net: Net,
    /// Machines by number.
    pub machines: BTreeMap<MachineId, Machine>,
    /// Simulated time, ms.
    pub now: u64,
    /// Time at which all stores were last wiped to make another cluster of them, ms.
    pub remade_at: Option<u64>,
    starts: u64,
}

/// Maximum stores of a run, with those that join. Above it, no store joins.
const STORES_MAX: MachineId = 10;

/// Returns the numbers of the stores that form the cluster at its initialization.
pub fn stores(setup: &Setup) -> impl Iterator<Item = MachineId> + use<> {
    1..=setup.stores
}

/// Returns the numbers of the AllocSvrs that run from the start. The next number may join.
pub fn allocs(setup: &Setup) -> impl Iterator<Item = MachineId> + use<> {
    11..11 + setup.allocs
}

/// Returns the numbers of the clients.
pub fn clients(setup: &Setup) -> impl Iterator<Item = MachineId> + use<> {
    21..21 + setup.clients
}

/// Returns the address on which a store listens.
pub fn store_address(id: MachineId) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, id as u8], 7800))
}

/// Returns the address on which an AllocSvr listens.
pub fn alloc_address(id: MachineId) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, id as u8], 7700))
}

struct AllocClock(MachineClock);

impl Clock for AllocClock {
    fn now(&self) -> Reading {
        self.0.read_alloc()
    }
}

impl Cluster {
    /// Creates all machines of a plan, without processes. Their directories lie below `root`.
    pub fn new(plan: &Plan, net: Net, root: &Path) -> Cluster {
        let setup = plan.setup.clone();
        let first = stores(&setup).chain(allocs(&setup));
        let rates: BTreeMap<MachineId, Rates> = first.zip(plan.rates.iter().copied()).collect();
        let mut machines = BTreeMap::new();
        let mut add = |id: MachineId, role: Role, clocks: Clocks| {
            let silenced = net.clone();
            let silence = move |until| silenced.silence(id, until);
            let machine = Machine {
                id,
                role,
                clock: MachineClock::new(clocks, silence),
                process: None,
                refusal: Arc::default(),
                in_use: false,
                was_used: false,
                is_wiped: false,
                may_stop: false,
                is_removed: false,
                store_id: u64::from(id),
                boots: 1,
                dir: root.join(format!("m{id}")),
            };
            machines.insert(id, machine);
        };
        for id in (1..=STORES_MAX).chain(11..=11 + setup.allocs) {
            let role = match id <= STORES_MAX {
                true => Role::Store(Arc::default()),
                false => Role::Alloc(Arc::default()),
            };
            net.add_host(store_address(id), id);
            let rates = rates.get(&id).copied().unwrap_or(Rates::TRUE);
            add(id, role, Clocks::new(rates));
        }
        for id in clients(&setup) {
            add(id, Role::Client, Clocks::new(Rates::TRUE));
        }
        Cluster {
            seed: plan.seed,
            setup,
            net,
            machines,
            now: 0,
            remade_at: None,
            starts: 0,
        }
    }

    /// Starts the process of a machine that has none.
    ///
    /// # Errors
    /// If the operating system provides no runtime.
    pub fn start(&mut self, id: MachineId) -> io::Result<()> {
        self.starts += 1;
        let Some(machine) = self.machines.get_mut(&id) else {
            return Ok(());
        };
        let process = Process::new(self.starts, self.seed, machine.clock.clone(), self.now)?;
        sim::set_boot(self.starts, format!("{id}.{}", machine.boots));
        *machine.refusal.lock() = None;
        let setup = &self.setup;
        let transport = self.net.transport(id);
        let refusal = machine.refusal.clone();
        let store_id = machine.store_id;
        let clock = machine.clock.clone();
        match &machine.role {
            Role::Store(running) => {
                let options = store_options(setup, store_id, id, machine.data_dir());
                let environment = seqsvr_store::Environment {
                    clock: Arc::new(move || clock.read_store()),
                    transport,
                };
                let running = running.clone();
                process.spawn(async move {
                    match Store::start_in(options, environment).await {
                        Ok(store) => *running.lock() = Some(store),
                        Err(e) => *refusal.lock() = Some(e.to_string()),
                    }
                });
            }
            Role::Alloc(running) => {
                let seed = mix(self.seed, self.starts);
                let options = alloc_options(setup, id, &machine.dir, seed);
                let environment = seqsvr_alloc::Environment {
                    clock: Arc::new(AllocClock(clock)),
                    transport,
                    background: None,
                };
                let running = running.clone();
                process.spawn(async move {
                    match Alloc::start_in(options, environment).await {
                        Ok(alloc) => *running.lock() = Some(alloc),
                        Err(e) => *refusal.lock() = Some(e.to_string()),
                    }
                });
            }
            Role::Client => {}
        }
        machine.process = Some(process);
        self.tell(id, "starts");
        Ok(())
    }

    /// Records an event of a machine in the trace.
    pub fn tell(&self, id: MachineId, what: &str) {
        self.tell_why(id, what, "");
    }

    /// Records an event of a machine and its reason in the trace. The reason may name files, whose
    /// names differ from run to run, so only `what` enters the hash.
    pub fn tell_why(&self, id: MachineId, what: &str, why: &str) {
        let numbers = [2, u64::from(id), sim::hash(what)];
        self.net.with_trace(|now, trace| {
            trace.tell(now, &numbers, format!("{} {what}{why}", name(id)));
        });
    }

    /// Ends the process of a machine immediately, as SIGKILL or a power cut does.
    ///
    /// # Errors
    /// If the file system rejects a change.
    pub fn end(&mut self, id: MachineId, with_power: bool, rows: RowsFate) -> io::Result<()> {
        let (seed, starts) = (self.seed, self.starts);
        let net = self.net.clone();
        let Some(machine) = self.machines.get_mut(&id) else {
            return Ok(());
        };
        if machine.process.is_none() {
            return Ok(());
        }
        if !with_power {
            net.power_off(id);
            machine.boots += 1;
        }
        // What destructors of the process still write must not reach the disk.
        let mut count = 0;
        let mut draw = |end: u64| {
            count += 1;
            mix(mix(seed, starts), count) % end.max(1)
        };
        let data_dir = machine.data_dir();
        let state_dir = machine.state_dir();
        let fate = match rows {
            RowsFate::Lose(most) => disks::RowsCrash::Lose(most),
            RowsFate::Remove => disks::RowsCrash::Remove,
            RowsFate::Damage => disks::RowsCrash::Damage,
        };
        let is_store = matches!(machine.role, Role::Store(_));
        if is_store && with_power {
            disks::kill(&data_dir, fate, &mut draw);
        }
        net.end_process(id, || {
            machine.forget_handle();
            machine.process = None;
        });
        machine.clock.forget_pause();
        match (with_power, is_store) {
            (true, _) => Ok(()),
            (false, true) => disks::cut_power(&data_dir, fate, &mut draw),
            (false, false) => files::cut_power(&[state_dir], &mut draw),
        }
    }

    /// Starts the process of a machine that has none, with its power if that was cut.
    ///
    /// # Errors
    /// If [`Cluster::start`] fails.
    pub fn bring_back(&mut self, id: MachineId) -> io::Result<()> {
        let machine = self.machines.get(&id);
        let is_down = machine.is_some_and(|m| m.in_use && m.process.is_none());
        if is_down {
            self.net.power_on(id);
            self.start(id)?;
        }
        Ok(())
    }

    /// Returns the stores in use.
    pub fn stores(&self) -> Vec<MachineId> {
        self.in_use(|machine| matches!(machine.role, Role::Store(_)))
    }

    /// Returns the AllocSvrs in use.
    pub fn allocs(&self) -> Vec<MachineId> {
        self.in_use(|machine| matches!(machine.role, Role::Alloc(_)))
    }

    fn in_use(&self, is_one: impl Fn(&Machine) -> bool) -> Vec<MachineId> {
        let machines = self.machines.values();
        let found = machines.filter(|machine| machine.in_use && is_one(machine));
        found.map(|machine| machine.id).collect()
    }

    /// Returns the store that sees itself as the leader; of several, the one of the greatest term.
    pub fn leader(&self) -> Option<MachineId> {
        let views = self
            .machines
            .values()
            .filter_map(|m| Some((m.id, m.store()?.look())));
        let leaders = views.filter(|(_, view)| view.is_leader);
        leaders.max_by_key(|(_, view)| view.term).map(|(id, _)| id)
    }

    /// Returns the AllocSvr that owns most slots.
    pub fn owner(&self) -> Option<MachineId> {
        let views = self
            .machines
            .values()
            .filter_map(|m| Some((m.id, m.alloc()?.look())));
        views
            .max_by_key(|(id, view)| (view.slots.len(), *id))
            .map(|(id, _)| id)
    }
}

/// Returns the name of a machine in reports, which is also the name of an AllocSvr.
pub fn name(id: MachineId) -> String {
    match id {
        0..=10 => format!("s{id}"),
        11..=20 => format!("a{}", id - 10),
        _ => format!("c{}", id - 20),
    }
}
