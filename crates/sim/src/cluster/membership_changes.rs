//! Changes of the machines in use: they join, leave, or lose their disks.

use std::io;

use seqsvr_store::sim as disks;

use super::SimCluster;
use super::machine_ids::{STORES_MAX, initial_store_ids};
use crate::network::MachineId;
use crate::plan::RowsCrashEffect;

impl SimCluster {
    /// Starts a machine with an empty disk.
    ///
    /// # Errors
    /// If [`SimCluster::start_process`] fails.
    pub fn start_with_empty_disk(&mut self, id: MachineId) -> io::Result<()> {
        self.take_into_use(id)?;
        self.start_process(id)
    }

    /// Takes a machine into use with an empty disk.
    fn take_into_use(&mut self, id: MachineId) -> io::Result<()> {
        let sync_ms = self.setup.sync_ms;
        if let Some(machine) = self.machines.get_mut(&id) {
            (machine.is_in_use, machine.was_used) = (true, true);
            disks::remove(&machine.data_dir())?;
            if machine.root_dir.exists() {
                std::fs::remove_dir_all(&machine.root_dir)?;
            }
            disks::set_syncs(&machine.data_dir(), sync_ms, false);
        }
        Ok(())
    }

    /// Starts an unused machine as a store of this id; with `copied_from`, on a copy of that
    /// store's directory. None if all machines were used.
    ///
    /// # Errors
    /// If [`SimCluster::start_process`] fails.
    pub fn start_spare_store(
        &mut self,
        store_id: Option<u64>,
        copied_from: Option<MachineId>,
    ) -> io::Result<Option<MachineId>> {
        let is_unused = |id: &MachineId| self.machines.get(id).is_some_and(|m| !m.was_used);
        let Some(id) = (1..=STORES_MAX).find(is_unused) else {
            return Ok(None);
        };
        let from = copied_from.and_then(|from| self.machines.get(&from));
        let from = from.map(|machine| machine.data_dir());
        if let Some(machine) = self.machines.get_mut(&id) {
            machine.store_id = store_id.unwrap_or(u64::from(id));
        }
        self.take_into_use(id)?;
        if let (Some(from), Some(machine)) = (from, self.machines.get(&id)) {
            disks::copy(&from, &machine.data_dir())?;
        }
        self.start_process(id)?;
        Ok(Some(id))
    }

    /// Starts the AllocSvr that does not run from the start. None if it has been started before.
    ///
    /// # Errors
    /// If [`SimCluster::start_process`] fails.
    pub fn start_spare_alloc(&mut self) -> io::Result<Option<MachineId>> {
        let id = 11 + self.setup.allocs;
        match self.machines.get(&id).is_some_and(|m| m.was_used) {
            true => Ok(None),
            false => self.start_with_empty_disk(id).map(|()| Some(id)),
        }
    }

    /// Records that a fault explains if the server of a machine ends by itself.
    pub fn excuse_stop(&mut self, id: MachineId) {
        if let Some(machine) = self.machines.get_mut(&id) {
            machine.may_end_by_itself = true;
        }
    }

    /// Records that a server has left the cluster. It keeps running until all faults end.
    pub fn mark_removed(&mut self, id: MachineId) {
        if let Some(machine) = self.machines.get_mut(&id) {
            (machine.is_removed, machine.may_end_by_itself) = (true, true);
        }
    }

    /// Ends the process of a machine, and excludes the machine from the run.
    ///
    /// # Errors
    /// If the file system rejects a change.
    pub fn discard_machine(&mut self, id: MachineId) -> io::Result<()> {
        self.trace_event(id, "is given up");
        self.end_process(id, true, RowsCrashEffect::Lose(0))?;
        if let Some(machine) = self.machines.get_mut(&id) {
            machine.is_in_use = false;
        }
        Ok(())
    }

    /// Kills a store, deletes its disk and restarts it.
    ///
    /// # Errors
    /// If [`SimCluster::start_process`] fails.
    pub fn wipe_store(&mut self, id: MachineId) -> io::Result<()> {
        self.trace_event(id, "is wiped");
        self.end_process(id, true, RowsCrashEffect::Lose(0))?;
        if let Some(machine) = self.machines.get_mut(&id) {
            (machine.is_wiped, machine.may_end_by_itself) = (true, true);
        }
        self.net.power_on(id);
        self.start_with_empty_disk(id)
    }

    /// Wipes all stores, and all AllocSvrs except the first `kept`, so that an operator can
    /// initialize another cluster.
    ///
    /// # Errors
    /// If [`SimCluster::start_process`] fails.
    pub fn wipe_cluster(&mut self, kept: u32) -> io::Result<()> {
        self.remade_at_ms = Some(self.now_ms);
        for id in self.stores_in_use() {
            self.discard_machine(id)?;
        }
        for id in initial_store_ids(&self.setup) {
            self.wipe_store(id)?;
        }
        for machine in self.machines.values_mut() {
            (machine.is_wiped, machine.is_removed) = (false, false);
            // AllocSvrs end when their cluster no longer exists.
            machine.may_end_by_itself = true;
        }
        for id in self.allocs_in_use().into_iter().skip(kept as usize) {
            self.end_process(id, true, RowsCrashEffect::Lose(0))?;
            self.net.power_on(id);
            self.start_with_empty_disk(id)?;
        }
        Ok(())
    }

    /// Returns the id of the store on a machine.
    pub fn store_id(&self, id: MachineId) -> u64 {
        self.machines.get(&id).map_or(0, |machine| machine.store_id)
    }
}
