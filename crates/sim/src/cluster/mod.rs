//! Machines of a run (stores, AllocSvrs and clients), and how their processes start and end.

mod machine_ids;
mod membership_changes;
mod server_options;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use seqsvr_alloc::{AllocServer, Clock};
use seqsvr_core::ids::ClusterId;
use seqsvr_core::lease::ClockReading;
use seqsvr_core::sim::{self, mix_bits};
use seqsvr_os::simulated_files;
use seqsvr_store::StoreServer;
use seqsvr_store::sim as disks;

use crate::machine::{
    ClockSet, HolderStart, MachineClock, MachineRole, Rates, SimMachine, SimProcess,
};
use crate::network::{MachineId, SimNetwork, machine_transport};
use crate::plan::{ClusterSetup, RowsCrashEffect, RunPlan};
use machine_ids::STORES_MAX;
pub use machine_ids::{
    alloc_address, client_ids, holder_ids, initial_alloc_ids, initial_store_ids, machine_name,
    store_address,
};
use server_options::{alloc_options, store_options};

/// All machines of a run.
pub struct SimCluster {
    seed: u64,
    /// Options of the servers.
    pub setup: ClusterSetup,
    /// Simulated network.
    pub net: SimNetwork,
    /// Machines by number.
    pub machines: BTreeMap<MachineId, SimMachine>,
    /// Simulated time, ms.
    pub now_ms: u64,
    /// Time at which all stores were last wiped to make another cluster of them, ms.
    pub remade_at_ms: Option<u64>,
    start_count: u64,
}

/// Clocks of a machine as an AllocSvr reads them.
struct AllocClock(MachineClock);

impl Clock for AllocClock {
    fn now(&self) -> ClockReading {
        self.0.read_as_alloc()
    }
}

impl SimCluster {
    /// Creates all machines of a plan, without processes. Their directories lie below `root`;
    /// `start_holder` returns how the process of a holder starts.
    pub fn new(
        plan: &RunPlan,
        net: SimNetwork,
        root: &Path,
        start_holder: impl Fn(MachineId) -> HolderStart,
    ) -> SimCluster {
        let setup = plan.setup.clone();
        let servers = initial_store_ids(&setup).chain(initial_alloc_ids(&setup));
        let rates: BTreeMap<MachineId, Rates> = servers.zip(plan.rates.iter().copied()).collect();
        let mut machines = BTreeMap::new();
        let mut add = |id: MachineId, role: MachineRole, clocks: ClockSet| {
            let delayed_net = net.clone();
            let delay_output = move |until| delayed_net.delay_output_until(id, until);
            let machine = SimMachine {
                id,
                role,
                clock: MachineClock::new(clocks, delay_output),
                process: None,
                start_error: Arc::default(),
                is_in_use: false,
                was_used: false,
                is_wiped: false,
                may_end_by_itself: false,
                is_removed: false,
                store_id: u64::from(id),
                boot_count: 1,
                root_dir: root.join(format!("m{id}")),
            };
            machines.insert(id, machine);
        };
        for id in (1..=STORES_MAX).chain(11..=11 + setup.allocs) {
            let role = match id <= STORES_MAX {
                true => MachineRole::Store(Arc::default()),
                false => MachineRole::Alloc(Arc::default()),
            };
            net.add_host(store_address(id), id);
            let rates = rates.get(&id).copied().unwrap_or(Rates::TRUE);
            add(id, role, ClockSet::new(rates));
        }
        for id in client_ids(&setup) {
            add(id, MachineRole::Client, ClockSet::new(Rates::TRUE));
        }
        for id in holder_ids(&setup) {
            let role = MachineRole::Holder(start_holder(id));
            add(id, role, ClockSet::new(Rates::TRUE));
        }
        SimCluster {
            seed: plan.seed,
            setup,
            net,
            machines,
            now_ms: 0,
            remade_at_ms: None,
            start_count: 0,
        }
    }

