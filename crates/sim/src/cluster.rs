//! The machines of a run: stores, AllocSvrs and clients, and how their processes start and end.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_alloc::{Alloc, Clock};
use seqsvr_core::lease::Reading;
use seqsvr_core::sim::{self, mix};
use seqsvr_store::Store;
use seqsvr_store::sim as disks;

use crate::clock::Clocks;
use crate::net::{MachineId, Net};
use crate::plan::{Plan, RowsFate, Setup};
use crate::process::{MachineClock, Process};

/// What runs on a machine.
#[derive(Clone)]
pub enum Role {
    /// A store, once it has started.
    Store(Arc<Mutex<Option<Store>>>),
    /// An AllocSvr, once it has started.
    Alloc(Arc<Mutex<Option<Alloc>>>),
    /// Callers.
    Client,
}

/// A machine and its process.
pub struct Machine {
    /// Its number.
    pub id: MachineId,
    /// What runs on it.
    pub role: Role,
    /// Its clocks.
    pub clock: MachineClock,
    /// Its process; None: it does not run.
    pub process: Option<Process>,
    /// Why its process did not start.
    pub refusal: Arc<Mutex<Option<String>>>,
    /// How often it was started up.
    boots: u64,
    dir: PathBuf,
}

/// All machines of a run.
pub struct Cluster {
    seed: u64,
    /// Options of the servers.
    pub setup: Setup,
    /// The network.
    pub net: Net,
    /// Machines by number.
    pub machines: BTreeMap<MachineId, Machine>,
    /// World time, ms.
    pub now: u64,
    starts: u64,
}

/// Numbers of the stores.
pub fn stores(setup: &Setup) -> impl Iterator<Item = MachineId> + use<> {
    1..=setup.stores
}

/// Numbers of the AllocSvrs.
pub fn allocs(setup: &Setup) -> impl Iterator<Item = MachineId> + use<> {
    11..11 + setup.allocs
}

/// Numbers of the clients.
pub fn clients(setup: &Setup) -> impl Iterator<Item = MachineId> + use<> {
    21..21 + setup.clients
}

/// Where a store listens.
pub fn store_address(id: MachineId) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, id as u8], 7800))
}

/// Where an AllocSvr listens.
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
    /// All machines of a plan, without processes. Their directories lie below `root`.
    pub fn new(plan: &Plan, net: Net, root: &Path) -> Cluster {
        let setup = plan.setup.clone();
        let servers = stores(&setup).chain(allocs(&setup));
        let with_rates: Vec<_> = servers.zip(plan.rates.iter().copied()).collect();
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
                boots: 1,
                dir: root.join(format!("m{id}")),
            };
            machines.insert(id, machine);
        };
        for (id, rates) in with_rates {
            let role = match id < 11 {
                true => Role::Store(Arc::default()),
                false => Role::Alloc(Arc::default()),
            };
            net.add_host(store_address(id), id);
            add(id, role, Clocks::new(rates));
        }
        for id in clients(&setup) {
            add(id, Role::Client, Clocks::new(crate::clock::Rates::TRUE));
        }
        Cluster {
            seed: plan.seed,
            setup,
            net,
            machines,
            now: 0,
            starts: 0,
        }
    }

    /// Starts the process of a machine that has none.
    ///
    /// # Errors
    /// The system gives no runtime.
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
        let clock = machine.clock.clone();
        match &machine.role {
            Role::Store(running) => {
                let options = store_options(setup, id, machine.data_dir());
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

    /// Writes to the trace what happens to a machine.
    pub fn tell(&self, id: MachineId, what: &str) {
        let numbers = [2, u64::from(id), sim::hash(what)];
        self.net
            .with_trace(|now, trace| trace.tell(now, &numbers, format!("{} {what}", name(id))));
    }

    /// Ends the process of a machine at once.
    ///
    /// # Errors
    /// Those of the file system.
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
        // What its destructors still write must not reach the disk.
        let mut count = 0;
        let mut draw = |end: u64| {
            count += 1;
            mix(mix(seed, starts), count) % end.max(1)
        };
        let data_dir = machine.data_dir();
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
        if is_store && !with_power {
            disks::cut_power(&data_dir, fate, &mut draw)?;
        }
        Ok(())
    }

    /// Gives a machine its power back, if it had none, and starts its process.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn bring_back(&mut self, id: MachineId) -> io::Result<()> {
        let is_down = self.machines.get(&id).is_some_and(|m| m.process.is_none());
        if is_down {
            self.net.power_on(id);
            self.start(id)?;
        }
        Ok(())
    }

    /// The store that leads, as far as one says so. Of several that of the greatest term.
    pub fn leader(&self) -> Option<MachineId> {
        let views = self
            .machines
            .values()
            .filter_map(|m| Some((m.id, m.store()?.look())));
        let leaders = views.filter(|(_, view)| view.is_leader);
        leaders.max_by_key(|(_, view)| view.term).map(|(id, _)| id)
    }

    /// The AllocSvr that owns most slots.
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

/// Name of a machine, for people and as the name of an AllocSvr.
pub fn name(id: MachineId) -> String {
    match id {
        0..=10 => format!("s{id}"),
        11..=20 => format!("a{}", id - 10),
        _ => format!("c{}", id - 20),
    }
}

impl Machine {
    /// Where its server keeps what must last.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Its store, if it runs.
    pub fn store(&self) -> Option<Store> {
        match &self.role {
            Role::Store(running) if self.process.is_some() => running.lock().clone(),
            _ => None,
        }
    }

    /// Its AllocSvr, if it runs.
    pub fn alloc(&self) -> Option<Alloc> {
        match &self.role {
            Role::Alloc(running) if self.process.is_some() => running.lock().clone(),
            _ => None,
        }
    }

    fn forget_handle(&self) {
        match &self.role {
            Role::Store(running) => drop(running.lock().take()),
            Role::Alloc(running) => drop(running.lock().take()),
            Role::Client => {}
        }
    }
}

fn store_options(setup: &Setup, id: MachineId, data_dir: PathBuf) -> seqsvr_store::Options {
    seqsvr_store::Options {
        heartbeat_ms: setup.heartbeat_ms,
        election_min_ms: 2 * setup.heartbeat_ms,
        election_max_ms: 4 * setup.heartbeat_ms,
        snapshot_every_entries: setup.snapshot_every,
        ..seqsvr_store::Options::new(u64::from(id), store_address(id), data_dir)
    }
}

fn alloc_options(setup: &Setup, id: MachineId, dir: &Path, seed: u64) -> seqsvr_alloc::Options {
    let stores = stores(setup)
        .map(|id| store_address(id).to_string())
        .collect();
    seqsvr_alloc::Options {
        seed: Some(seed),
        // No service manager would start it again.
        name_wait: Duration::from_secs(3_600),
        idle_after: Duration::from_millis(setup.idle_after_ms),
        // Some prove that they are restarted, the others wait.
        state_dir: (id % 2 == 1).then(|| dir.join("state")),
        ..seqsvr_alloc::Options::new(name(id), alloc_address(id), stores)
    }
}