    /// Starts the process of a machine that has none.
    ///
    /// # Errors
    /// If the operating system provides no runtime.
    pub fn start_process(&mut self, id: MachineId) -> io::Result<()> {
        self.start_count += 1;
        let stores = self.configured_stores();
        let remade_cluster = self.remade_cluster();
        let Some(machine) = self.machines.get_mut(&id) else {
            return Ok(());
        };
        let process = SimProcess::new(
            self.start_count,
            self.seed,
            machine.clock.clone(),
            self.now_ms,
        )?;
        sim::set_boot(self.start_count, format!("{id}.{}", machine.boot_count));
        *machine.start_error.lock() = None;
        let setup = &self.setup;
        let transport = machine_transport(&self.net, id);
        let start_error = machine.start_error.clone();
        let store_id = machine.store_id;
        let (clock, wall_clock) = (machine.clock.clone(), machine.clock.clone());
        match &machine.role {
            MachineRole::Store(running) => {
                let options = store_options(setup, store_id, id, machine.data_dir());
                let environment = seqsvr_store::StoreEnvironment {
                    wall_clock: Arc::new(move || wall_clock.peek_wall()),
                    clock: Arc::new(move || clock.read_as_store()),
                    transport,
                    core: None,
                };
                let running = running.clone();
                process.spawn_task(async move {
                    match StoreServer::start_in(options, environment).await {
                        Ok(store) => *running.lock() = Some(store),
                        Err(e) => *start_error.lock() = Some(e.to_string()),
                    }
                });
            }
            MachineRole::Alloc(running) => {
                let seed = mix_bits(self.seed, self.start_count);
                let options =
                    alloc_options(setup, id, &machine.root_dir, seed, &stores, remade_cluster);
                let environment = seqsvr_alloc::AllocEnvironment {
                    clock: Arc::new(AllocClock(clock)),
                    transport,
                    background: None,
                    lease: None,
                };
                let running = running.clone();
                process.spawn_task(async move {
                    match AllocServer::start_in(options, environment).await {
                        Ok(alloc) => *running.lock() = Some(alloc),
                        Err(e) => *start_error.lock() = Some(e.to_string()),
                    }
                });
            }
            MachineRole::Client => {}
            MachineRole::Holder(start) => process.spawn_task(start(clock)),
        }
        machine.process = Some(process);
        self.trace_event(id, "starts");
        Ok(())
    }

    /// Records an event of a machine in the trace.
    pub fn trace_event(&self, id: MachineId, what: &str) {
        self.trace_event_with_reason(id, what, "");
    }

    /// Records an event of a machine and its reason in the trace. The reason may name files, whose
    /// names differ from run to run, so only `what` enters the hash.
    pub fn trace_event_with_reason(&self, id: MachineId, what: &str, why: &str) {
        let numbers = [2, u64::from(id), sim::hash_text(what)];
        self.net.with_trace(|now, trace| {
            trace.record_reported_event(now, &numbers, format!("{} {what}{why}", machine_name(id)));
        });
    }

    /// Ends the process of a machine immediately, as SIGKILL or a power cut does.
    ///
    /// # Errors
    /// If the file system rejects a change.
    pub fn end_process(
        &mut self,
        id: MachineId,
        with_power: bool,
        rows: RowsCrashEffect,
    ) -> io::Result<()> {
        let (seed, start_count) = (self.seed, self.start_count);
        let net = self.net.clone();
        let Some(machine) = self.machines.get_mut(&id) else {
            return Ok(());
        };
        if machine.process.is_none() {
            return Ok(());
        }
        if !with_power {
            net.power_off(id);
            machine.boot_count += 1;
        }
        // What destructors of the process still write must not reach the disk.
        let mut count = 0;
        let mut draw = |end: u64| {
            count += 1;
            mix_bits(mix_bits(seed, start_count), count) % end.max(1)
        };
        let data_dir = machine.data_dir();
        let state_dir = machine.state_dir();
        let fate = match rows {
            RowsCrashEffect::Lose(most) => disks::RowsCrash::Lose(most),
            RowsCrashEffect::Remove => disks::RowsCrash::Remove,
            RowsCrashEffect::Damage => disks::RowsCrash::Damage,
        };
        let is_store = matches!(machine.role, MachineRole::Store(_));
        if is_store && with_power {
            disks::kill(&data_dir, fate, &mut draw);
        }
        net.end_process(id, || {
            machine.drop_handle();
            machine.process = None;
        });
        machine.clock.cancel_pause();
        match (with_power, is_store) {
            (true, _) => Ok(()),
            (false, true) => disks::cut_power(&data_dir, fate, &mut draw),
            (false, false) => simulated_files::cut_power(&[state_dir], &mut draw),
        }
    }

    /// Starts the process of a machine that has none, with its power if that was cut.
    ///
    /// # Errors
    /// If [`SimCluster::start_process`] fails.
    pub fn restore_process(&mut self, id: MachineId) -> io::Result<()> {
        let machine = self.machines.get(&id);
        let is_down = machine.is_some_and(|m| m.is_in_use && m.process.is_none());
        if is_down {
            self.net.power_on(id);
            self.start_process(id)?;
        }
        Ok(())
    }

    /// Returns the cluster that was made after all stores were wiped, once a store belongs to it.
    fn remade_cluster(&self) -> Option<ClusterId> {
        self.remade_at_ms?;
        let stores = self.stores_in_use().into_iter();
        let mut clusters = stores
            .filter_map(|id| self.machines[&id].running_store())
            .filter_map(|store| store.identity().cluster);
        clusters.next()
    }

    /// Returns the stores in use.
    pub fn stores_in_use(&self) -> Vec<MachineId> {
        self.machines_in_use(|machine| matches!(machine.role, MachineRole::Store(_)))
    }

    /// Returns the stores that an operator names to an AllocSvr. More than half of them must answer
    /// its start, so copies of directories and removed stores are not among them.
    fn configured_stores(&self) -> Vec<MachineId> {
        self.machines_in_use(|machine| {
            let is_store = matches!(machine.role, MachineRole::Store(_));
            let is_original = machine.store_id == u64::from(machine.id);
            is_store && is_original && !machine.is_removed
        })
    }

    /// Returns the AllocSvrs in use.
    pub fn allocs_in_use(&self) -> Vec<MachineId> {
        self.machines_in_use(|machine| matches!(machine.role, MachineRole::Alloc(_)))
    }

    /// Returns the holders in use.
    pub fn holders_in_use(&self) -> Vec<MachineId> {
        self.machines_in_use(|machine| matches!(machine.role, MachineRole::Holder(_)))
    }

    fn machines_in_use(&self, is_selected: impl Fn(&SimMachine) -> bool) -> Vec<MachineId> {
        let machines = self.machines.values();
        let found = machines.filter(|machine| machine.is_in_use && is_selected(machine));
        found.map(|machine| machine.id).collect()
    }

    /// Returns the store that sees itself as the leader; of several, the one of the greatest term.
    pub fn find_leader(&self) -> Option<MachineId> {
        let views = self
            .machines
            .values()
            .filter_map(|m| Some((m.id, m.running_store()?.look())));
        let leaders = views.filter(|(_, view)| view.is_leader);
        leaders.max_by_key(|(_, view)| view.term).map(|(id, _)| id)
    }

    /// Returns the AllocSvr that owns most slots.
    pub fn find_largest_owner(&self) -> Option<MachineId> {
        let views = self
            .machines
            .values()
            .filter_map(|m| Some((m.id, m.running_alloc()?.look())));
        views
            .max_by_key(|(id, view)| (view.slots.len(), *id))
            .map(|(id, _)| id)
    }
}
